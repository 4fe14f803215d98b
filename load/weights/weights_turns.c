/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of a job of weights through a window: groups, or sets of experts, and the limit between. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/weights/weights_run.h"

#define GROUP_SEC 20e-6 /* that the smallest group takes, until it is known better */

enum {
	MIN_GROUPS = 4,    /* groups of a turn */
	WARM_UP_PASSES = 2 /* times that all of the window is used before anything counts */
};

/* --------------------------------------------------------------------- limit */

/*
 * Into as much memory as the work fills, for a few megabytes that stay in the processor's cache are
 * faster on a virtual disk.  Experts are in the window between the turns, and a GPU's is none of
 * pread's.
 */
static void try_limit(struct weights_run *run)
{
	const struct weights_job *job = run->job;
	const char *path = run->files.paths[run->files.largest];
	bool own = job->experts || job->gpu;
	struct limit_target t = {
		.paths = &path,
		.nr_paths = 1,
		.len = align_down(run->files.lens[run->files.largest], 1 << 20),
		.nr_bufs = 1,
		.buf_len = own ? WEIGHTS_LIMIT_BUFFER : run->job->window,
		.step = own ? WEIGHTS_LIMIT_BUFFER : run->job->window,
		.align = 4096,
		.s3 = job->opts.s3,
		.in_flight = 1,
		.block = job->opts.block,
	};

	if (!job->measure_limit || job->limit || !t.len)
		return;
	t.buf = own ? run->limit_buffers.bufs[0] : run->window;
	limit_try(&run->limit, &t, 1, 0, LIMIT_SEC / LIMIT_CONFIGS, job->stop);
}

/* What the device seems to do, to find out how long a turn would take. */
static double speed_so_far(const struct weights_run *run)
{
	double best = (double)run->job->limit;

	for (unsigned i = 0; i < LIMIT_CONFIGS; i++)
		if (run->limit.ns[i])
			best = max_u64((uint64_t)best, (uint64_t)((double)run->limit.counted[i] *
								  1e9 / (double)run->limit.ns[i]));
	if (run->res->series.sec > 0 && best <= 0)
		best = series_speed(&run->res->series);
	return best > 0 ? best : 1e9;
}

/* --------------------------------------------------------------------- turns */

/* As long as it was: a busy machine wakes nobody in time, and that is not the storage. */
static void compute(struct weights_run *run)
{
	struct timespec t = {.tv_sec = (time_t)(run->job->compute_ms / 1000)};
	uint64_t begun = clock_ns();

	t.tv_nsec = (long)((run->job->compute_ms - (double)t.tv_sec * 1000) * 1e6);
	if (run->job->compute_ms <= 0)
		return;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	run->res->compute_sec += (double)(clock_ns() - begun) / 1e9;
}

static void add_stats(struct penstock_weights_stats *sum, struct penstock_weights *w)
{
	struct penstock_weights_stats s = {.size = sizeof(s)};

	penstock_weights_get_stats(w, &s);
	sum->direct = s.direct;
	sum->window = s.window;
	sum->largest = max_u64(sum->largest, s.largest);
	sum->groups += s.groups;
	sum->bytes += s.bytes;
	sum->bytes_read += s.bytes_read;
	sum->bytes_copied += s.bytes_copied;
	sum->reads += s.reads;
	sum->hits += s.hits;
	sum->misses += s.misses;
	sum->evicted += s.evicted;
	sum->wasted += s.wasted;
	sum->disk_ns += s.disk_ns;
	sum->copy_ns += s.copy_ns;
	sum->stall_disk_ns += s.stall_disk_ns;
	sum->stall_copy_ns += s.stall_copy_ns;
	sum->stall_caller_ns += s.stall_caller_ns;
}

static int window_open(struct weights_run *run, struct penstock_weights **w,
		       const struct penstock_model *m, uint32_t flags, struct penstock_err *err)
{
	struct penstock_weights_opts o = PENSTOCK_WEIGHTS_OPTS_INIT;

	o.flags = flags;
	o.addr = run->window;
	o.window = run->job->window + (64 << 10);
	return penstock_weights_open(w, run->io, m, &o, err);
}

/* What it took of the storage: an expert that was in the window is no speed of it. */
static uint64_t storage_bytes(struct weights_run *run, struct penstock_weights *w,
			      const struct penstock_group *g)
{
	struct penstock_weights_stats now = {.size = sizeof(now)};
	uint64_t before = run->counted;

	if (!run->job->experts)
		return g->bytes;
	penstock_weights_get_stats(w, &now);
	run->counted = now.bytes_read;
	return now.bytes_read - before;
}

/* One group: waited for, used, given back.  1, 0 at the end, or -errno. */
static int run_group(struct weights_run *run, struct penstock_weights *w,
		     const struct penstock_model *m, uint64_t begun_ns, struct penstock_err *err)
{
	struct run_series *s = &run->res->series;
	struct penstock_view v;
	int r = penstock_weights_next(w, &v, err);
	uint64_t now = clock_ns();

	if (r <= 0)
		return r;
	r = series_add(s, storage_bytes(run, w, penstock_model_get_group(m, v.group)),
		       now - run->last_ns, (uint64_t)(s->sec * 1e9) + now - begun_ns);
	run->last_ns = now;
	if (r < 0)
		return penstock_fail(err, r, "out of memory");
	compute(run);
	r = penstock_weights_release(w, v.group, err);
	return r < 0 ? r : 1;
}

/* As many groups as take the time of a turn, from where the last one ended. */
static void turn_plan(struct weights_run *run, struct weights_turn *t)
{
	double left = run->job->sec / WEIGHTS_TURNS, speed = speed_so_far(run), planned;
	const struct weights_turn *before = run->nr_turns ? &run->turns[run->nr_turns - 1] : NULL;
	uint64_t groups = run->res->plan.groups;

	*t = (struct weights_turn){.first = before ? (before->first + before->nr) % groups : 0};
	if (run->res->series.sec > 2 * run->planned_sec && run->planned_sec > 0)
		left *= run->planned_sec / run->res->series.sec;
	planned = left;
	while (left > 0 || t->nr < MIN_GROUPS) {
		uint64_t k = (t->first + t->nr++) % groups;
		double sec = (double)penstock_model_get_group(run->m, k)->bytes / speed;

		left -= fmax(fmax(sec, run->job->compute_ms / 1000), GROUP_SEC);
	}
	run->planned_sec += planned - left;
}

static int turn_model(struct penstock_model **out, const struct weights_run *run,
		      const struct weights_turn *t, struct penstock_err *err)
{
	struct penstock_model *m;
	int r = penstock_model_new(&m, err);

	if (r < 0)
		return r;
	for (uint64_t i = 0; i < t->nr && r == 0; i++) {
		const struct penstock_group *g =
			penstock_model_get_group(run->m, (t->first + i) % run->res->plan.groups);

		r = penstock_model_group(m, g->name, err);
		for (uint64_t k = 0; k < g->nr && r == 0; k++)
			r = penstock_model_add(m, penstock_model_get_weight(run->m, g->first + k),
					       err);
	}
	if (r < 0)
		penstock_model_close(m);
	else
		*out = m;
	return r;
}

/* Its first reads were made before it was there. */
static uint64_t first_read_ns(struct penstock_weights *w)
{
	struct penstock_weights_stats s = {.size = sizeof(s)};

	penstock_weights_get_stats(w, &s);
	return clock_ns() - s.disk_ns;
}

static int turn_groups(struct weights_run *run, struct penstock_err *err)
{
	struct weights_turn *t = &run->turns[run->nr_turns];
	struct penstock_weights *w;
	struct penstock_model *m;
	uint64_t begun;
	int r;

	turn_plan(run, t);
	r = turn_model(&m, run, t, err);
	if (r < 0)
		return r;
	r = window_open(run, &w, m, 0, err);
	if (r == 0) {
		begun = run->last_ns = first_read_ns(w);
		do
			r = run_group(run, w, m, begun, err);
		while (r == 1 && penstock_check_stop(run->job->stop, NULL) == 0);
		run->res->series.sec += (double)(clock_ns() - begun) / 1e9;
		add_stats(&run->res->stats, w);
		penstock_weights_close(w);
		run->nr_turns++;
	}
	penstock_model_close(m);
	return r < 0 ? r : penstock_check_stop(run->job->stop, err);
}

/* Sets of experts, layer by layer, for the time of a turn. */
static int turn_experts(struct weights_run *run, struct penstock_weights *w,
			struct penstock_err *err)
{
	uint64_t begun = clock_ns(), end = begun + (uint64_t)(run->job->sec / WEIGHTS_TURNS * 1e9);
	const uint64_t *set, *next = NULL;
	uint64_t nr, nr_next = 0;
	int r = 0;

	run->last_ns = begun;
	nr = weights_router_next(run->router, &set);
	while (r >= 0 && nr) {
		r = penstock_weights_request(w, set, nr, err);
		nr_next = clock_ns() >= end ? 0 : weights_router_next(run->router, &next);
		if (r == 0 && run->job->ahead && nr_next)
			r = penstock_weights_hint(w, next, nr_next, err);
		while (r >= 0 && (r = run_group(run, w, run->m, begun, err)) == 1)
			;
		run->res->steps += weights_router_share(run->router);
		r = r < 0 ? r : penstock_check_stop(run->job->stop, err);
		set = next;
		nr = nr_next;
	}
	run->res->series.sec += (double)(clock_ns() - begun) / 1e9;
	return r;
}

/* --------------------------------------------------------------------- the whole */

/*
 * Where the machine is a virtual one, its host is slow when it touches a page of the guest for the
 * first time or two, and that is not the storage.  At most as long as what is measured.
 */
int weights_warm_up(struct weights_run *run, struct penstock_err *err)
{
	uint64_t end = clock_ns() + (uint64_t)(run->job->sec * 1e9),
		 left = WARM_UP_PASSES * run->job->window;
	struct penstock_weights *w;
	struct penstock_view v;
	int r = window_open(run, &w, run->m, PENSTOCK_WEIGHTS_CYCLIC, err);

	if (r < 0)
		return r;
	do {
		r = penstock_weights_next(w, &v, err);
		if (r == 1) {
			left -= min_u64(left, penstock_model_get_group(run->m, v.group)->bytes);
			r = penstock_weights_release(w, v.group, err);
		}
	} while (r == 0 && left && clock_ns() < end &&
		 penstock_check_stop(run->job->stop, NULL) == 0);
	penstock_weights_close(w);
	return r < 0 ? r : penstock_check_stop(run->job->stop, err);
}

static void report_progress(const struct weights_run *run, unsigned turn)
{
	const struct weights_job *job = run->job;

	if (job->progress)
		job->progress(job->arg, (uint64_t)(job->sec * 1e3) * turn / WEIGHTS_TURNS,
			      (uint64_t)(job->sec * 1e3));
}

static int run_experts(struct weights_run *run, struct penstock_err *err)
{
	struct penstock_weights *w;
	int r = weights_router_open(&run->router, run->job, run->m, run->res->plan.shape, err);

	if (r == 0)
		r = window_open(run, &w, run->m, PENSTOCK_WEIGHTS_EXPERTS, err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < WEIGHTS_TURNS && r == 0; i++) {
		try_limit(run);
		r = turn_experts(run, w, err);
		report_progress(run, i + 1);
	}
	add_stats(&run->res->stats, w);
	penstock_weights_close(w);
	return r;
}

static int run_groups(struct weights_run *run, struct penstock_err *err)
{
	int r = 0;

	for (unsigned i = 0; i < WEIGHTS_TURNS && r == 0; i++) {
		try_limit(run);
		r = turn_groups(run, err);
		series_end_repeat(&run->res->series);
		report_progress(run, i + 1);
	}
	run->res->steps = (double)run->res->series.bytes / (double)run->res->plan.bytes;
	return r;
}

int weights_turns(struct weights_run *run, struct penstock_err *err)
{
	return run->job->experts ? run_experts(run, err) : run_groups(run, err);
}
