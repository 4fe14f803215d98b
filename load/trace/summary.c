/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the rows.  Counts are exact and take fixed memory; what depends on which objects
 * were seen before is reuse.c's.
 */
#include "load/trace/summary.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/keyhash.h"
#include "base/util.h"

/* -------------------------------------------------------------------- bins */

static unsigned bin_of(uint64_t v)
{
	unsigned top = v ? 63 - (unsigned)__builtin_clzll(v) : 0;

	if (top < 5)
		return (unsigned)v; /* below 32: exact */
	return (top - 4) * 32 + (unsigned)(v >> (top - 5)) % 32;
}

/* The largest value of a bin. */
static uint64_t bin_top(unsigned bin)
{
	unsigned shift = bin / 32 ? bin / 32 - 1 : 0;

	if (bin < 32)
		return bin;
	return ((32 + (uint64_t)bin % 32) << shift) + ((1ull << shift) - 1);
}

void trace_bins_add(struct trace_bins *b, uint64_t v, uint64_t weight)
{
	b->bin[bin_of(v)] += weight;
	b->count += weight;
}

uint64_t trace_bins_quantile(const struct trace_bins *b, double p)
{
	double want = p * (double)b->count, have = 0;
	uint64_t top = 0;

	for (unsigned i = 0; i < TRACE_BINS; i++) {
		if (!b->bin[i])
			continue;
		top = bin_top(i);
		have += (double)b->bin[i];
		if (have >= want)
			break;
	}
	return top;
}

uint64_t trace_bins_upto(const struct trace_bins *b, uint64_t v)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < TRACE_BINS && bin_top(i) <= v; i++)
		n += b->bin[i];
	return n;
}

/* ------------------------------------------------------------------ adding */

struct summarizer {
	struct trace_summary *s;
	const struct trace_summary_opts *o;
	struct reuse *reuse;
	uint64_t begin_ns, last_ns; /* of the first row, of the row before */
};

/* Sixty-four windows in the first second, then ever wider ones. */
static const uint64_t first_window_ns = 1000000000 / REUSE_WINDOWS;

static void widen(struct trace_summary *s, struct reuse *reuse)
{
	for (unsigned i = 0; i < REUSE_WINDOWS; i++) {
		struct trace_window w = s->window[i];

		s->window[i] = (struct trace_window){.rows = 0};
		s->window[i / 2].rows += w.rows;
		s->window[i / 2].read_bytes += w.read_bytes;
		s->window[i / 2].write_bytes += w.write_bytes;
	}
	s->window_ns *= 2;
	reuse_widen(reuse);
}

/* The window of a time; what is before the first row belongs to the first. */
static unsigned window_of(struct summarizer *m, uint64_t ns)
{
	uint64_t since = ns > m->begin_ns ? ns - m->begin_ns : 0;

	while (since / m->s->window_ns >= REUSE_WINDOWS)
		widen(m->s, m->reuse);
	return (unsigned)(since / m->s->window_ns);
}

static void add_time(struct summarizer *m, uint64_t ns)
{
	struct trace_summary *s = m->s;

	if (!s->rows) {
		m->begin_ns = s->first_ns = s->last_ns = m->last_ns = ns;
		s->window_ns = first_window_ns;
	}
	s->first_ns = min_u64(s->first_ns, ns);
	s->last_ns = max_u64(s->last_ns, ns);
	if (ns < m->last_ns) {
		s->backwards++;
		s->back_max_ns = max_u64(s->back_max_ns, m->last_ns - ns);
	}
	m->last_ns = ns;
}

static int add_use(struct summarizer *m, const struct trace_row *row, unsigned window)
{
	struct trace_summary *s = m->s;
	/* Of a file every place is an object of its own. */
	uint64_t hash = penstock_key_hash(row->key, row->key_len, row->offset);
	struct reuse_hit hit;
	int r;

	if (row->op == TRACE_DELETE)
		reuse_remove(m->reuse, hash);
	if (row->op > TRACE_WRITE || !row->key_len)
		return 0;
	r = reuse_touch(m->reuse, hash, row->size, window, &hit);
	if (trace_is_demotion(row))
		reuse_remove(m->reuse, hash);
	if (r != 1 || row->op != TRACE_READ)
		return r;
	s->reads += hit.weight;
	if (hit.again) {
		trace_bins_add(&s->objects, hit.objects, hit.weight);
		trace_bins_add(&s->distance, hit.bytes, hit.weight);
	} else {
		s->first_reads += hit.weight;
	}
	return 0;
}

/* Is one tier alone looked at?  Then what comes into it is used by it. */
static bool one_tier(unsigned tiers)
{
	return is_pow2(tiers);
}

static int add_row(struct summarizer *m, const struct trace_row *row)
{
	struct trace_summary *s = m->s;
	unsigned tier = row->tier < TRACE_TIERS ? row->tier : TRACE_TIERS, window;
	struct trace_sum *sum = &s->sum[row->op][tier][row->phase];

	if (m->o->tiers && !(m->o->tiers >> tier & 1))
		return 0;
	add_time(m, row->time_ns);
	window = window_of(m, row->time_ns);
	s->rows++;
	s->bytes += row->size;
	s->failed += row->failed;
	sum->rows++;
	sum->bytes += row->size;
	penstock_hist_add(&s->sizes, row->size);
	s->window[window].rows++;
	s->window[window].read_bytes += row->op == TRACE_READ ? row->size : 0;
	s->window[window].write_bytes += row->op == TRACE_WRITE ? row->size : 0;
	if (row->phase == TRACE_EVICT && !one_tier(m->o->tiers))
		return 0;
	return add_use(m, row, window);
}

static void summary_finish(struct summarizer *m, const struct trace_reader *r)
{
	struct trace_summary *s = m->s;
	uint64_t objects[REUSE_WINDOWS], bytes[REUSE_WINDOWS];

	reuse_totals(m->reuse, &s->keys);
	reuse_windows(m->reuse, objects, bytes);
	if (s->rows)
		s->nr_windows = 1 + window_of(m, s->last_ns);
	for (unsigned i = 0; i < s->nr_windows; i++) {
		s->window[i].objects = objects[i];
		s->window[i].bytes = bytes[i];
	}
	s->format = trace_reader_format(r);
	s->bad = *trace_reader_bad(r);
}

static int summary_read_all(struct summarizer *m, struct trace_reader *r, struct penstock_err *err)
{
	struct trace_row row;
	int n;

	while ((n = trace_read(r, &row, err)) == 1) {
		if (add_row(m, &row) < 0)
			return penstock_fail(err, -ENOMEM, "out of memory");
		if (asked_to_stop(m->o->stop))
			return penstock_fail(err, -EINTR, "stopped");
	}
	if (n == 0)
		summary_finish(m, r);
	return n;
}

int trace_summary_make(struct trace_summary **out, const char *path,
		       const struct trace_reader_opts *ro, const struct trace_summary_opts *o,
		       struct penstock_err *err)
{
	CLEANUP_FREE struct trace_summary *s = calloc(1, sizeof(*s));
	struct summarizer m = {.s = s, .o = o};
	struct trace_reader *r = NULL;
	int n;

	m.reuse = reuse_new(o->max_keys ? o->max_keys : REUSE_KEYS);
	if (!s || !m.reuse)
		n = penstock_fail(err, -ENOMEM, "out of memory");
	else
		n = trace_reader_open(&r, path, ro, err);
	if (n == 0)
		n = summary_read_all(&m, r, err);
	trace_reader_close(r);
	reuse_free(m.reuse);
	if (n == 0)
		*out = TAKE_PTR(s);
	return n;
}

struct trace_sum trace_summary_sum(const struct trace_summary *s, int op, int tier, int phase)
{
	struct trace_sum sum = {0, 0};

	for (int o = 0; o < TRACE_OPS; o++)
		for (int t = 0; t <= TRACE_TIERS; t++)
			for (int p = 0; p < TRACE_PHASES; p++) {
				if ((op >= 0 && o != op) || (tier >= 0 && t != tier) ||
				    (phase >= 0 && p != phase))
					continue;
				sum.rows += s->sum[o][t][p].rows;
				sum.bytes += s->sum[o][t][p].bytes;
			}
	return sum;
}
