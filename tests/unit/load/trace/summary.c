/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a trace: reuse against a simple model, sampling against the truth, sums. */
#include "load/trace/summary.h"
#include "base/keyhash.h"
#include "base/random.h"
#include "tests/common/t.h"

/* --------------------------------------------- reuse, and a model that is slow but simple */

enum { OBJECTS = 50 };

/* The last first. */
struct model {
	unsigned nr, object[OBJECTS];
	uint64_t size[OBJECTS];
};

static int model_find(const struct model *m, unsigned object)
{
	for (unsigned i = 0; i < m->nr; i++)
		if (m->object[i] == object)
			return (int)i;
	return -1;
}

static void model_take(struct model *m, int at)
{
	m->nr--;
	for (unsigned i = (unsigned)at; i < m->nr; i++)
		m->object[i] = m->object[i + 1];
}

static void model_touch(struct model *m, unsigned object, uint64_t size)
{
	int at = model_find(m, object);

	if (at >= 0)
		model_take(m, at);
	memmove(m->object + 1, m->object, m->nr++ * sizeof(*m->object));
	m->object[0] = object;
	m->size[object] = size;
}

static uint64_t hash_of(unsigned object)
{
	return penstock_key_hash((const char *)&object, sizeof(object), 0);
}

static void check_touch(struct reuse *u, struct model *m, unsigned object, uint64_t size)
{
	int at = model_find(m, object);
	uint64_t bytes = 0;
	struct reuse_hit hit;

	for (int i = 0; i <= at; i++)
		bytes += m->size[m->object[i]];
	T_EQ(reuse_touch(u, hash_of(object), size, object % REUSE_WINDOWS, &hit), 1);
	T_EQ(hit.again, at >= 0);
	T_EQ(hit.weight, 1);
	if (at >= 0) {
		T_EQ(hit.objects, at + 1);
		T_EQ(hit.bytes, bytes);
	}
	model_touch(m, object, size);
}

static void distances_are_those_of_an_lru_list(void)
{
	struct reuse *u = reuse_new(1000);
	struct model m = {.nr = 0};
	struct penstock_random r;
	uint64_t live, peak = 0;

	T_OK(u);
	penstock_random_seed(&r, t_seed());
	for (unsigned i = 0; i < 20000; i++) {
		unsigned object =
			(unsigned)penstock_random_below(&r, 1 + penstock_random_below(&r, OBJECTS));
		struct reuse_totals t;

		if (penstock_random_below(&r, 10)) {
			check_touch(u, &m, object, penstock_random_below(&r, 1000));
		} else {
			reuse_remove(u, hash_of(object));
			if (model_find(&m, object) >= 0)
				model_take(&m, model_find(&m, object));
		}
		live = 0;
		for (unsigned k = 0; k < m.nr; k++)
			live += m.size[m.object[k]];
		peak = live > peak ? live : peak;
		reuse_totals(u, &t);
		T_EQ(t.peak_bytes, peak);
	}
	reuse_free(u);
}

static void windows_that_become_one_keep_their_objects(void)
{
	struct reuse *u = reuse_new(1000);
	uint64_t objects[REUSE_WINDOWS], bytes[REUSE_WINDOWS];
	struct reuse_hit hit;

	T_OK(u);
	for (unsigned i = 0; i < REUSE_WINDOWS; i++) {
		T_EQ(reuse_touch(u, 1000 + i, 10, i, &hit), 1); /* one each */
		T_EQ(reuse_touch(u, 5, 100, i, &hit), 1);       /* in all of them */
		if (i % 4 == 1)
			T_EQ(reuse_touch(u, 6, 1, i, &hit), 1);
	}
	reuse_windows(u, objects, bytes);
	T_OK(objects[0] == 2 && bytes[0] == 110 && objects[1] == 3 && bytes[1] == 111);
	reuse_widen(u);
	reuse_windows(u, objects, bytes);
	for (unsigned i = 0; i < REUSE_WINDOWS; i++) {
		T_EQ(objects[i], i >= REUSE_WINDOWS / 2 ? 0 : i % 2 ? 3 : 4);
		T_EQ(bytes[i], i >= REUSE_WINDOWS / 2 ? 0 : i % 2 ? 120 : 121);
	}
	reuse_free(u);
}

static bool is_near(double got, double want, double share)
{
	if (got >= want * (1 - share) && got <= want * (1 + share))
		return true;
	t_note("%g instead of %g", got, want);
	return false;
}

static void beyond_the_bound_a_sample_comes_near(void)
{
	struct reuse *all = reuse_new(1 << 20), *some = reuse_new(4096);
	struct trace_bins *a = calloc(2, sizeof(*a)), *b = a + 1;
	struct reuse_totals ta, tb;
	struct penstock_random r;
	struct reuse_hit hit;

	T_OK(all && some && a);
	penstock_random_seed(&r, 7);
	for (unsigned i = 0; i < 400000; i++) {
		uint64_t x = penstock_random_below(&r, 1 + penstock_random_below(&r, 100000));
		uint64_t h = hash_of((unsigned)x), size = 1000 + x % 1000;

		T_EQ(reuse_touch(all, h, size, 0, &hit), 1);
		if (hit.again)
			trace_bins_add(a, hit.bytes, hit.weight);
		if (reuse_touch(some, h, size, 0, &hit) == 1 && hit.again)
			trace_bins_add(b, hit.bytes, hit.weight);
	}
	reuse_totals(all, &ta);
	reuse_totals(some, &tb);
	T_EQ(ta.weight, 1);
	T_OK(tb.weight >= 16);
	T_OK(is_near((double)tb.keys, (double)ta.keys, 0.1));
	T_OK(is_near((double)tb.bytes, (double)ta.bytes, 0.1));
	T_OK(is_near((double)tb.peak_bytes, (double)ta.peak_bytes, 0.1));
	T_OK(is_near((double)b->count, (double)a->count, 0.1));
	for (double p = 0.2; p < 0.95; p += 0.1)
		T_OK(is_near((double)trace_bins_quantile(b, p), (double)trace_bins_quantile(a, p),
			     0.1));
	reuse_free(all);
	reuse_free(some);
	free(a);
}

static void bins_are_within_three_percent(void)
{
	struct trace_bins *b = calloc(1, sizeof(*b));

	T_OK(b);
	for (uint64_t v = 0; v < 1ull << 62; v = v + v / 7 + 1) {
		memset(b, 0, sizeof(*b));
		trace_bins_add(b, v, 3);
		T_EQ(b->count, 3);
		T_OK(trace_bins_quantile(b, 0.5) >= v);
		T_OK((double)trace_bins_quantile(b, 0.5) <= (double)v * 1.032);
		T_EQ(trace_bins_upto(b, trace_bins_quantile(b, 1)), 3);
		if (v)
			T_EQ(trace_bins_upto(b, v - 1), 0);
	}
	memset(b, 0, sizeof(*b));
	trace_bins_add(b, UINT64_MAX, 1);
	T_EQ(trace_bins_quantile(b, 1), -1);
	free(b);
}

/* ----------------------------------------------------------------- summary */

static struct trace_summary *s;
static struct penstock_err err;

static int summarize(const char *text, unsigned tiers)
{
	FILE *f = fopen(t_path("in.csv"), "we");

	T_OK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	free(s);
	s = NULL;
	return trace_summary_make(&s, t_path("in.csv"), &(struct trace_reader_opts){0},
				  &(struct trace_summary_opts){.tiers = tiers}, &err);
}

static void forget(void)
{
	free(s);
	s = NULL;
}

static const char trace[] = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n"
			    "100.0,Write,10,Tier-0,a,Prefill\n"
			    "100.5,Write,20,Tier-0,b,Prefill\n"
			    "101.0,Read,10,Tier-0,a,Decode\n"
			    "101.0,Read,10,Tier-0,a,Evict\n"
			    "101.0,Write,10,Tier-2,a,Evict\n"
			    "100.9,Read,10,Tier-2,a,Decode\n"
			    "oops\n"
			    "110.0,Read,30,Tier-2,c,Decode\n";

static void sums_are_right(void)
{
	T_ERR(summarize(trace, 0), 0, &err);
	T_EQ(s->rows, 7);
	T_EQ(s->bytes, 100);
	T_EQ(s->bad.nr, 1);
	T_STR_HAS(s->bad.text[0], "line 8");
	T_EQ(s->first_ns, 100000000000);
	T_EQ(s->last_ns, 110000000000);
	T_EQ(s->backwards, 1);
	T_EQ(s->back_max_ns, 100000000);
	T_EQ(trace_summary_sum(s, TRACE_READ, -1, -1).rows, 4);
	T_EQ(trace_summary_sum(s, TRACE_READ, -1, -1).bytes, 60);
	T_EQ(trace_summary_sum(s, -1, 2, -1).bytes, 50);
	T_EQ(trace_summary_sum(s, -1, -1, TRACE_EVICT).rows, 2);
	T_EQ(trace_summary_sum(s, TRACE_WRITE, 0, TRACE_PREFILL).bytes, 30);
	T_EQ(s->sizes.min, 10);
	T_EQ(s->sizes.max, 30);
}

static void moves_are_no_uses_unless_one_tier_is_looked_at(void)
{
	T_ERR(summarize(trace, 0), 0, &err);
	T_EQ(s->keys.keys, 3);
	T_EQ(s->keys.bytes, 60);
	T_EQ(s->reads, 3);
	T_EQ(s->first_reads, 1);
	T_EQ(s->distance.count, 2);
	T_EQ(trace_bins_quantile(&s->distance, 1), 30); /* a behind b */
	T_EQ(trace_bins_quantile(&s->distance, 0), 10);
	T_ERR(summarize(trace, 4), 0, &err);
	T_EQ(s->rows, 3);
	T_EQ(s->keys.keys, 2);
	T_EQ(s->reads, 2);
	T_EQ(s->first_reads, 1);
	T_EQ(trace_bins_quantile(&s->distance, 1), 10);
}

static void windows_cover_the_span(void)
{
	uint64_t rows = 0;

	T_ERR(summarize(trace, 0), 0, &err);
	T_EQ(s->window_ns, 250000000);
	T_EQ(s->nr_windows, 41);
	T_OK(s->window[0].rows == 1 && s->window[0].objects == 1 && s->window[0].bytes == 10);
	T_OK(s->window[2].rows == 1 && s->window[2].write_bytes == 20);
	T_OK(s->window[3].rows == 1 && s->window[3].read_bytes == 10); /* the row that came late */
	T_OK(s->window[4].rows == 3 && s->window[4].objects == 1);
	T_OK(s->window[40].rows == 1 && s->window[40].bytes == 30);
	for (unsigned i = 0; i < s->nr_windows; i++)
		rows += s->window[i].rows;
	T_EQ(rows, s->rows);
}

static void an_empty_trace_is_nothing(void)
{
	T_ERR(summarize("Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n", 0), 0, &err);
	T_EQ(s->rows, 0);
	T_EQ(s->nr_windows, 0);
	T_EQ(s->keys.keys, 0);
}

static const struct t_case cases[] = {
	T_CASE(distances_are_those_of_an_lru_list),
	T_CASE(windows_that_become_one_keep_their_objects),
	T_CASE(beyond_the_bound_a_sample_comes_near),
	T_CASE(bins_are_within_three_percent),
	T_CASE(sums_are_right),
	T_CASE(moves_are_no_uses_unless_one_tier_is_looked_at),
	T_CASE(windows_cover_the_span),
	T_CASE(an_empty_trace_is_nothing),
};

int main(int argc, char **argv)
{
	const struct t_group group = {"trace_stat", NULL, forget, cases, T_COUNT(cases)};

	(void)argc;
	return t_run(&group, 1, argv + 1);
}
