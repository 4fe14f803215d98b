/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-linear buckets: values below 2^7 have a bucket each; above, the highest
 * set bit chooses an octave and the seven bits behind it the bucket in there.
 */
#include "base/hist.h"

#include "base/util.h"

#define SUB (1u << PENSTOCK_HIST_BITS)

static unsigned hist_bucket(uint64_t ns)
{
	unsigned shift;

	if (ns < SUB)
		return (unsigned)ns;
	if (ns >> PENSTOCK_HIST_TOP)
		return PENSTOCK_HIST_SIZE - 1;
	shift = 63u - (unsigned)__builtin_clzll(ns) - PENSTOCK_HIST_BITS;
	return (shift << PENSTOCK_HIST_BITS) + (unsigned)(ns >> shift);
}

static void bucket_range(unsigned i, uint64_t *low, uint64_t *high)
{
	unsigned shift = i < 2 * SUB ? 0 : (i >> PENSTOCK_HIST_BITS) - 1;

	*low = (uint64_t)(i - (shift << PENSTOCK_HIST_BITS)) << shift;
	*high = *low + (1ull << shift);
}

void penstock_hist_add(struct penstock_hist *h, uint64_t ns)
{
	h->min = h->count ? min_u64(h->min, ns) : ns;
	h->max = max_u64(h->max, ns);
	h->bucket[hist_bucket(ns)]++;
	h->count++;
}

void penstock_hist_merge(struct penstock_hist *h, const struct penstock_hist *other)
{
	if (!other->count)
		return;
	h->min = h->count ? min_u64(h->min, other->min) : other->min;
	h->max = max_u64(h->max, other->max);
	h->count += other->count;
	for (unsigned i = 0; i < PENSTOCK_HIST_SIZE; i++)
		h->bucket[i] += other->bucket[i];
}

bool penstock_hist_next(const struct penstock_hist *h, unsigned *pos,
			struct penstock_hist_bucket *ret)
{
	while (*pos < PENSTOCK_HIST_SIZE && !h->bucket[*pos])
		++*pos;
	if (*pos == PENSTOCK_HIST_SIZE)
		return false;
	bucket_range(*pos, &ret->low, &ret->high);
	ret->count = h->bucket[(*pos)++];
	return true;
}

bool penstock_hist_add_bucket(struct penstock_hist *h, const struct penstock_hist_bucket *b)
{
	unsigned i = hist_bucket(b->low);
	uint64_t low, high;

	bucket_range(i, &low, &high);
	if (low != b->low || high != b->high || !b->count)
		return false;
	h->min = h->count ? min_u64(h->min, low) : low;
	h->max = max_u64(h->max, high - 1);
	h->bucket[i] += b->count;
	h->count += b->count;
	return true;
}

/* The value of rank @k (0: the smallest). */
static double value_at(const struct penstock_hist *h, uint64_t k)
{
	struct penstock_hist_bucket b;
	uint64_t before = 0;
	double v = 0;

	if (k == 0)
		return (double)h->min;
	if (k >= h->count - 1)
		return (double)h->max;
	for (unsigned pos = 0; penstock_hist_next(h, &pos, &b); before += b.count) {
		if (k >= before + b.count)
			continue;
		v = (double)b.low +
		    (double)(b.high - b.low) * ((double)(k - before) + 0.5) / (double)b.count;
		break;
	}
	/* The ends are known better than their buckets. */
	v = v < (double)h->min ? (double)h->min : v;
	return v > (double)h->max ? (double)h->max : v;
}

double penstock_hist_percentile(const struct penstock_hist *h, double p)
{
	double at, low;
	uint64_t k;

	if (!h->count)
		return 0;
	p = p < 0 ? 0 : p > 100 ? 100 : p;
	at = (double)(h->count - 1) * p / 100;
	k = (uint64_t)at;
	low = value_at(h, k);
	if ((double)k == at)
		return low;
	return low + (value_at(h, k + 1) - low) * (at - (double)k);
}
