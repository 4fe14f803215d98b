/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a series: who did how much of it, how fast, and who waited.  What the slowest cost is
 * one number: the ranks' own rates added up are what they could do together; the bytes over the
 * time from the first beginning to the last end are what came of it.
 */
#include <math.h>

#include "base/util.h"
#include "load/report/merge/merge_internal.h"
#include "load/report/result/text.h"

static const json_t *percentile(const json_t *j, const char *name)
{
	const json_t *p = json_object_get(json_object_get(j, "latency"), "percentiles");
	json_t *v = json_object_get(p, name);

	return v ? v : json_null();
}

static json_t *row_json(const struct merge_rank *k, unsigned i, const json_t *merged, double begin,
			double end)
{
	double bytes = report_number(merged, "bytes");

	if (!k->j)
		return json_pack("{s:I, s:s, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}", "rank",
				 (json_int_t)i, "name", k->in->name, "bytes_per_sec", "p50", "p99",
				 "share", "start", "first_done", "last_done", "end", "idle_tail");
	return json_pack("{s:I, s:s, s:f, s:O, s:O, s:f, s:f, s:f, s:f, s:f, s:f}", "rank",
			 (json_int_t)i, "name", k->in->name, "bytes_per_sec",
			 report_number(k->j, "bytes_per_sec"), "p50", percentile(k->j, "p50"),
			 "p99", percentile(k->j, "p99"), "share",
			 bytes > 0 ? report_number(k->j, "bytes") / bytes : 0.0, "start",
			 k->start - begin, "first_done", k->first - begin, "last_done",
			 k->last - begin, "end", k->end - begin, "idle_tail", end - k->end);
}

/* Of the mean of the ranks' rates, by Student's t; null below 3 ranks. */
static json_t *rates_interval(const struct stat_moments *rates)
{
	struct stat_summary v;

	stat_moments_summary(&v, rates);
	return isfinite(v.ci_high) ? json_pack("[f, f]", fmax(0, v.ci_low), v.ci_high)
				   : json_null();
}

/* The same of the means of their latencies: operations of one rank resemble each other. */
static json_t *latency_interval(const struct merge_rank *ranks, unsigned nr)
{
	struct stat_moments m = {0};

	for (unsigned k = 0; k < nr; k++)
		if (json_is_object(json_object_get(ranks[k].j, "latency")))
			stat_moments_add(
				&m, report_number(json_object_get(ranks[k].j, "latency"), "mean"));
	return rates_interval(&m);
}

/* How far apart the ranks began a turn, at the worst. */
static double start_skew(const struct merge_rank *ranks, unsigned nr)
{
	double most = 0, low, high;
	bool any = true;

	for (size_t i = 0; any; i++) {
		any = false;
		low = INFINITY;
		high = 0;
		for (unsigned k = 0; k < nr; k++) {
			const json_t *interval = json_object_get(ranks[k].j, "interval"),
				     *turns = json_object_get(interval, "turns");
			const json_t *turn = json_array_get(turns, i);
			double at = json_number_value(json_array_get(turn, 0));

			any |= turn != NULL;
			low = turn ? fmin(low, at) : low;
			high = turn ? fmax(high, at) : high;
		}
		most = any ? fmax(most, high - low) : most;
	}
	return most;
}

json_t *merge_rows(const json_t *merged, const struct merge_rank *ranks, unsigned nr)
{
	double begin = INFINITY, end = 0, sum = 0, got = report_number(merged, "bytes_per_sec");
	double apart = start_skew(ranks, nr);
	struct stat_moments rates = {0};
	json_t *rows = json_array();
	int slowest = -1;

	for (unsigned k = 0; k < nr; k++) {
		double rate = report_number(ranks[k].j, "bytes_per_sec");

		if (!ranks[k].j)
			continue;
		begin = fmin(begin, ranks[k].start);
		end = fmax(end, ranks[k].end);
		sum += rate;
		stat_moments_add(&rates, rate);
		if (slowest < 0 || rate < report_number(ranks[slowest].j, "bytes_per_sec"))
			slowest = (int)k;
	}
	for (unsigned k = 0; k < nr; k++)
		json_array_append_new(rows, row_json(&ranks[k], k, merged, begin, end));
	return json_pack("{s:O, s:f, s:f, s:f, s:i, s:f, s:b, s:o, s:o, s:o}", "name",
			 json_object_get(merged, "name"), "bytes_per_sec", got, "sum_bytes_per_sec",
			 sum, "straggler_cost", sum > 0 ? fmin(fmax(0, 1 - got / sum), 1) : 0.0,
			 "slowest", slowest, "skew_sec", apart, "skewed",
			 apart > 0.01 * report_number(merged, "sec"), "rate_ci95",
			 rates_interval(&rates), "latency_ci95", latency_interval(ranks, nr),
			 "rows", rows);
}
