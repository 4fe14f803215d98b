/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoint figures for people and programs.  Beside ours, which are bytes of all processes over
 * the time from the common beginning to the last end, stand those of MLPerf Storage: the time and
 * the throughput of the slowest process by its own clock.
 */
#include "load/report/jobs/ckpt_report.h"

#include <inttypes.h>
#include <math.h>

#include "base/size.h"
#include "base/util.h"
#include "load/jobs/ckpt.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"

#define MB 1e6

/* Seconds of a process in one operation, of a sum over all. */
static double each(const struct ckpt_job *job, const struct ckpt_direction *w, double sum)
{
	return w->series.ops ? sum / (double)(w->series.ops * job->processes) : 0;
}

/* Of the time a process spends on a checkpoint, what goes into making its content. */
static double made_share(const struct ckpt_direction *w, unsigned method)
{
	double all = w->all_sec + (method == CKPT_STREAMING ? 0 : w->made_sec);

	return all > 0 ? w->made_sec / all : 0;
}

/* What a faster one of would help; content that is made beforehand holds nothing up. */
static const char *bottleneck(const struct ckpt_direction *w, unsigned method)
{
	return method == CKPT_STREAMING && made_share(w, method) > 0.5 ? "generation" : "storage";
}

/* ---------------------------------------------------------------------- text */

static void direction_line(FILE *f, const struct ckpt_job *job, const struct ckpt_direction *w,
			   unsigned method)
{
	const struct run_series *s = &w->series;
	char share[16] = "-", made[32] = "-", close[REPORT_TIME_TEXT] = "-";
	char slowest[REPORT_TIME_TEXT];

	if (!s->ops)
		return;
	if (s->limit > 0)
		snprintf(share, sizeof(share), "%.0f %%", series_speed(s) / s->limit * 100);
	if (!s->read) {
		report_time(close, each(job, w, w->close_sec));
		snprintf(made, sizeof(made), "%.0f %%%s", 100 * made_share(w, method),
			 method == CKPT_STREAMING ? "" : " before");
	}
	fprintf(f, "%-14s %4" PRIu64 " %9.1f %8s %12s %9.1f %11s %11s %9.3f\n", s->name, s->ops,
		series_speed(s) / MB, share, report_time(slowest, w->slowest_sec / (double)s->ops),
		w->slowest_rate / (double)s->ops / MB, made, close, series_cpu_per_gib(s));
}

/* Of each direction once; series that ran are copies of those of the directions, with the limit. */
static void kind_lines(FILE *f, const struct ckpt_result *res, bool read)
{
	double best = 0;
	const struct run_series *s = NULL;

	for (unsigned i = 0; i < res->nr_series; i++) {
		const struct run_series *one = &res->series[i];

		if (one->read != read)
			continue;
		fprintf(f, "cache:      %s: %s\n", one->name, one->cache);
		s = s ? s : one;
		best = fmax(best, one->limit > 0 ? series_speed(one) / one->limit : 0);
	}
	if (!s)
		return;
	if (s->limit > 0)
		fprintf(f, "limit:      %ss: %.1f MB/s (%s)\n", read ? "load" : "save",
			s->limit / MB, s->limit_how);
	else
		fprintf(f, "limit:      %ss: %s\n", read ? "load" : "save",
			*s->limit_how ? s->limit_how : "not measured");
	if (s->limit > 0)
		report_limit_line(f, best, !read, s->limit_how);
}

static void caveat_lines(FILE *f, const struct ckpt_result *res)
{
	const struct ckpt_direction *w = &res->directions[CKPT_STREAMING][0];

	if (w->series.ops)
		fprintf(f,
			"bottleneck: of `save streaming' %s: %.0f %% of a process's time went into "
			"content, the rest into waiting for the storage\n",
			bottleneck(w, CKPT_STREAMING), 100 * made_share(w, CKPT_STREAMING));
	for (unsigned m = 0; m < CKPT_METHODS; m++)
		if (*res->why_not[m])
			fprintf(f, "left out:   %s: %s\n", ckpt_method_words[m], res->why_not[m]);
}

void ckpt_report_text(FILE *f, const struct ckpt_job *job, const struct ckpt_result *res)
{
	char all[PENSTOCK_SIZE_TEXT], one[PENSTOCK_SIZE_TEXT], seen[PENSTOCK_SIZE_TEXT];
	uint64_t verified = 0;

	fprintf(f, "Checkpoints of %s: %u process%s, %s each%s%s\n\n",
		penstock_size_format(all, job->size * job->processes), job->processes,
		job->processes == 1 ? "" : "es", penstock_size_format(one, job->size),
		job->model ? ", as MLPerf's " : "", job->model ? ckpt_model_words[job->model] : "");
	fprintf(f, "%-14s %4s %9s %8s %22s %11s %11s %9s\n", "", "", "all", "", "slowest process",
		"of it", "to make", "");
	fprintf(f, "%-14s %4s %9s %8s %12s %9s %11s %11s %9s\n", "", "ops", "MB/s", "of limit",
		"time", "MB/s", "content", "durable", "CPU s/GiB");
	for (unsigned i = 0, k = 0; i < 2 * CKPT_METHODS; i++) {
		struct ckpt_direction w = res->directions[i / 2][i % 2];

		if (!res->ran[i / 2] || !w.series.ops)
			continue;
		w.series = res->series[k++];
		verified += w.series.verified_bytes;
		direction_line(f, job, &w, i / 2);
	}
	fputc('\n', f);
	if (res->nr_series)
		report_run_lines(f, &res->series[0]);
	report_path(f, job->folder, &res->path);
	fputc('\n', f);
	kind_lines(f, res, false);
	kind_lines(f, res, true);
	caveat_lines(f, res);
	if (verified)
		fprintf(f, "verified:   checksums in every load; %s compared besides\n",
			penstock_size_format(seen, verified));
}

void ckpt_report_plan(FILE *f, const struct ckpt_job *job, const struct ckpt_plan *plan)
{
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT];

	fprintf(f, "Would save checkpoints of %s in a new folder in %s: %u process%s, %s each\n",
		penstock_size_format(a, plan->bytes), job->folder, job->processes,
		job->processes == 1 ? "" : "es", penstock_size_format(b, job->size));
	for (unsigned m = 0; m < CKPT_METHODS; m++) {
		char why[192];

		if (!job->methods[m])
			continue;
		fprintf(f, "  %s: %u save%s, %u load%s, %s of memory", ckpt_method_words[m],
			job->saves, job->saves == 1 ? "" : "s", job->loads,
			job->loads == 1 ? "" : "s", penstock_size_format(a, plan->memory[m]));
		if (ckpt_method_missing(job, m, why))
			fprintf(f, ": would be left out: %s", why);
		fputc('\n', f);
	}
	report_plan_writes(f, plan->writes, plan->limit, false);
	fprintf(f, "reads:      %s\n", penstock_size_format(a, plan->reads));
	fprintf(f, "disk space: %s at a time\n", penstock_size_format(a, plan->space));
}

/* ---------------------------------------------------------------------- JSON */

static json_t *generation_json(const struct ckpt_job *job, const struct ckpt_direction *w,
			       unsigned method)
{
	if (w->series.read)
		return json_null();
	return json_pack("{s:f, s:o, s:f, s:b}", "sec", each(job, w, w->made_sec), "bytes_per_sec",
			 w->made_sec > 0 ? json_real((double)job->size / each(job, w, w->made_sec))
					 : json_null(),
			 "share", made_share(w, method), "within", method == CKPT_STREAMING);
}

static json_t *slowest_json(const struct ckpt_direction *w)
{
	json_t *all = json_array();

	for (size_t i = 0; i < w->nr_slowest; i++)
		json_array_append_new(all, json_real(w->slowest[i]));
	return all;
}

static json_t *direction_json(const struct ckpt_job *job, const struct ckpt_direction *w,
			      unsigned method)
{
	const struct run_series *s = &w->series;
	double ops = (double)s->ops;

	if (!s->ops)
		return json_null();
	return json_pack("{s:o, s:I, s:f, s:{s:f, s:f, s:o}, s:o, s:o, s:o}", "series",
			 report_str(s->name), "operations", (json_int_t)s->ops, "bytes_per_sec",
			 series_speed(s), "reference", "duration_sec", w->slowest_sec / ops,
			 "throughput", w->slowest_rate / ops, "operations_sec", slowest_json(w),
			 "generation", generation_json(job, w, method), "close_sec",
			 s->read ? json_null() : json_real(each(job, w, w->close_sec)),
			 "bottleneck", s->read ? json_null() : json_string(bottleneck(w, method)));
}

static json_t *method_json(const struct ckpt_job *job, const struct ckpt_result *res, unsigned m)
{
	return json_pack("{s:s, s:o, s:o, s:o}", "name", ckpt_method_words[m], "why_not",
			 report_str_or_null(res->why_not[m]), "save",
			 direction_json(job, &res->directions[m][0], m), "load",
			 direction_json(job, &res->directions[m][1], m));
}

json_t *ckpt_report_json(const struct ckpt_job *job, const struct ckpt_result *res)
{
	json_t *methods = json_array();

	for (unsigned m = 0; m < CKPT_METHODS; m++)
		if (job->methods[m])
			json_array_append_new(methods, method_json(job, res, m));
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:o}", "model",
			 job->model ? json_string(ckpt_model_words[job->model]) : json_null(),
			 "processes", (json_int_t)job->processes, "process_bytes",
			 (json_int_t)job->size, "checkpoint_bytes",
			 (json_int_t)(job->size * job->processes), "saves", (json_int_t)job->saves,
			 "loads", (json_int_t)job->loads, "distinct", job->distinct, "dedup",
			 job->dedup, "compress", job->compress, "methods", methods);
}
