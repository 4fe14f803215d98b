/* SPDX-License-Identifier: Apache-2.0 */
/* Both forms are made from the same struct; every number of the text is in the JSON. */
#include "load/report/jobs/trace_report.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/result/text.h"

static const double shares[] = {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99};
static const char *const share_names[] = {"p1", "p5", "p25", "p50", "p75", "p95", "p99"};
static const char *const tier_names[TRACE_TIERS + 1] = {"Tier-0", "Tier-1", "Tier-2", "none"};

static const char *phase_name(int phase)
{
	return phase == TRACE_NONE ? "none" : trace_phase_names[phase];
}

static double trace_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Sizes of an LRU cache that are worth a line: powers of four, from where anything is held. */
static bool next_cache(const struct trace_summary *s, uint64_t *size)
{
	uint64_t first = trace_bins_quantile(&s->distance, 0);

	if (!s->distance.count || trace_bins_upto(&s->distance, *size) == s->distance.count)
		return false;
	*size = *size ? *size * 4 : 1ull << 20;
	while (*size < first && *size < 1ull << 60)
		*size *= 4;
	return *size < 1ull << 62;
}

/* The share of all reads that it would have had. */
static double cache_hits(const struct trace_summary *s, uint64_t size)
{
	return (double)trace_bins_upto(&s->distance, size) / (double)max_u64(s->reads, 1);
}

/* -------------------------------------------------------------------- text */

static void text_sum(FILE *f, const char *tier, const char *phase, const char *op,
		     struct trace_sum sum)
{
	char size[PENSTOCK_SIZE_TEXT];

	if (sum.rows)
		fprintf(f, "  %-8s%-9s%-8s%14" PRIu64 "  %12s\n", tier, phase, op, sum.rows,
			penstock_size_format(size, sum.bytes));
}

static void text_sums(FILE *f, const struct trace_summary *s)
{
	fprintf(f, "\n  %-8s%-9s%-8s%14s  %12s\n", "tier", "phase", "op", "rows", "bytes");
	for (int t = 0; t <= TRACE_TIERS; t++)
		for (int p = 0; p < TRACE_PHASES; p++)
			for (int o = 0; o < TRACE_OPS; o++)
				text_sum(f, tier_names[t], phase_name(p), trace_op_names[o],
					 s->sum[o][t][p]);
	for (int o = 0; o < TRACE_OPS; o++)
		text_sum(f, "all", "", trace_op_names[o], trace_summary_sum(s, o, -1, -1));
}

static void text_sizes(FILE *f, const struct trace_summary *s)
{
	char size[PENSTOCK_SIZE_TEXT];

	fprintf(f, "\nSizes: ");
	fprintf(f, "%s at least", penstock_size_format(size, s->sizes.min));
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		fprintf(f, ", %s %s", share_names[i],
			penstock_size_format(size, (uint64_t)penstock_hist_percentile(
							   &s->sizes, 100 * shares[i])));
	fprintf(f, ", %s at most", penstock_size_format(size, s->sizes.max));
	fprintf(f, "; mean %s\n", penstock_size_format(size, s->bytes / max_u64(s->rows, 1)));
}

static void text_reuse(FILE *f, const struct trace_summary *s)
{
	char size[PENSTOCK_SIZE_TEXT], peak[PENSTOCK_SIZE_TEXT];
	uint64_t cache = 0;

	fprintf(f, "\nObjects: %s%" PRIu64 " different ones, %s; at most %s at the same time\n",
		s->keys.weight > 1 ? "about " : "", s->keys.keys,
		penstock_size_format(size, s->keys.bytes),
		penstock_size_format(peak, s->keys.peak_bytes));
	if (s->keys.weight > 1)
		fprintf(f,
			"  (of so many, one of %" PRIu64
			" is looked at: objects, reuse and working "
			"set are estimates)\n",
			s->keys.weight);
	if (!s->reads)
		return;
	fprintf(f, "Reads: %" PRIu64 ", %.1f %% of objects that were not there before\n", s->reads,
		100.0 * (double)s->first_reads / (double)s->reads);
	if (!s->distance.count)
		return;
	fprintf(f, "Reuse distance:");
	for (size_t i = 1; i + 1 < ARRAY_SIZE(shares); i++)
		fprintf(f, "%s %s %s (%" PRIu64 " objects)", i > 1 ? "," : "", share_names[i],
			penstock_size_format(size, trace_bins_quantile(&s->distance, shares[i])),
			trace_bins_quantile(&s->objects, shares[i]));
	fprintf(f, "\n\n  %-12s  %s\n", "LRU cache", "reads it would have had");
	while (next_cache(s, &cache))
		fprintf(f, "  %-12s  %21.1f %%\n", penstock_size_format(size, cache),
			100 * cache_hits(s, cache));
}

static void text_windows(FILE *f, const struct trace_summary *s)
{
	char size[3][PENSTOCK_SIZE_TEXT];

	fprintf(f, "\nWorking set:\n  %12s  %12s  %12s  %12s  %12s  %12s\n", "from s", "rows",
		"read", "written", "objects", "bytes");
	for (unsigned i = 0; i < s->nr_windows; i++) {
		const struct trace_window *w = &s->window[i];

		fprintf(f, "  %12.3f  %12" PRIu64 "  %12s  %12s  %12" PRIu64 "  %12s\n",
			trace_seconds(i * s->window_ns), w->rows,
			penstock_size_format(size[0], w->read_bytes),
			penstock_size_format(size[1], w->write_bytes), w->objects,
			penstock_size_format(size[2], w->bytes));
	}
}

/* With the date where times have one. */
static void text_span(FILE *f, const struct trace_summary *s)
{
	time_t at = (time_t)(s->first_ns / 1000000000);
	char text[32];
	struct tm tm;

	fprintf(f, "%" PRIu64 " row%s over %.3f s", s->rows, s->rows == 1 ? "" : "s",
		trace_seconds(s->last_ns - s->first_ns));
	if (s->first_ns >= 1000000000ull * 1000000000 && gmtime_r(&at, &tm) &&
	    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
		fprintf(f, " from %s UTC", text);
	fprintf(f, "\n");
	if (s->backwards)
		fprintf(f, "  %" PRIu64 " row%s earlier than the one before, by up to %.6f s\n",
			s->backwards, s->backwards == 1 ? " is" : "s are",
			trace_seconds(s->back_max_ns));
	if (s->failed)
		fprintf(f, "  %" PRIu64 " operation%s had failed\n", s->failed,
			s->failed == 1 ? "" : "s");
}

void report_trace_text(FILE *f, const struct trace_summary *s, const char *name)
{
	fprintf(f, "%s: %s, ", name, trace_format_names[s->format]);
	text_span(f, s);
	if (!s->rows)
		return;
	text_sums(f, s);
	text_sizes(f, s);
	if (s->keys.keys)
		text_reuse(f, s);
	text_windows(f, s);
}

/* -------------------------------------------------------------------- JSON */

/* JSON knows no larger ones. */
static json_int_t num(uint64_t v)
{
	return (json_int_t)min_u64(v, INT64_MAX);
}

static json_t *sums_json(const struct trace_summary *s)
{
	json_t *list = json_array();

	for (int t = 0; t <= TRACE_TIERS; t++)
		for (int p = 0; p < TRACE_PHASES; p++)
			for (int o = 0; o < TRACE_OPS; o++) {
				struct trace_sum sum = s->sum[o][t][p];

				if (sum.rows)
					json_array_append_new(
						list,
						json_pack("{s:s, s:s, s:s, s:I, s:I}", "tier",
							  tier_names[t], "phase", phase_name(p),
							  "operation", trace_op_names[o], "rows",
							  num(sum.rows), "bytes", num(sum.bytes)));
			}
	return list;
}

static json_t *sizes_json(const struct trace_summary *s)
{
	json_t *o = json_pack("{s:I, s:I, s:f}", "min", num(s->sizes.min), "max", num(s->sizes.max),
			      "mean", (double)s->bytes / (double)max_u64(s->rows, 1));
	struct penstock_hist_bucket b;
	uint64_t power[64] = {0};
	json_t *list = json_array();
	unsigned pos = 0;

	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		json_object_set_new(o, share_names[i],
				    json_integer(num((uint64_t)penstock_hist_percentile(
					    &s->sizes, 100 * shares[i]))));
	/* By powers of two: bytes from 2^n up to twice that; 0 and 1 together. */
	while (penstock_hist_next(&s->sizes, &pos, &b))
		power[b.low ? 63 - __builtin_clzll(b.low) : 0] += b.count;
	for (unsigned i = 0; i < 64; i++)
		if (power[i])
			json_array_append_new(list, json_pack("{s:I, s:I}", "from",
							      num(i ? 1ull << i : 0), "rows",
							      num(power[i])));
	json_object_set_new(o, "powers_of_two", list);
	return o;
}

static json_t *distance_json(const struct trace_bins *b)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		json_object_set_new(o, share_names[i],
				    json_integer(num(trace_bins_quantile(b, shares[i]))));
	return o;
}

static json_t *reuse_json(const struct trace_summary *s)
{
	json_t *list = json_array();
	uint64_t cache = 0;

	while (next_cache(s, &cache))
		json_array_append_new(list, json_pack("{s:I, s:f}", "bytes", num(cache), "share",
						      cache_hits(s, cache)));
	return json_pack("{s:I, s:I, s:o, s:o, s:o}", "reads", num(s->reads), "first_reads",
			 num(s->first_reads), "distance_bytes", distance_json(&s->distance),
			 "distance_objects", distance_json(&s->objects), "lru_cache", list);
}

static json_t *windows_json(const struct trace_summary *s)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < s->nr_windows; i++) {
		const struct trace_window *w = &s->window[i];

		json_array_append_new(list,
				      json_pack("{s:f, s:I, s:I, s:I, s:I, s:I}", "from_seconds",
						trace_seconds(i * s->window_ns), "rows",
						num(w->rows), "read_bytes", num(w->read_bytes),
						"write_bytes", num(w->write_bytes), "objects",
						num(w->objects), "bytes", num(w->bytes)));
	}
	return json_pack("{s:f, s:o}", "seconds", trace_seconds(s->window_ns), "windows", list);
}

json_t *report_trace_json(const struct trace_summary *s, const char *name)
{
	return json_pack(
		"{s:s, s:o, s:s, s:I, s:I, s:f, s:f, s:I, s:f, s:I, s:{s:I, s:o}, s:o, s:o, "
		"s:{s:I, s:I, s:I, s:b, s:I}, s:o, s:o}",
		"schema", "penstock-trace/1", "file", report_str(name), "format",
		trace_format_names[s->format], "rows", num(s->rows), "bytes", num(s->bytes),
		"first_seconds", trace_seconds(s->first_ns), "span_seconds",
		trace_seconds(s->last_ns - s->first_ns), "backwards", num(s->backwards),
		"backwards_seconds", trace_seconds(s->back_max_ns), "failed", num(s->failed), "bad",
		"rows", num(s->bad.nr), "first", report_str_or_null(s->bad.text[0]), "operations",
		sums_json(s), "sizes", sizes_json(s), "objects", "keys", num(s->keys.keys), "bytes",
		num(s->keys.bytes), "peak_bytes", num(s->keys.peak_bytes), "exact",
		s->keys.weight == 1, "one_of", num(s->keys.weight), "reuse", reuse_json(s),
		"working_set", windows_json(s));
}
