/* SPDX-License-Identifier: Apache-2.0 */
/* Table and heat map of a sweep as text, and its parts of the JSON. */
#include "load/report/jobs/sweep_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/jobs/sweep.h"
#include "load/measure/limit.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/result.h"
#include "load/report/result/text.h"

#define GIB  ((double)(1u << 30))
#define BEST 10

/* Points of one direction that have something to say. */
static unsigned direction(const struct sweep_result *res, bool read, const struct run_series **list)
{
	unsigned n = 0;

	for (unsigned i = 0; i < res->nr; i++)
		if (res->series[i].read == read && res->series[i].ops)
			list[n++] = &res->series[i];
	return n;
}

static int by_speed(const void *a, const void *b)
{
	double x = series_speed(*(const struct run_series *const *)a);
	double y = series_speed(*(const struct run_series *const *)b);

	return (x < y) - (x > y);
}

static const struct sweep_point *point_of(const struct sweep_result *res,
					  const struct run_series *s)
{
	return &res->points[s - res->series];
}

/* -------------------------------------------------------------------- table */

/*
 * Half the 95 % interval of the mean, as a share of it.  Of fewer than three loops it says
 * more of Student's t than of the device.
 */
static void half_text(char *buf, size_t size, const struct run_series *s, uint32_t loops)
{
	struct stat_summary v;
	double half;
	bool exact;

	snprintf(buf, size, "-");
	if (loops < 3 || series_bandwidth(s, &v, &exact) < 0)
		return;
	half = (v.ci_high - v.mean) / v.mean * 100;
	if (half > 100)
		snprintf(buf, size, "> 100 %%");
	else
		snprintf(buf, size, "%.1f %%", half);
}

static void sweep_table(FILE *f, const struct sweep_result *res, const struct run_series **list,
			unsigned n, unsigned shown)
{
	fprintf(f, "%10s %8s %8s %8s  %s\n", "GiB/s", "of best", "of limit", "+- 95 %",
		list[0]->read ? "read" : "write");
	for (unsigned i = 0; i < n && i < shown; i++) {
		const struct run_series *s = list[i];
		char limit[16] = "-", half[16];

		if (s->limit > 0)
			snprintf(limit, sizeof(limit), "%.0f %%", series_speed(s) / s->limit * 100);
		half_text(half, sizeof(half), s, point_of(res, s)->loops);
		fprintf(f, "%10.3f %6.0f %% %8s %8s  %s%s\n", series_speed(s) / GIB,
			series_speed(s) / series_speed(list[0]) * 100, limit, half, s->name,
			s->partial ? " (partial)" : "");
	}
	if (n > shown)
		fprintf(f, "%10s and %u more; --verbose shows all\n", "...", n - shown);
	fputc('\n', f);
}

/* ----------------------------------------------------------------- heat map */

static void value_text(char *buf, size_t size, const struct config_space_axis *a, unsigned i)
{
	char text[PENSTOCK_SIZE_TEXT];
	uint64_t n = a->values[i].n;

	if (a->kind == CONFIG_SPACE_BLOCK_SIZE)
		snprintf(buf, size, "%s", penstock_size_exact(text, n));
	else if (a->kind == CONFIG_SPACE_SEQUENTIAL)
		snprintf(buf, size, "%s", n ? "sequential" : "overlap");
	else if (a->kind == CONFIG_SPACE_SINGLE)
		snprintf(buf, size, "%s", n ? "single" : "batch");
	else if (a->kind == CONFIG_SPACE_ENGINE)
		snprintf(buf, size, "%s", a->values[i].text);
	else if (a->kind == CONFIG_SPACE_MEMORY)
		snprintf(buf, size, "%s", bed_memory_words[n]);
	else
		snprintf(buf, size, "%" PRIu64, n);
}

/* The two axes with the most values; false when there are not two. */
static bool pick_axes(const struct config_space *s, const struct config_space_axis *ret[2])
{
	ret[0] = ret[1] = NULL;
	for (unsigned i = 0; i < s->nr; i++) {
		const struct config_space_axis *a = &s->axes[i];

		if (a->nr < 2)
			continue;
		if (!ret[0] || a->nr > ret[0]->nr) {
			ret[1] = ret[0];
			ret[0] = a;
		} else if (!ret[1] || a->nr > ret[1]->nr) {
			ret[1] = a;
		}
	}
	return ret[1];
}

/* The fastest point with these values of both axes, whatever the others have; 0: none. */
static double cell(const struct sweep_job *job, const struct sweep_result *res, bool read,
		   const struct config_space_axis *const axes[2], unsigned row, unsigned col)
{
	double best = 0;

	for (unsigned i = 0; i < res->nr; i++) {
		const struct run_series *s = &res->series[i];
		unsigned p = res->points[i].point;

		if (s->read == read && s->ops &&
		    config_space_value(job->space, p, axes[0]->kind) == &axes[0]->values[row] &&
		    config_space_value(job->space, p, axes[1]->kind) == &axes[1]->values[col])
			best = fmax(best, series_speed(s));
	}
	return best;
}

static const char *shade(double share)
{
	return share >= 0.95 ? "█" : share >= 0.8 ? "▓" : share >= 0.5 ? "▒" : "░";
}

static void heat_map(FILE *f, const struct sweep_job *job, const struct sweep_result *res,
		     bool read, double best)
{
	const struct config_space_axis *axes[2];
	char text[32];

	if (!pick_axes(job->space, axes))
		return;
	fprintf(f, "%s, GiB/s, %s down, %s across; the best of the other settings\n",
		read ? "read" : "write", config_space_names[axes[0]->kind],
		config_space_names[axes[1]->kind]);
	fprintf(f, "%12s", "");
	for (unsigned c = 0; c < axes[1]->nr; c++) {
		value_text(text, sizeof(text), axes[1], c);
		fprintf(f, " %10s", text);
	}
	fputc('\n', f);
	for (unsigned r = 0; r < axes[0]->nr; r++) {
		value_text(text, sizeof(text), axes[0], r);
		fprintf(f, "%12s", text);
		for (unsigned c = 0; c < axes[1]->nr; c++) {
			double v = cell(job, res, read, axes, r, c);

			if (v > 0)
				fprintf(f, " %s %8.3f", shade(v / best), v / GIB);
			else
				fprintf(f, " %10s", "-");
		}
		fputc('\n', f);
	}
	fputc('\n', f);
}

/* --------------------------------------------------------------------- text */

/* Of both directions the sum counts, as for ds_nvme_tune.  The reading series, or NULL. */
static const struct run_series *best_sum(const struct sweep_job *job,
					 const struct sweep_result *res)
{
	unsigned half = res->nr / 2;
	const struct run_series *best = NULL;
	double most = 0;

	if (!job->read || !job->write)
		return NULL;
	for (unsigned i = 0; i < half; i++) {
		const struct run_series *r = &res->series[i], *w = &res->series[half + i];

		if (r->ops && w->ops && series_speed(r) + series_speed(w) > most) {
			most = series_speed(r) + series_speed(w);
			best = r;
		}
	}
	return best;
}

void report_best(FILE *f, double read, double write)
{
	fprintf(f, "Best performance (GB/sec):");
	if (read > 0)
		fprintf(f, " read = %5.2f", read / GIB);
	if (write > 0)
		fprintf(f, "%s write = %5.2f", read > 0 ? "," : "", write / GIB);
	fputc('\n', f);
}

/* Upstream's line, which is about one configuration, then the best of each direction. */
static void best_lines(FILE *f, const struct sweep_job *job, const struct sweep_result *res,
		       const struct run_series *const best[2])
{
	const struct run_series *sum = best_sum(job, res);

	if (sum) {
		report_best(f, series_speed(sum), series_speed(sum + res->nr / 2));
		fprintf(f, "best sum:   %s\n", strchr(sum->name, '_') + 1);
	} else if (!best[0] || !best[1]) {
		report_best(f, best[1] ? series_speed(best[1]) : 0,
			    best[0] ? series_speed(best[0]) : 0);
	}
	if (best[1])
		fprintf(f, "best read:  %.2f GiB/s, %s\n", series_speed(best[1]) / GIB,
			best[1]->name);
	if (best[0])
		fprintf(f, "best write: %.2f GiB/s, %s\n", series_speed(best[0]) / GIB,
			best[0]->name);
}

/* The first series that moved something speaks for its direction, else the first. */
static void limit_lines(FILE *f, const struct sweep_result *res, bool read)
{
	const struct run_series *s = NULL;
	double fastest = 0;

	for (unsigned i = 0; i < res->nr; i++) {
		const struct run_series *one = &res->series[i];

		if (one->read != read || !one->ops)
			continue;
		if (!s || (s->no_storage && !one->no_storage))
			s = one;
		if (!one->no_storage)
			fastest = fmax(fastest, series_speed(one));
	}
	if (!s)
		return;
	fprintf(f, "cache:      %ss: %s\n", read ? "read" : "write", s->cache);
	fprintf(f, "limit:      %ss: ", read ? "read" : "write");
	if (s->limit > 0)
		fprintf(f, "%.2f GiB/s (%s)\n", s->limit / GIB, s->limit_how);
	else
		fprintf(f, "%s\n", s->limit_how);
	if (s->limit > 0)
		report_limit_line(f, fastest / s->limit, false, s->limit_how);
}

void sweep_report_text(FILE *f, const struct sweep_job *job, const struct sweep_result *res,
		       bool all)
{
	CLEANUP_FREE const struct run_series **list = calloc(res->nr + 1, sizeof(*list));
	const struct run_series *best[2] = {NULL, NULL};
	char written[PENSTOCK_SIZE_TEXT];

	for (int read = 1; list && read >= 0; read--) {
		unsigned n = direction(res, read, list);

		if (!n)
			continue;
		qsort(list, n, sizeof(*list), by_speed);
		best[read] = list[0];
		sweep_table(f, res, list, n, all ? n : BEST);
		heat_map(f, job, res, read, series_speed(best[read]));
	}
	if (!best[0] && !best[1])
		return;
	best_lines(f, job, res, best);
	for (int read = 1; read >= 0; read--)
		limit_lines(f, res, read);
	if (res->resumed)
		fprintf(f,
			"resumed:    %u of %" PRIu64 " measurements were there, of %.1f s before\n",
			res->resumed, sweep_measurements(job), res->earlier_sec);
	fprintf(f, "written:    %s in all\n", penstock_size_format(written, res->bytes_written));
}

void sweep_report_plan(FILE *f, const struct sweep_job *job, const struct sweep_plan *plan)
{
	uint64_t n = sweep_measurements(job), each = sweep_bytes(job);
	uint64_t limit = sweep_limit_writes(job), writes = plan->writes + limit;
	double speed = job->limit ? (double)job->limit : 1e9;
	double sec = (double)(plan->left * each + each) / speed;
	char a[PENSTOCK_SIZE_TEXT];

	if (job->measure_limit && !job->limit && sweep_moves(job))
		sec += LIMIT_SEC * ((double)job->read + job->write);
	fprintf(f,
		"Would measure %u configuration%s, %s%s%s, %u loop%s of %s in %u folder%s: %" PRIu64
		" measurement%s\n",
		config_space_points(job->space), config_space_points(job->space) == 1 ? "" : "s",
		job->read ? "read" : "", job->read && job->write ? " and " : "",
		job->write ? "write" : "", job->loops, job->loops == 1 ? "" : "s",
		penstock_size_exact(a, job->io_size), job->nr_folders,
		job->nr_folders == 1 ? "" : "s", n, n == 1 ? "" : "s");
	if (job->resume)
		fprintf(f,
			"resumes:    %" PRIu64 " of %" PRIu64 " are there, %" PRIu64 " are left\n",
			n - plan->left, n, plan->left);
	for (unsigned i = 0; i < job->space->nr; i++) {
		const struct config_space_axis *axis = &job->space->axes[i];

		fprintf(f, "  %s:", config_space_names[axis->kind]);
		for (unsigned k = 0; k < axis->nr; k++) {
			char text[32];

			value_text(text, sizeof(text), axis, k);
			fprintf(f, " %s", text);
		}
		fputc('\n', f);
	}
	report_plan_writes(f, writes, limit, false);
	fprintf(f, "disk space: %s\n", penstock_size_format(a, each));
	report_plan_time(f, sec, speed, job->limit);
}

/* --------------------------------------------------------------------- JSON */

json_t *report_value_json(const struct config_space_axis *a, const struct config_space_value *v)
{
	if (a->kind == CONFIG_SPACE_SEQUENTIAL || a->kind == CONFIG_SPACE_SINGLE)
		return json_boolean(v->n);
	if (a->kind == CONFIG_SPACE_ENGINE)
		return report_str(v->text);
	if (a->kind == CONFIG_SPACE_MEMORY)
		return json_string(bed_memory_words[v->n]);
	return report_count(v->n);
}

static json_t *report_axis_json(const struct config_space_axis *a)
{
	json_t *j = json_array();

	for (unsigned i = 0; i < a->nr; i++)
		json_array_append_new(j, report_value_json(a, &a->values[i]));
	return j;
}

void report_space_settings(json_t *settings, const char *where, const char *const *folders,
			   unsigned nr, const struct config_space *space)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < nr; i++)
		json_array_append_new(all, report_str(folders[i]));
	json_object_set_new(settings, where, all);
	for (unsigned i = 0; i < space->nr; i++)
		json_object_set_new(settings, config_space_names[space->axes[i].kind],
				    report_axis_json(&space->axes[i]));
}

void sweep_settings(json_t *settings, const struct sweep_job *job)
{
	json_object_set_new(settings, "engine", report_str_or_null(job->opts.engine));
	json_object_set_new(settings, "memory", json_string(bed_memory_words[job->memory]));
	report_space_settings(settings, "target", job->folders, job->nr_folders, job->space);
}

json_t *report_point_json(const struct config_space *space, unsigned point)
{
	json_t *j = json_object();

	for (unsigned i = 0; i < space->nr; i++) {
		const struct config_space_axis *a = &space->axes[i];

		json_object_set_new(
			j, config_space_names[a->kind],
			report_value_json(a, config_space_value(space, point, a->kind)));
	}
	return j;
}

static json_t *best_json(const struct sweep_job *job, unsigned point, double speed)
{
	return json_pack("{s:o, s:f}", "settings", report_point_json(job->space, point),
			 "bytes_per_sec", speed);
}

json_t *sweep_grid_json(const struct sweep_job *job, const struct sweep_result *res)
{
	CLEANUP_FREE const struct run_series **list = calloc(res->nr + 1, sizeof(*list));
	json_t *axes = json_array(), *best = json_object();
	const struct run_series *sum = best_sum(job, res);

	for (unsigned i = 0; i < job->space->nr; i++)
		json_array_append_new(axes,
				      json_pack("{s:s, s:o}", "name",
						config_space_names[job->space->axes[i].kind],
						"values", report_axis_json(&job->space->axes[i])));
	for (int read = 1; list && read >= 0; read--) {
		unsigned n = direction(res, read, list);

		if (!n)
			continue;
		qsort(list, n, sizeof(*list), by_speed);
		json_object_set_new(
			best, read ? "read" : "write",
			best_json(job, point_of(res, list[0])->point, series_speed(list[0])));
	}
	if (sum)
		json_object_set_new(best, "both",
				    best_json(job, point_of(res, sum)->point,
					      series_speed(sum) + series_speed(sum + res->nr / 2)));
	return json_pack("{s:o, s:o}", "axes", axes, "best", best);
}
