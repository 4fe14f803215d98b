/* SPDX-License-Identifier: Apache-2.0 */
/* A merged result for people: per series the whole, then each rank, the slowest first. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/report/merge/merge_internal.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"

#define MB        1e6
#define LINE_TEXT 512

static double row_number(const json_t *j, const char *key)
{
	const json_t *v = json_object_get(j, key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

/* "-" for what is not known. */
static const char *time_of(char buf[REPORT_TIME_TEXT], double sec)
{
	if (isfinite(sec))
		report_time(buf, sec);
	else
		snprintf(buf, REPORT_TIME_TEXT, "-");
	return buf;
}

static int slowest_first(const void *a, const void *b)
{
	double x = row_number(*(const json_t *const *)a, "bytes_per_sec"),
	       y = row_number(*(const json_t *const *)b, "bytes_per_sec");

	if (!isfinite(x) || !isfinite(y)) /* one that has nothing is the first to look at */
		return isfinite(x) - isfinite(y);
	return (x > y) - (x < y);
}

/* What a file has under @key, as part of a line. */
static const char *one_line(char buf[LINE_TEXT], const json_t *j, const char *key)
{
	return report_escape(buf, LINE_TEXT, report_text(j, key));
}

static void row_line(FILE *f, const json_t *row)
{
	char p50[REPORT_TIME_TEXT], p99[REPORT_TIME_TEXT], first[REPORT_TIME_TEXT],
		last[REPORT_TIME_TEXT], idle[REPORT_TIME_TEXT], name[LINE_TEXT];

	if (!isfinite(row_number(row, "bytes_per_sec"))) {
		fprintf(f, "  %-24.24s %10s\n", one_line(name, row, "name"), "nothing");
		return;
	}
	fprintf(f, "  %-24.24s %10.1f %6.1f %% %11s %11s %11s %11s %11s\n",
		one_line(name, row, "name"), row_number(row, "bytes_per_sec") / MB,
		row_number(row, "share") * 100, time_of(p50, row_number(row, "p50")),
		time_of(p99, row_number(row, "p99")), time_of(first, row_number(row, "first_done")),
		time_of(last, row_number(row, "last_done")),
		time_of(idle, row_number(row, "idle_tail")));
}

static void rows_lines(FILE *f, const json_t *rows)
{
	size_t nr = json_array_size(rows);
	CLEANUP_FREE const json_t **sorted = calloc(nr + 1, sizeof(*sorted));

	for (size_t i = 0; sorted && i < nr; i++)
		sorted[i] = json_array_get(rows, i);
	if (sorted)
		qsort(sorted, nr, sizeof(*sorted), slowest_first);
	for (size_t i = 0; sorted && i < nr; i++)
		row_line(f, sorted[i]);
}

/* Ranks of one run that did not get the same of their machines. */
static void differs_lines(FILE *f, const json_t *ran)
{
	static const char *const keys[] = {"engine", "path", "memory"};
	char text[LINE_TEXT];

	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strncmp(report_text(ran, keys[i]), "differs: ", 9))
			fprintf(f, "  note: %s %s\n", keys[i], one_line(text, ran, keys[i]));
}

static void series_lines(FILE *f, const json_t *s, const json_t *all)
{
	const json_t *p = json_object_get(json_object_get(s, "latency"), "percentiles"),
		     *ci = json_object_get(all, "rate_ci95"),
		     *late = json_object_get(all, "latency_ci95");
	char p50[REPORT_TIME_TEXT], p99[REPORT_TIME_TEXT], skew[REPORT_TIME_TEXT], text[LINE_TEXT];

	fprintf(f, "%s: %" PRIu64 " operations, %.1f MB/s, p50 %s, p99 %s\n",
		one_line(text, s, "name"), (uint64_t)row_number(s, "ops"),
		row_number(s, "bytes_per_sec") / MB, time_of(p50, row_number(p, "p50")),
		time_of(p99, row_number(p, "p99")));
	fprintf(f, "  %-24s %10s %8s %11s %11s %11s %11s %11s\n", "rank", "MB/s", "share", "p50",
		"p99", "first done", "last done", "idle tail");
	rows_lines(f, json_object_get(all, "rows"));
	fprintf(f, "  ranks by themselves %.1f MB/s; the slowest cost %.1f %% of that",
		row_number(all, "sum_bytes_per_sec") / MB, row_number(all, "straggler_cost") * 100);
	if (json_is_array(ci))
		fprintf(f, "; a rank %.1f to %.1f MB/s at 95 %%",
			json_number_value(json_array_get(ci, 0)) / MB,
			json_number_value(json_array_get(ci, 1)) / MB);
	if (json_is_array(late))
		fprintf(f, ", its mean latency %s to %s",
			time_of(p50, json_number_value(json_array_get(late, 0))),
			time_of(p99, json_number_value(json_array_get(late, 1))));
	fputc('\n', f);
	if (json_is_true(json_object_get(all, "skewed")))
		fprintf(f, "  warning: ranks began %s apart, more than 1 %% of the run\n",
			time_of(skew, row_number(all, "skew_sec")));
	differs_lines(f, json_object_get(s, "ran"));
	if (row_number(s, "errors") > 0)
		fprintf(f, "  failed: %" PRIu64 " operations; the first: %s\n",
			(uint64_t)row_number(s, "errors"), one_line(text, s, "first_error"));
	if (json_is_true(json_object_get(s, "partial")))
		fprintf(f, "  partial: %s\n", one_line(text, s, "partial_why"));
	fputc('\n', f);
}

static void reference_lines(FILE *f, const json_t *r)
{
	char all[REPORT_TIME_TEXT], read[REPORT_TIME_TEXT], write[REPORT_TIME_TEXT];

	if (!r)
		return;
	fprintf(f,
		"by MLPerf:  sums of the ranks' own rates: storage read %.3f GiB/s, written %.3f "
		"GiB/s, %.1f tokens/s\n"
		"            largest p95 of a rank: storage of a request %s, device read %s, write "
		"%s\n",
		row_number(r, "read_bytes_per_sec") / 0x1p30,
		row_number(r, "write_bytes_per_sec") / 0x1p30, row_number(r, "tokens_per_sec"),
		time_of(all, row_number(r, "storage_p95")),
		time_of(read, row_number(r, "device_read_p95")),
		time_of(write, row_number(r, "device_write_p95")));
}

/* Of checkpoints: the mean of each operation's slowest rank. */
static void ckpt_lines(FILE *f, const json_t *methods)
{
	char sec[REPORT_TIME_TEXT], name[LINE_TEXT];
	const json_t *m;
	size_t i;

	json_array_foreach(methods, i, m)
	{
		for (unsigned k = 0; k < 2; k++) {
			const json_t *way = json_object_get(m, k ? "load" : "save"),
				     *r = json_object_get(way, "reference");

			if (r)
				fprintf(f,
					"by MLPerf:  %s: %s, %.1f MB/s of the slowest process, "
					"means over %zu operations\n",
					one_line(name, way, "series"),
					time_of(sec, row_number(r, "duration_sec")),
					row_number(r, "throughput") / MB,
					json_array_size(json_object_get(r, "operations_sec")));
		}
	}
}

/* Of a trace whose times were kept to. */
static void lag_lines(FILE *f, const json_t *lag)
{
	char mean[REPORT_TIME_TEXT], max[REPORT_TIME_TEXT], last[REPORT_TIME_TEXT];

	if (!json_is_object(lag))
		return;
	fprintf(f, "lag:        mean %s, max %s, at the end %s\n",
		time_of(mean, row_number(lag, "mean")), time_of(max, row_number(lag, "max")),
		time_of(last, row_number(lag, "last")));
	if (json_is_true(json_object_get(lag, "overloaded")))
		fprintf(f,
			"OVERLOADED: a rank falls behind by %.3f s per second of the schedule; "
			"latencies are those of a later time than recorded\n",
			row_number(lag, "slope"));
}

void merge_text(FILE *f, const json_t *merged)
{
	const json_t *ranks = json_object_get(merged, "ranks"),
		     *rows = json_object_get(ranks, "series"), *s;
	char text[LINE_TEXT];
	size_t i, nr = json_array_size(json_object_get(ranks, "members"));

	fprintf(f, "%s by %zu rank%s\n\n", report_text(merged, "command"), nr, nr == 1 ? "" : "s");
	json_array_foreach(json_object_get(merged, "series"), i, s)
	{
		series_lines(f, s, json_array_get(rows, i));
	}
	reference_lines(f, json_object_get(ranks, "reference"));
	ckpt_lines(f, json_object_get(json_object_get(merged, "ckpt"), "methods"));
	lag_lines(f, json_object_get(json_object_get(merged, "replay"), "lag"));
	merge_clock_lines(f, json_object_get(ranks, "members"));
	if (json_is_true(json_object_get(merged, "partial")))
		fprintf(f, "partial:    %s\n", one_line(text, merged, "partial_why"));
}
