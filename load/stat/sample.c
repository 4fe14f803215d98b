/* SPDX-License-Identifier: Apache-2.0 */
/* A reservoir (Vitter's algorithm R), and one beside a histogram; adding allocates only while it
 * grows. */
#include "load/stat/sample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "load/stat/stat.h"

#define FIRST_CAPACITY 16
#define FEW            1000 /* so many equal ones are kept like others */

/* --------------------------------------------------------------------- draws */

static uint64_t reservoir_random(struct reservoir *d, uint64_t below)
{
	return (uint64_t)((unsigned __int128)penstock_random_split(&d->random) * below >> 64);
}

/* Room for one more: it doubles whenever it is a power of two and full. */
static int reservoir_grow(struct reservoir *d)
{
	uint64_t capacity = min_u64(d->n ? 2 * d->n : FIRST_CAPACITY, d->keep);
	char *v;

	if (d->n && (d->n < FIRST_CAPACITY || !is_pow2(d->n)))
		return 0;
	v = reallocarray(d->v, capacity, d->size);
	if (!v)
		return -ENOMEM;
	d->v = v;
	return 0;
}

int reservoir_add(struct reservoir *d, const void *record)
{
	uint64_t i = d->n < d->keep ? d->n : reservoir_random(d, d->n + 1);

	if (d->n < d->keep && reservoir_grow(d) < 0)
		return -ENOMEM;
	if (i < d->keep)
		memcpy(reservoir_at(d, i), record, d->size);
	d->n++;
	return 0;
}

/* Move one of the first *@left of @from, at random, to @to. */
static void take_random(struct reservoir *d, char *to, char *from, uint64_t *left)
{
	char *x = from + reservoir_random(d, *left) * d->size;

	memcpy(to, x, d->size);
	memcpy(x, from + --*left * d->size, d->size);
}

/* A uniform draw of both together: each place is the one's or the other's by their numbers. */
static int reservoir_resample(struct reservoir *d, char *other, uint64_t n)
{
	uint64_t na = d->n, nb = n, la = reservoir_kept(d), lb = min_u64(n, d->keep);
	char *v = calloc(d->keep, d->size);

	if (!v)
		return -ENOMEM;
	for (uint64_t i = 0; i < d->keep; i++) {
		bool first = lb == 0 || (la && reservoir_random(d, na + nb) < na);

		if (first)
			take_random(d, v + i * d->size, d->v, &la);
		else
			take_random(d, v + i * d->size, other, &lb);
		na -= first && na;
		nb -= !first && nb;
	}
	free(d->v);
	d->v = v;
	d->n += n;
	return 0;
}

int reservoir_merge(struct reservoir *d, const struct reservoir *other, uint64_t behind)
{
	uint64_t kept = reservoir_kept(other);
	CLEANUP_FREE char *copy = calloc(kept + 1, d->size);
	int r = 0;

	if (!copy)
		return -ENOMEM;
	for (uint64_t i = 0; i < kept; i++) {
		memcpy(copy + i * d->size, reservoir_at(other, i), d->size);
		*(uint64_t *)(void *)(copy + i * d->size) += behind;
	}
	if (other->n > d->keep || d->n + other->n > d->keep)
		return reservoir_resample(d, copy, other->n);
	for (uint64_t i = 0; i < kept && r == 0; i++)
		r = reservoir_add(d, copy + i * d->size);
	return r;
}

static int by_place(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void reservoir_sort(struct reservoir *d)
{
	if (d->n)
		qsort(d->v, reservoir_kept(d), d->size, by_place);
}

void reservoir_fini(struct reservoir *d)
{
	free(d->v);
	*d = (struct reservoir){.size = d->size, .keep = d->keep};
}

/* ------------------------------------------------------------------- samples */

static int samples_begin(struct samples *s)
{
	s->kept.size = sizeof(struct sample);
	s->kept.keep = SAMPLE_KEEP;
	if (!s->hist)
		s->hist = calloc(1, sizeof(*s->hist));
	return s->hist ? 0 : -ENOMEM;
}

/* Only known to be equal: a list of them is not there. */
static bool is_compact(const struct samples *s)
{
	return s->n && !s->kept.n;
}

/* Make the list: something else is coming. */
static int store_all(struct samples *s)
{
	uint64_t nr = min_u64(s->n, SAMPLE_KEEP);
	int r = 0;

	for (uint64_t i = 0; i < nr && r == 0; i++)
		r = reservoir_add(&s->kept, &(struct sample){i * (s->n / nr), s->max});
	s->kept.n = s->n;
	return r;
}

int samples_add(struct samples *s, double sec)
{
	int r = is_compact(s) ? store_all(s) : samples_begin(s);

	sec = sec > 0 ? sec : 0;
	if (r == 0)
		r = reservoir_add(&s->kept, &(struct sample){s->n, sec});
	if (r < 0)
		return r;
	penstock_hist_add(s->hist, (uint64_t)(sec * 1e9 + 0.5));
	s->n++;
	s->sum += sec;
	s->max = sec > s->max ? sec : s->max;
	return 0;
}

void samples_fini(struct samples *s)
{
	reservoir_fini(&s->kept);
	free(s->hist);
	*s = (struct samples){0};
}

/* ------------------------------------------------------------------ reading */

double samples_mean(const struct samples *s)
{
	return s->n ? s->sum / (double)s->n : NAN;
}

/* The durations that are kept, in any order. */
static double *samples_values(const struct samples *s)
{
	uint64_t nr = min_u64(s->n, SAMPLE_KEEP);
	double *v = malloc((nr + 1) * sizeof(*v));

	for (uint64_t i = 0; v && i < nr; i++)
		v[i] = s->kept.n ? samples_at(s, i) : s->max;
	return v;
}

int samples_percentiles(const struct samples *s, const double *p, double *ret, unsigned nr)
{
	CLEANUP_FREE double *sorted = NULL;

	if (s->kept.n && samples_exact(s)) {
		sorted = samples_values(s);
		if (!sorted)
			return -ENOMEM;
		stat_sort(sorted, s->n);
	}
	for (unsigned i = 0; i < nr; i++)
		ret[i] = !s->n           ? NAN
			 : is_compact(s) ? s->max
			 : sorted        ? stat_percentile(sorted, s->n, p[i])
					 : penstock_hist_percentile(s->hist, p[i]) / 1e9;
	return 0;
}

double samples_percentile(const struct samples *s, double p)
{
	double v;

	return samples_percentiles(s, &p, &v, 1) < 0 ? NAN : v;
}

double *samples_list(const struct samples *s)
{
	struct samples ordered = *s;
	double *list;

	ordered.kept.v = calloc(reservoir_kept(&s->kept) + 1, sizeof(struct sample));
	if (!ordered.kept.v)
		return NULL;
	if (s->kept.n)
		memcpy(ordered.kept.v, s->kept.v, reservoir_kept(&s->kept) * s->kept.size);
	reservoir_sort(&ordered.kept);
	list = samples_values(&ordered);
	free(ordered.kept.v);
	return list;
}

/* ------------------------------------------------------------------ merging */

int samples_merge(struct samples *s, const struct samples *other)
{
	int r = samples_begin(s);

	if (r < 0 || !other->n)
		return r;
	if (is_compact(other))
		return samples_add_n(s, other->max, other->n);
	if (is_compact(s))
		r = store_all(s);
	if (r == 0)
		r = reservoir_merge(&s->kept, &other->kept, s->n);
	if (r < 0)
		return r;
	penstock_hist_merge(s->hist, other->hist);
	s->n += other->n;
	s->sum += other->sum;
	s->max = other->max > s->max ? other->max : s->max;
	return 0;
}

/* The histogram is that of one, times @n. */
static int sample_fill(struct samples *s, double sec, uint64_t n)
{
	if (samples_begin(s) < 0)
		return -ENOMEM;
	penstock_hist_add(s->hist, (uint64_t)(sec * 1e9 + 0.5));
	for (unsigned i = 0; i < PENSTOCK_HIST_SIZE; i++)
		s->hist->bucket[i] *= n;
	s->hist->count = s->n = n;
	s->sum = sec * (double)n;
	s->max = sec;
	return 0;
}

int samples_add_n(struct samples *s, double sec, uint64_t n)
{
	struct samples equal = {0};
	int r = 0;

	sec = sec > 0 ? sec : 0;
	if (n < FEW || (s->kept.n && s->n + n <= SAMPLE_KEEP)) {
		while (n-- && r == 0)
			r = samples_add(s, sec);
		return r;
	}
	if (!s->n)
		return sample_fill(s, sec, n);
	r = sample_fill(&equal, sec, n);
	if (r == 0)
		r = store_all(&equal);
	if (r == 0)
		r = samples_merge(s, &equal);
	samples_fini(&equal);
	return r;
}
