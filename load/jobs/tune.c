/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A probe of a configuration is one operation per folder and direction, as ds_io
 * does it: submit, wait.  Its size is what lets the race have the rounds it needs
 * within the budget; it is the same for all configurations.  For latency a probe is
 * many small operations.
 */
#include "load/jobs/tune.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/jobs/tune_plan.h"

#define PROBES        80 /* that a race takes, about: a screening, and rounds of the few that matter */
#define TIE           0.02
#define FLOOR_LATENCY 0.5 /* of what the default configuration does */
#define FLOOR_CPU     0.9
#define BELOW_FLOOR   0.4 /* as if so much worse */

const char *const tune_goal_words[] = {"both", "read", "write", "latency", "cpu", NULL};

struct tune {
	const struct tune_job *job;
	struct tune_result *res;
	struct trials trials;
	uint64_t start_ns;
	unsigned left;
	struct limit limit[2]; /* write, read */
};

static double tune_seconds(const struct tune *t)
{
	return (double)(clock_ns() - t->start_ns) / 1e9;
}

struct penstock_opts tune_opts(const struct tune_job *job, unsigned point, uint32_t *ret_memory)
{
	struct penstock_opts opts = job->opts;
	uint32_t memory = job->memory;

	config_space_apply(job->space, point, &opts, &memory);
	if (ret_memory)
		*ret_memory = memory;
	return opts;
}

double tune_speed(const struct tune_result *res, unsigned point, bool read)
{
	return series_speed(&res->points[point].dir[read]);
}

/* -------------------------------------------------------------------- probe */

static double score(const struct tune *t, const struct trial_numbers n[2])
{
	const struct tune_job *job = t->job;
	double speed = n[0].speed + n[1].speed, p99 = fmax(n[0].p99, n[1].p99);
	double cpu = (job->write ? n[0].cpu : 0) + (job->read ? n[1].cpu : 0);
	double v = job->goal == TUNE_LATENCY ? -log(fmax(p99, 1e-9))
		   : job->goal == TUNE_CPU   ? -log(fmax(cpu, 1e-6))
					     : log(fmax(speed, 1));

	if (speed < t->res->floor)
		v -= BELOW_FLOOR + log(t->res->floor / fmax(speed, 1));
	return v;
}

/* Both directions of a configuration, once. */
static int tune_measure(struct tune *t, const struct penstock_opts *opts, uint32_t memory,
			struct tune_point *p, struct trial_numbers n[2], struct penstock_err *err)
{
	int r = 0;

	n[0] = n[1] = (struct trial_numbers){.speed = 0};
	if (t->job->write)
		r = trial_run(&t->trials, opts, memory, false, t->res->ops, &p->dir[0], &n[0], err);
	if (r == 0 && t->job->read)
		r = trial_run(&t->trials, opts, memory, true, t->res->ops, &p->dir[1], &n[1], err);
	return r;
}

static void tune_report_progress(struct tune *t)
{
	if (t->job->progress)
		t->job->progress(
			t->job->progress_arg, TUNE_RACE, (uint64_t)(1000 * tune_seconds(t)),
			t->job->exhaustive ? 0 : (uint64_t)(1000 * t->job->budget_sec), t->left);
}

static int probe(void *arg, unsigned point, double *ret_score, struct penstock_err *err)
{
	struct tune *t = arg;
	struct tune_point *p = &t->res->points[point];
	struct trial_numbers n[2];
	uint32_t memory;
	struct penstock_opts opts = tune_opts(t->job, point, &memory);
	int r;

	tune_report_progress(t);
	for (unsigned i = 0; i < 2; i++) {
		p->dir[i].opts = opts;
		p->dir[i].memory = memory;
		p->dir[i].lock = t->job->lock;
		p->dir[i].read = i;
		p->dir[i].size = t->res->op_size;
		config_space_name(p->dir[i].name, sizeof(p->dir[i].name), t->job->space, point, i,
				  t->job->nr_folders, &t->job->opts);
	}
	r = tune_measure(t, &opts, memory, p, n, err);
	if (r == 0)
		*ret_score = score(t, n);
	return r;
}

static double cost(void *arg, unsigned point)
{
	struct tune *t = arg;
	struct penstock_opts opts = tune_opts(t->job, point, NULL);

	return config_space_cost(&opts);
}

/*
 * Time, unless the next probe would write more than may be written.  The first probe has its
 * time whatever the preparation took: a result of one is better than none.
 */
static double spent(void *arg)
{
	struct tune *t = arg;
	uint64_t next = t->job->write ? trial_bytes(&t->trials.job, t->res->ops) : 0;
	uint64_t most = t->job->max_write;

	/* what plain threads may still write is theirs */
	next += tune_limit_writes(t->job) / LIMIT_TRIES * (LIMIT_TRIES - t->limit[0].tries);
	t->res->wear_limit_hit = most && t->trials.written + next > most;
	if (!t->res->wear_limit_hit && !t->res->race.probes)
		return 0;
	return t->res->wear_limit_hit ? t->job->budget_sec : tune_seconds(t);
}

/* Plain threads have a turn after each of the first rounds. */
static void tune_limit_turn(struct tune *t)
{
	const struct tune_job *job = t->job;
	double sec = tune_limit_sec(job);

	for (unsigned i = 0; i < 2 && job->measure_limit && !job->limit && sec > 0; i++) {
		struct limit_schedule schedule = {.done = t->limit[i].tries + 1,
						  .all = LIMIT_TRIES,
						  .max_bytes = tune_limit_writes(job),
						  .sec = sec};

		t->limit[i].read = i;
		if (i ? job->read : job->write)
			trials_limit(&t->trials, &t->limit[i], schedule, NULL);
	}
}

static void round_over(void *arg, unsigned left)
{
	struct tune *t = arg;

	t->left = left;
	tune_report_progress(t);
	tune_limit_turn(t);
}

/* ------------------------------------------------------------------ prepare */

static void on_fill(void *arg, uint64_t done, uint64_t total)
{
	struct tune *t = arg;

	t->job->progress(t->job->progress_arg, TUNE_PREPARE, done, total, 0);
}

/* What the devices can do: as given, or the best that plain threads or a configuration got. */
static void set_limits(struct tune *t)
{
	const struct tune_job *job = t->job;
	struct tune_result *res = t->res;
	bool measured = job->measure_limit && tune_limit_sec(job) > 0;

	/* a short race has had few rounds */
	for (unsigned i = 0; measured && res->race.probes && i < LIMIT_CONFIGS; i++)
		if (t->limit[0].tries + t->limit[1].tries < LIMIT_CONFIGS)
			tune_limit_turn(t);
	for (unsigned i = 0; i < 2; i++) {
		double fastest = 0;

		for (unsigned k = 0; k < res->race.nr_points; k++)
			fastest = fmax(fastest, tune_speed(res, k, i));
		res->limit[i] = (double)job->limit;
		snprintf(res->limit_how[i], sizeof(res->limit_how[i]), "%s",
			 job->limit           ? "as given"
			 : job->measure_limit ? "not measured: the budget is too short for it"
					      : "not measured");
		if (measured && !job->limit)
			res->limit[i] = limit_result(&t->limit[i], fastest, res->limit_how[i]);
		for (unsigned k = 0; k < res->race.nr_points; k++)
			limit_set(&res->points[k].dir[i], 1, i, res->limit[i], res->limit_how[i]);
	}
}

/* The largest operations with which the race has its rounds within the budget. */
static void choose_size(struct tune *t)
{
	const struct tune_job *job = t->job;
	double bytes = (double)(t->trials.job.file_size * job->nr_folders);
	double fill = bytes / fmax(t->trials.fill_sec, 1e-6), sec, left;
	double probes = fmin(PROBES, 10.0 * config_space_points(job->space));
	uint64_t most = tune_race_writes(job, t->trials.written);
	uint64_t size = t->trials.job.file_size;

	if (job->io_size || tune_small_ops(job))
		return;
	left = 0.8 * (job->budget_sec - tune_seconds(t));
	for (; size > TUNE_SMALLEST; size = align_down(size / 4 * 3, 1u << 20)) {
		sec = 0;
		for (unsigned i = 0; i < 2; i++)
			if (i ? job->read : job->write)
				sec += (double)(size * job->nr_folders) / fill;
		if (probes * sec <= left &&
		    (!job->write || probes * (double)(size * job->nr_folders) <= (double)most))
			break;
	}
	t->trials.job.op_size = max_u64(size, TUNE_SMALLEST);
}

/* What must be reached while latency or CPU time is made small. */
static int choose_floor(struct tune *t, struct penstock_err *err)
{
	const struct tune_job *job = t->job;
	struct tune_point p = {.dir = {{.read = false}, {.read = true}}};
	struct trial_numbers n[2];
	int r = 0;

	if (job->goal != TUNE_LATENCY && job->goal != TUNE_CPU)
		return 0;
	t->res->floor = (double)job->floor;
	if (!job->floor) {
		r = tune_measure(t, &job->opts, job->memory, &p, n, err);
		t->res->floor_share = job->goal == TUNE_CPU ? FLOOR_CPU : FLOOR_LATENCY;
		t->res->floor = (n[0].speed + n[1].speed) * t->res->floor_share;
	}
	series_fini(&p.dir[0]);
	series_fini(&p.dir[1]);
	return r;
}

static int tune_prepare(struct tune *t, struct penstock_err *err)
{
	struct trials_job l = tune_trials_job(t->job);
	int r;

	l.progress = t->job->progress ? on_fill : NULL;
	l.progress_arg = t;
	r = trials_open(&t->trials, &l, err);
	t->res->began = r == 0;
	if (r == 0 && t->job->began)
		t->job->began(t->job->progress_arg);
	if (r == 0)
		r = trials_fill(&t->trials, err);
	if (r < 0)
		return r;
	choose_size(t);
	t->res->op_size = t->trials.job.op_size;
	t->res->ops = tune_probe_ops(t->job);
	r = penstock_check_stop(t->job->stop, err);
	return r < 0 ? r : choose_floor(t, err);
}

/* ---------------------------------------------------------------------- run */

static void set_race(struct tune *t)
{
	const struct tune_job *job = t->job;
	struct tune_race_job *r = &t->res->race_job;

	*r = (struct tune_race_job){
		.nr_axes = job->space->nr,
		.probe = probe,
		.cost = cost,
		.spent = spent,
		.round = round_over,
		.arg = t,
		.budget = job->budget_sec,
		.tie = TIE,
		.exhaustive = job->exhaustive,
		.loops = job->loops,
		.seed = job->seed,
		.stop = job->stop,
	};
	for (unsigned i = 0; i < r->nr_axes; i++)
		r->levels[i] = job->space->axes[i].nr;
}

static void tune_finish(struct tune *t)
{
	struct tune_result *res = t->res;

	set_limits(t);
	for (unsigned i = 0; i < res->race.nr_points; i++)
		for (unsigned k = 0; k < 2; k++)
			series_finish(&res->points[i].dir[k]);
	res->bytes_written = t->trials.written;
	res->info = TAKE_PTR(t->trials.info);
	res->spent_sec = tune_seconds(t);
}

int tune_run(const struct tune_job *job, struct tune_result *res, struct penstock_err *err)
{
	struct tune t = {.job = job, .res = res, .start_ns = clock_ns()};
	int r;

	*res = (struct tune_result){.ops = 1};
	set_race(&t);
	res->points = calloc(config_space_points(job->space), sizeof(*res->points));
	r = res->points ? tune_prepare(&t, err) : penstock_fail(err, -ENOMEM, "out of memory");
	if (r == 0)
		r = tune_race_run(&res->race_job, &res->race, err);
	if (r == -ENODATA && asked_to_stop(job->stop))
		r = penstock_fail(err, -ECANCELED, "interrupted");
	tune_finish(&t);
	trials_close(&t.trials);
	res->race_job.arg = NULL;
	return r;
}

void tune_fini(struct tune_result *res)
{
	for (unsigned i = 0; res->points && i < res->race.nr_points; i++)
		for (unsigned k = 0; k < 2; k++)
			series_fini(&res->points[i].dir[k]);
	tune_race_fini(&res->race);
	free(res->points);
	free(res->info);
	*res = (struct tune_result){.ops = 0};
}
