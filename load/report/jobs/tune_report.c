/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ds_nvme_tune's lines come first and as it prints them, but for the JSON: there the
 * booleans are booleans and the threads have the name that DeepSpeed reads.
 */
#include "load/report/jobs/tune_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "load/bed/buffers.h"
#include "load/jobs/tune.h"
#include "load/report/jobs/sweep_report.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/text.h"

#define GIB          ((double)(1u << 30))
#define VERDICT      1024
#define EQUALS_SHOWN 5    /* names in a verdict */
#define MIN_EFFECT   0.02 /* of a setting that mattered */
#define MAX_UNSEEN   0.2  /* that a setting may be worth where it is said that it mattered little */

static const char *const end_words[] = {"clear", "tied", "budget", "stopped", "all"};

/* The name of a configuration without its direction. */
static const char *tune_name_of(const struct tune_result *res, unsigned point)
{
	const struct tune_point *p = &res->points[point];

	return strchr(p->dir[1].name, '_') ? strchr(p->dir[1].name, '_') + 1 : p->dir[1].name;
}

/* A series of the point that has something in it. */
static const struct run_series *some_series(const struct tune_result *res, unsigned point)
{
	const struct tune_point *p = &res->points[point];

	return p->dir[1].ops ? &p->dir[1] : &p->dir[0];
}

/* The tried point that is fastest in one direction. */
static unsigned fastest(const struct tune_result *res, bool read)
{
	unsigned best = res->race.winner;

	for (unsigned i = 0; i < res->race.nr_points; i++)
		if (tune_speed(res, i, read) > tune_speed(res, best, read) &&
		    res->race.points[i].nr >= res->race.points[best].nr)
			best = i;
	return best;
}

json_t *tune_config_json(const struct tune_job *job, const struct tune_result *res)
{
	struct penstock_opts o = tune_opts(job, res->race.winner, NULL);
	const struct run_series *s = some_series(res, res->race.winner);

	json_t *aio = json_pack(
		"{s:b, s:b, s:I, s:I, s:I}", "single_submit", !!(o.flags & PENSTOCK_SINGLE_SUBMIT),
		"overlap_events", !(o.flags & PENSTOCK_NO_OVERLAP), "intra_op_parallelism",
		(json_int_t)s->stats.threads, "queue_depth", (json_int_t)s->stats.depth,
		"block_size", (json_int_t)s->file.block);

	/* DeepSpeed knows a key for one engine only, and looks at no other key. */
	if (o.engine && !strcmp(o.engine, "cufile"))
		json_object_set_new(aio, "use_gds", json_true());
	else if (o.engine)
		json_object_set_new(aio, "engine", report_str(o.engine));
	return json_pack("{s:o}", "aio", aio);
}

/* --------------------------------------------------------------------- text */

void tune_report_start(FILE *f, const struct tune_job *job)
{
	fprintf(f, "Running DeepNVMe performance tuning on [");
	for (unsigned i = 0; i < job->nr_folders; i++)
		fprintf(f, "%s'%s'", i ? ", " : "", job->folders[i]);
	fprintf(f, "]\n");
}

static void tune_append(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void tune_append(char *buf, size_t size, const char *fmt, ...)
{
	size_t len = strlen(buf);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf + len, size - len, fmt, ap);
	va_end(ap);
}

/* How those stand that were tried, and how many were not. */
static void add_scope(char *buf, size_t size, const struct tune_race_result *r)
{
	if (r->end != TUNE_RACE_STOPPED && r->worse)
		tune_append(buf, size, "; %u other%s worse at 95 %%", r->worse,
			    r->worse == 1 ? " is" : "s are");
	if (r->end != TUNE_RACE_STOPPED && r->open)
		tune_append(buf, size, "; %u promised less and %s set aside", r->open,
			    r->open == 1 ? "was" : "were");
	if (r->tried < r->nr_points)
		tune_append(buf, size, "; %u of %u configurations were not tried",
			    r->nr_points - r->tried, r->nr_points);
}

/* The equals: those that fit into a line. */
static void add_equals(char *buf, size_t size, const struct tune_result *res)
{
	const struct tune_race_result *r = &res->race;
	unsigned shown = 1;

	tune_append(buf, size,
		    "any of these %u will do, they cannot be told apart: %s, the cheapest of the "
		    "strongest",
		    r->equals, tune_name_of(res, r->winner));
	for (unsigned i = 0; i < r->nr_points && shown < EQUALS_SHOWN; i++) {
		if (!r->points[i].equal || i == r->winner)
			continue;
		tune_append(buf, size, ", %s", tune_name_of(res, i));
		shown++;
	}
	if (shown < r->equals)
		tune_append(buf, size, ", and %u more", r->equals - shown);
}

/* Why it ended, and how sure that is. */
static void verdict(char *buf, size_t size, const struct tune_result *res)
{
	const struct tune_race_result *r = &res->race;
	const char *winner = tune_name_of(res, r->winner);

	*buf = 0;
	if (r->end == TUNE_RACE_STOPPED)
		snprintf(buf, size, "ended early; the best so far is %s", winner);
	else if (r->equals > 1)
		add_equals(buf, size, res);
	else if (r->end == TUNE_RACE_CLEAR)
		snprintf(buf, size,
			 "%s, measured %u time%s: nothing that is cheaper is as good, and nothing "
			 "else "
			 "promises more",
			 winner, r->points[r->winner].nr, r->points[r->winner].nr == 1 ? "" : "s");
	else
		snprintf(buf, size, "%s is ahead%s", winner,
			 r->end != TUNE_RACE_BUDGET ? ""
			 : res->wear_limit_hit
				 ? ", but what may be written was used up before that was certain"
				 : ", but the budget ended it before that was certain");
	add_scope(buf, size, r);
}

/* What the winner had to reach, and whether it did: nothing else may have been there. */
static void text_floor(FILE *f, const struct tune_job *job, const struct tune_result *res)
{
	double speed =
		tune_speed(res, res->race.winner, true) + tune_speed(res, res->race.winner, false);

	if (res->floor <= 0)
		return;
	fprintf(f, "floor:      %.2f GiB/s%s, ", res->floor / GIB,
		job->read && job->write ? " of reading and writing together" : "");
	if (res->floor_share > 0)
		fprintf(f, "%.0f %% of what the default settings did", 100 * res->floor_share);
	else
		fprintf(f, "as --floor says");
	fprintf(f, "; the winner did %.2f%s\n", speed / GIB,
		speed < res->floor ? ", as nothing faster was found" : "");
}

/* Only what is more than chance; and how much could have been overlooked. */
static void text_importance(FILE *f, const struct tune_job *job, const struct tune_result *res)
{
	double unseen = 0;
	bool any = false;

	fprintf(f, "mattered:   ");
	for (unsigned a = 0; a < job->space->nr; a++) {
		double margin, v = tune_race_importance(&res->race_job, &res->race, a, &margin);

		if (v < MIN_EFFECT || v < margin) {
			unseen = fmax(unseen, v + margin);
			continue;
		}
		fprintf(f, "%s%s %.0f %%", any ? ", " : "",
			config_space_names[job->space->axes[a].kind], 100 * v);
		any = true;
	}
	if (any)
		fprintf(f, " between best and worst value%s", unseen > 0 ? "; " : "");
	if (unseen > MAX_UNSEEN)
		fprintf(f, "of %ssettings %u probe%s tell%s too little", any ? "other " : "the ",
			res->race.probes, res->race.probes == 1 ? "" : "s",
			res->race.probes == 1 ? "s" : "");
	else if (unseen > 0)
		fprintf(f, "no %ssetting by more than %.0f %%", any ? "other " : "",
			fmax(1, ceil(100 * unseen)));
	else if (!any)
		fprintf(f, "there were no settings to choose from");
	fputc('\n', f);
}

static void text_limit(FILE *f, const struct tune_result *res, bool read)
{
	double speed = tune_speed(res, res->race.winner, read);

	if (speed <= 0)
		return;
	if (res->limit[read] > 0)
		fprintf(f, "limit:      %s %.1f %% of %.2f GiB/s (%s)\n", read ? "read" : "write",
			100 * speed / res->limit[read], res->limit[read] / GIB,
			res->limit_how[read]);
	else
		fprintf(f, "limit:      %s %s\n", read ? "read" : "write", res->limit_how[read]);
	if (res->limit[read] > 0)
		report_limit_line(f, speed / res->limit[read], false, res->limit_how[read]);
}

void tune_report_text(FILE *f, const struct tune_job *job, const struct tune_result *res)
{
	const struct tune_race_result *r = &res->race;
	json_t *config = tune_config_json(job, res);
	char *text = config ? json_dumps(config, JSON_INDENT(3)) : NULL;
	char size[PENSTOCK_SIZE_TEXT], line[VERDICT];

	report_best(f, tune_speed(res, r->winner, true), tune_speed(res, r->winner, false));
	fprintf(f, "%s\n", text ? text : "{}");
	free(text);
	json_decref(config);
	fprintf(f, "goal:       %s\n", tune_goal_words[job->goal]);
	fprintf(f,
		"search:     %u of %u configuration%s in %u round%s, %u probe%s of %u x %s, %.1f "
		"s\n",
		r->tried, r->nr_points, r->nr_points == 1 ? "" : "s", r->rounds,
		r->rounds == 1 ? "" : "s", r->probes, r->probes == 1 ? "" : "s", res->ops,
		penstock_size_format(size, res->op_size), res->spent_sec);
	verdict(line, sizeof(line), res);
	fprintf(f, "verdict:    %s\n", line);
	text_floor(f, job, res);
	text_importance(f, job, res);
	text_limit(f, res, true);
	text_limit(f, res, false);
	if (job->read && job->write && fastest(res, true) != fastest(res, false))
		fprintf(f,
			"separately: %s is the fastest to read (%.2f GiB/s), %s to write "
			"(%.2f GiB/s)\n",
			tune_name_of(res, fastest(res, true)),
			tune_speed(res, fastest(res, true), true) / GIB,
			tune_name_of(res, fastest(res, false)),
			tune_speed(res, fastest(res, false), false) / GIB);
	fprintf(f, "written:    %s\n", penstock_size_format(size, res->bytes_written));
}

void tune_report_plan(FILE *f, const struct tune_job *job)
{
	double speed = job->limit ? (double)job->limit : 1e9;
	const char *how = job->limit ? "as --limit says" : "assumed; --limit knows better";
	char a[PENSTOCK_SIZE_TEXT], b[PENSTOCK_SIZE_TEXT];
	struct tune_plan plan;

	tune_plan(job, speed, &plan);
	fprintf(f, "configurations: %u\n", config_space_points(job->space));
	for (unsigned i = 0; i < job->space->nr; i++) {
		const struct config_space_axis *axis = &job->space->axes[i];

		fprintf(f, "  %s:", config_space_names[axis->kind]);
		for (unsigned k = 0; k < axis->nr; k++)
			fprintf(f, " %s",
				axis->values[k].text ? axis->values[k].text
				: axis->kind == CONFIG_SPACE_BLOCK_SIZE
					? penstock_size_exact(a, axis->values[k].n)
				: axis->kind == CONFIG_SPACE_SEQUENTIAL ||
						axis->kind == CONFIG_SPACE_SINGLE
					? (axis->values[k].n ? "true" : "false")
				: axis->kind == CONFIG_SPACE_MEMORY
					? bed_memory_words[axis->values[k].n]
					: (snprintf(a, sizeof(a), "%llu",
						    (unsigned long long)axis->values[k].n),
					   a));
		fputc('\n', f);
	}
	fprintf(f, "folders:        %u, %s on disk\n", job->nr_folders,
		penstock_size_format(a, plan.space));
	fprintf(f, "would write:    at most %s (%llu bytes)",
		penstock_size_format(a, plan.write_most), (unsigned long long)plan.write_most);
	if (plan.limit_writes)
		fprintf(f, ", up to %s of it to measure the limit",
			penstock_size_format(a, plan.limit_writes));
	if (plan.write_likely < plan.write_most)
		fprintf(f, "; about %s at %s per second (%s)",
			penstock_size_format(a, plan.write_likely),
			penstock_size_format(b, (uint64_t)speed), how);
	fputc('\n', f);
	if (job->exhaustive)
		fprintf(f,
			"would take:     %u probe%s of each configuration, about %.0f s at %s per "
			"second (%s)\n",
			job->loops, job->loops == 1 ? "" : "s", ceil(plan.seconds),
			penstock_size_format(b, (uint64_t)speed), how);
	else
		fprintf(f, "would take:     at most about %.0f s, less when the winner is clear\n",
			job->budget_sec);
}

/* --------------------------------------------------------------------- JSON */

static json_t *real_or_null(double v)
{
	return isfinite(v) && v > 0 ? json_real(v) : json_null();
}

static json_t *contender_json(const struct tune_job *job, const struct tune_result *res,
			      unsigned point)
{
	const struct tune_race_point *p = &res->race.points[point];

	return json_pack(
		"{s:s, s:o, s:I, s:o, s:o, s:f, s:o, s:o, s:o}", "name", tune_name_of(res, point),
		"settings", report_point_json(job->space, point), "probes", (json_int_t)p->nr,
		"dropped_in_round", report_count_or_null(p->dropped), "against",
		p->against == point ? json_null() : json_string(tune_name_of(res, p->against)),
		"behind", exp(p->behind) - 1, "behind_margin",
		p->shared >= TUNE_RACE_MIN_SHARED ? json_real(p->behind_half) : json_null(),
		"read_bytes_per_sec", real_or_null(tune_speed(res, point, true)),
		"write_bytes_per_sec", real_or_null(tune_speed(res, point, false)));
}

static json_t *importance_json(const struct tune_job *job, const struct tune_result *res)
{
	json_t *all = json_array();

	for (unsigned a = 0; a < job->space->nr; a++) {
		const struct config_space_axis *axis = &job->space->axes[a];
		double margin,
			effect = tune_race_importance(&res->race_job, &res->race, a, &margin);
		unsigned best = 0;

		for (unsigned l = 1; l < axis->nr; l++)
			if (res->race.effect[a][l] > res->race.effect[a][best])
				best = l;
		json_array_append_new(all, json_pack("{s:s, s:f, s:o, s:o}", "name",
						     config_space_names[axis->kind], "effect",
						     effect, "margin", real_or_null(margin), "best",
						     report_value_json(axis, &axis->values[best])));
	}
	return all;
}

json_t *tune_json(const struct tune_job *job, const struct tune_result *res)
{
	const struct tune_race_result *r = &res->race;
	json_t *contenders = json_array(), *any_of = json_array();
	char text[VERDICT];

	for (unsigned i = 0; i < r->nr_points; i++)
		if (r->points[i].nr)
			json_array_append_new(contenders, contender_json(job, res, i));
	for (unsigned i = 0; i < r->nr_points; i++)
		if (r->points[i].equal)
			json_array_append_new(any_of, json_string(tune_name_of(res, i)));
	verdict(text, sizeof(text), res);
	return json_pack(
		"{s:s, s:o, s:f, s:f, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:I, "
		"s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}",
		"goal", tune_goal_words[job->goal], "floor", real_or_null(res->floor), "budget_sec",
		job->budget_sec, "spent_sec", res->spent_sec, "exhaustive", job->exhaustive,
		"op_size", (json_int_t)res->op_size, "ops_per_probe", (json_int_t)res->ops,
		"configurations", (json_int_t)r->nr_points, "tried", (json_int_t)r->tried, "rounds",
		(json_int_t)r->rounds, "probes", (json_int_t)r->probes, "end", end_words[r->end],
		"verdict", text, "winner", tune_name_of(res, r->winner), "leader",
		tune_name_of(res, r->leader), "equals", (json_int_t)r->equals, "worse",
		(json_int_t)r->worse, "undecided", (json_int_t)r->open, "config",
		tune_config_json(job, res), "fastest_read",
		job->read ? json_string(tune_name_of(res, fastest(res, true))) : json_null(),
		"fastest_write",
		job->write ? json_string(tune_name_of(res, fastest(res, false))) : json_null(),
		"importance", importance_json(job, res), "any_of", any_of, "contenders",
		contenders);
}

struct run_series *tune_series(const struct tune_job *job, const struct tune_result *res,
			       unsigned *ret_nr)
{
	struct run_series *all = calloc(2 * (size_t)res->race.nr_points + 1, sizeof(*all));
	unsigned nr = 0;

	(void)job;
	for (unsigned k = 0; all && k <= res->race.nr_points; k++) {
		unsigned i = k ? k - 1 : res->race.winner;

		if (k && i == res->race.winner)
			continue;
		for (unsigned d = 2; d-- > 0;)
			if (res->points[i].dir[d].ops)
				all[nr++] = res->points[i].dir[d];
	}
	*ret_nr = nr;
	return all;
}
