/* SPDX-License-Identifier: Apache-2.0 */
/* Text of bench results, for people, and for scripts that read DS-AIO-Benchmark's blocks. */
#include "load/report/jobs/bench_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "load/jobs/bench.h"
#include "load/jobs/fio.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/result.h"
#include "load/report/result/text.h"

#define MB   1e6
#define BARS 32

/* ------------------------------------------------- blocks of DS-AIO-Benchmark */

/* What is not known, for there are too few samples, is "-". */
static const char *figure(char buf[32], double v, int digits, const char *suffix)
{
	snprintf(buf, 32, isfinite(v) ? "%.*f%s" : "-", digits, v, suffix);
	return buf;
}

static void stats_lines(FILE *f, const char *what, const struct stat_summary *v, double unit,
			int digits, const char *suffix)
{
	const double *p = v->percentile;
	char a[32], b[32], c[32];

	fprintf(f, "  %s Mean: %s\n", what, figure(a, v->mean / unit, digits, suffix));
	fprintf(f, "  %s Median: %s\n", what, figure(a, v->median / unit, digits, suffix));
	fprintf(f, "  %s Std Dev: %s\n", what, figure(a, v->stddev / unit, digits, suffix));
	fprintf(f, "  %s 95%% CI: (%s, %s)\n", what, figure(a, v->ci_low / unit, digits, ""),
		figure(b, v->ci_high / unit, digits, ""));
	fprintf(f, "  %s Percentiles: {'50th': %s, '90th': %s, '99th': %s}\n", what,
		figure(a, p[STAT_P50] / unit, digits, ""),
		figure(b, p[STAT_P90] / unit, digits, ""),
		figure(c, p[STAT_P99] / unit, digits, ""));
}

/* ------------------------------------------------------------- the distribution */

/* Counts of @BARS steps between the fastest and the slowest, on a logarithmic axis. */
static uint64_t bars(uint64_t counts[BARS], const struct penstock_hist *h)
{
	double low = log((double)max_u64(h->min, 1)), high = log((double)max_u64(h->max, 1));
	double step = (high - low) / BARS;
	struct penstock_hist_bucket b;
	uint64_t most = 0;

	memset(counts, 0, BARS * sizeof(*counts));
	for (unsigned pos = 0; penstock_hist_next(h, &pos, &b);) {
		double x = log(fmax((double)(b.low + b.high) / 2, 1));
		int i = step > 0 ? (int)((x - low) / step) : 0;

		i = i < 0 ? 0 : i >= BARS ? BARS - 1 : i;
		counts[i] += b.count;
		most = max_u64(most, counts[i]);
	}
	return most;
}

static void distribution_lines(FILE *f, const struct run_series *s)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	char text[128], lo[REPORT_TIME_TEXT], hi[REPORT_TIME_TEXT];
	uint64_t counts[BARS], most = bars(counts, s->hist);
	struct stat_shape shape;

	result_shape_text(text, sizeof(text), s, &shape);
	fprintf(f, "  Distribution: %s\n    %s ", text,
		report_time(lo, (double)s->hist->min / 1e9));
	for (unsigned i = 0; i < BARS; i++)
		fputs(counts[i] ? blocks[(counts[i] * 7 + most - 1) / most] : " ", f);
	fprintf(f, " %s\n", report_time(hi, (double)s->hist->max / 1e9));
}

static void percentile_line(FILE *f, const struct stat_summary *v)
{
	char t[REPORT_TIME_TEXT];

	fprintf(f, "  Percentiles:");
	for (unsigned i = STAT_P50; i < STAT_PERCENTILES; i++)
		fprintf(f, "%s %s %s", i > STAT_P50 ? "," : "", stat_percentile_name[i],
			report_time(t, v->percentile[i]));
	fputc('\n', f);
}

void bench_report_series(FILE *f, const struct run_series *s)
{
	struct stat_summary latency, bandwidth;
	bool exact;

	fprintf(f, "%s: %" PRIu64 " operation%s%s%s%s%s\n", s->name, s->ops, s->ops == 1 ? "" : "s",
		s->partial ? ", partial: " : "", s->partial_why,
		*s->time_limit ? ", ended by the " : "", s->time_limit);
	if (series_latency(s, &latency, &exact) < 0 ||
	    series_bandwidth(s, &bandwidth, &exact) < 0) {
		fprintf(f, "  nothing was measured\n\n");
		return;
	}
	fprintf(f, "%s Statistics:\n", s->read ? "Read" : "Write");
	stats_lines(f, "Latency", &latency, 1, 9, "s");
	stats_lines(f, "Bandwidth", &bandwidth, MB, 3, " MB/s");
	percentile_line(f, &latency);
	distribution_lines(f, s);
	fputc('\n', f);
}

/* ------------------------------------------------------------------ summary */

static void summary_line(FILE *f, const struct run_series *s)
{
	char mean[REPORT_TIME_TEXT], p50[REPORT_TIME_TEXT], p99[REPORT_TIME_TEXT];
	char share[16] = "-", cpu[16] = "-", margin[16] = "-";
	struct stat_summary v;
	bool exact;

	if (series_latency(s, &v, &exact) < 0)
		return;
	if (s->limit > 0)
		snprintf(share, sizeof(share), "%.0f %%", series_speed(s) / s->limit * 100);
	if (isfinite(series_speed_half(s)))
		snprintf(margin, sizeof(margin), "%.0f %%",
			 series_speed_half(s) / series_speed(s) * 100);
	if (series_cpu_per_gib(s) >= 0)
		snprintf(cpu, sizeof(cpu), "%.3f", series_cpu_per_gib(s));
	fprintf(f, "%-30s %7" PRIu64 " %9.1f %6s %8s %11s %11s %11s %9s\n", s->name, s->ops,
		series_speed(s) / MB, margin, share, report_time(mean, v.mean),
		report_time(p50, v.percentile[STAT_P50]), report_time(p99, v.percentile[STAT_P99]),
		cpu);
}

static double best_share(const struct bench_result *res, bool read)
{
	double best = 0;

	for (unsigned i = 0; i < res->nr_series; i++)
		if (res->series[i].read == read && res->series[i].limit > 0)
			best = fmax(best, series_speed(&res->series[i]) / res->series[i].limit);
	return best;
}

/* Once per kind: the first series that has it speaks for the others. */
static void per_kind_lines(FILE *f, const struct bench_job *job, const struct bench_result *res)
{
	for (int read = 0; read < 2; read++) {
		for (unsigned i = 0; i < res->nr_series; i++) {
			const struct run_series *s = &res->series[i];

			if (s->read != read)
				continue;
			fprintf(f, "cache:      %ss: %s\n", read ? "read" : "write", s->cache);
			if (s->limit > 0)
				fprintf(f, "limit:      %ss: %.1f MB/s (%s)\n",
					read ? "read" : "write", s->limit / MB, s->limit_how);
			else
				fprintf(f, "limit:      %ss: %s\n", read ? "read" : "write",
					*s->limit_how ? s->limit_how : "not measured");
			if (s->limit > 0)
				report_limit_line(f, best_share(res, read),
						  !read && !job->overwrite &&
							  !s->stats.blocks_object,
						  s->limit_how);
			break;
		}
	}
}

/* A run by time takes longer than the time it was given: files are made, caches emptied. */
static void time_line(FILE *f, const struct bench_job *job, const struct bench_result *res)
{
	double measured = 0;

	for (unsigned i = 0; i < res->nr_series; i += job->rwmix ? 2 : 1)
		measured += res->series[i].sec;
	fprintf(f, "time:       %.1f s in all, %.1f s of it measured\n", res->sec, measured);
}

void bench_report_summary(FILE *f, const struct bench_job *job, const struct bench_result *res)
{
	char written[PENSTOCK_SIZE_TEXT], verified[PENSTOCK_SIZE_TEXT];
	uint64_t sum = 0;

	if (!res->nr_series)
		return;
	fprintf(f, "%-30s %7s %9s %6s %8s %11s %11s %11s %9s\n", "", "ops", "MB/s", "+/-",
		"of limit", "mean", "p50", "p99", "CPU s/GiB");
	for (unsigned i = 0; i < res->nr_series; i++) {
		summary_line(f, &res->series[i]);
		sum += res->series[i].verified_bytes;
	}
	fputc('\n', f);
	report_run_lines(f, &res->series[0]);
	report_path(f, job->folder, &res->path);
	fputc('\n', f);
	per_kind_lines(f, job, res);
	fprintf(f, "written:    %s in all\n", penstock_size_format(written, res->bytes_written));
	time_line(f, job, res);
	if (job->verify)
		fprintf(f, "verified:   %s compared%s\n", penstock_size_format(verified, sum),
			res->failed ? " before the run ended early" : ", all right");
}

/* ------------------------------------------------------------- ------- plan */

void bench_report_plan(FILE *f, const struct bench_job *job, const struct bench_plan *plan)
{
	const char *each = job->rwmix ? "in all" : "each"; /* of a mix, for both together */
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT];

	fprintf(f, "Would run %u series in a new folder in %s:\n", plan->nr_series, job->folder);
	for (unsigned i = 0; i < job->nr_sizes; i++) {
		fprintf(f, "  %s%s of %s, ", job->random ? "random " : "",
			job->rwmix                ? "reads and writes"
			: job->read && job->write ? "writes, then reads"
			: job->read               ? "reads"
						  : "writes",
			penstock_size_exact(a, job->sizes[i]));
		if (job->runtime_ns)
			fprintf(f, "%.0f s %s", (double)job->runtime_ns / 1e9, each);
		else
			fprintf(f, "%" PRIu64 " iteration%s %s after %u to warm up",
				job->iterations, job->iterations == 1 ? "" : "s", each,
				job->warmup);
		if (job->random)
			fprintf(f, ", in a file of %s\n", penstock_size_format(b, job->span));
		else
			fprintf(f, ", in %u file%s\n", bench_nr_files(job, job->sizes[i]),
				bench_nr_files(job, job->sizes[i]) == 1 ? "" : "s");
	}
	report_plan_writes(f, plan->write_bytes, plan->limit_bytes, plan->open_ended);
	fprintf(f, "reads:      %s\n", penstock_size_format(a, plan->read_bytes));
	fprintf(f, "disk space: %s at a time; memory: %s\n", penstock_size_format(a, plan->space),
		penstock_size_format(b, plan->memory));
	fprintf(f, "time:       about %.0f s at %.0f MB/s (%s)\n", ceil(plan->seconds),
		plan->speed / MB, plan->speed_how);
}

/* ----------------------------------------------------------------------- fio */

#define MB 1e6

static void text_line(FILE *out, const char *tool, const struct fio_result *f, double ratio)
{
	char margin[64] = "";

	if (isfinite(f->high))
		snprintf(margin, sizeof(margin), " (%.3f to %.3f at 95 %%)", f->low, f->high);
	if (ratio > 0)
		fprintf(out, "%-11s %s: %.1f MB/s, ours %.1f MB/s; ratio %.3f%s%s%s\n", tool,
			f->series, f->bytes_per_sec / MB, f->ours / MB, ratio, margin,
			*f->differs ? "; " : "", f->differs);
	else
		fprintf(out, "%-11s %s: %s\n", tool, f->series,
			*f->why_not ? f->why_not : "nothing of ours to compare with");
}

static json_t *one_json(const struct fio_result *f, double ratio)
{
	json_t *line = json_array();
	bool known = ratio > 0;

	for (unsigned i = 0; i < f->nr_args; i++)
		json_array_append_new(line, json_string(f->args[i]));
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "series", f->series,
			 "command_line", line, "bytes_per_sec",
			 known ? json_real(f->bytes_per_sec) : json_null(), "latency_mean",
			 known ? json_real(f->latency_mean) : json_null(), "ours_bytes_per_sec",
			 f->ours > 0 ? json_real(f->ours) : json_null(), "ratio",
			 known ? json_real(ratio) : json_null(), "ratio_ci95",
			 known && isfinite(f->high) ? json_pack("[f, f]", f->low, f->high)
						    : json_null(),
			 "differs", report_str_or_null(f->differs), "why_not",
			 report_str_or_null(f->why_not));
}

json_t *bench_report_fio(FILE *out, const char *tool, const struct fio_result *fio, unsigned nr)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < nr; i++) {
		const struct fio_result *f = &fio[i];
		double ratio = f->bytes_per_sec > 0 ? f->ratio : 0;

		json_array_append_new(all, one_json(f, ratio));
		if (out)
			text_line(out, tool, f, ratio);
	}
	return all;
}
