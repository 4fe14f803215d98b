/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the points of a sweep; sweep_setup.c makes what that needs, sweep_state.c remembers. */
#include "load/jobs/sweep.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "load/jobs/sweep_work.h"

uint64_t sweep_bytes(const struct sweep_job *job)
{
	return job->io_size * job->nr_folders;
}

uint64_t sweep_measurements(const struct sweep_job *job)
{
	return (uint64_t)config_space_points(job->space) * job->loops *
	       ((unsigned)job->read + (unsigned)job->write);
}

/* --------------------------------------------------------- one measurement */

static void sweep_on_tick(void *arg, uint64_t bytes)
{
	struct sweep *w = arg;

	w->job->progress(w->job->arg, w->name, w->done_bytes + bytes, w->left_bytes);
}

static void sweep_on_fill(void *arg, uint64_t done, uint64_t total)
{
	struct sweep *w = arg;

	(void)done;
	(void)total;
	w->job->progress(w->job->arg, "prepare", 0, w->left_bytes);
}

/* Add a measurement, of this process or an earlier one, to its point. */
static int sweep_add_sample(void *arg, const struct sweep_sample *m, struct penstock_err *err)
{
	struct sweep *w = arg;
	uint64_t io_size = w->job->io_size;
	struct sweep_point *p;
	struct run_series *s;
	double slowest = 0;

	if (m->index >= w->res->nr || m->loop >= w->job->loops ||
	    w->known[(size_t)m->index * w->job->loops + m->loop])
		return 0;
	p = &w->res->points[m->index];
	s = &w->res->series[m->index];
	w->known[(size_t)m->index * w->job->loops + m->loop] = true;
	for (unsigned i = 0; i < w->job->nr_folders; i++) {
		double end = s->sec + m->worker_sec[i];

		if (series_add(s, io_size, (uint64_t)(m->worker_sec[i] * 1e9 + 0.5),
			       (uint64_t)(end * 1e9)) < 0)
			return penstock_fail(err, -ENOMEM, "out of memory");
		p->worker_sec[i] += m->worker_sec[i];
		slowest = p->worker_sec[i] > slowest ? p->worker_sec[i] : slowest;
	}
	p->loops++;
	p->task_sec = slowest;
	p->e2e_sec += m->sec;
	p->resident = m->resident > p->resident ? m->resident : p->resident;
	p->unknown = m->unknown ? m->unknown : p->unknown;
	s->sec += m->sec;
	s->run_bytes = s->bytes;
	s->user_sec += m->run->user_sec;
	s->system_sec += m->run->system_sec;
	s->library_sec += m->run->library_sec;
	s->done_flags |= m->run->done_flags;
	s->stats = m->run->stats;
	s->file = m->run->file;
	s->buf = m->run->buf;
	return 0;
}

/* One that an earlier process made: its wear and time count as well. */
static int sweep_add_known(void *arg, const struct sweep_sample *m, struct penstock_err *err)
{
	struct sweep *w = arg;
	uint64_t before = m->index < w->res->nr ? series_wear(&w->res->series[m->index]) : 0;
	int r = sweep_add_sample(w, m, err);

	w->res->earlier_sec = fmax(w->res->earlier_sec, m->elapsed_sec);
	if (r == 0 && m->index < w->res->nr)
		w->res->bytes_written += series_wear(&w->res->series[m->index]) - before;
	return r;
}

static int sweep_measure(struct sweep *w, unsigned index, uint32_t loop, struct penstock_err *err)
{
	struct run_series *s = &w->res->series[index], one = {.read = s->read};
	struct trial how = {.opts = s->opts,
			    .memory = s->memory,
			    .read = s->read,
			    .ops = 1,
			    .worker_sec = w->worker_sec};
	struct sweep_sample m = {
		.index = index, .loop = loop, .worker_sec = w->worker_sec, .run = &one};
	int r;

	w->name = s->name;
	r = trial_once(&w->trials, &how, &one, err);
	if (one.ops == w->job->nr_folders)
		r = r == -ECANCELED ? 0 : r; /* it was done before the stop */
	w->done_bytes += one.bytes;
	w->done[s->read]++;
	if (r < 0) { /* which makes it none: what was written was written */
		sweep_add_wear(w, series_wear(&one), NULL);
	} else {
		w->res->bytes_written += series_wear(&one);
		m.sec = one.sec;
		m.resident = how.facts.resident;
		m.unknown = how.facts.unknown;
		m.elapsed_sec = w->res->earlier_sec + (double)(clock_ns() - w->start_ns) / 1e9;
		r = sweep_add_sample(w, &m, err);
	}
	if (r == 0 && w->state)
		r = sweep_state_add(w->state, w->job, &m, err);
	series_fini(&one);
	return r;
}

/* -------------------------------------------------------------------- limit */

/* Plain threads have a turn between measurements, in buffers as large as theirs. */
static int sweep_limit_turn(struct sweep *w, bool read, struct penstock_err *err)
{
	struct limit *l = &w->limit[read];
	struct limit_schedule schedule = {.done = w->done[read],
					  .all = w->left[read],
					  .max_bytes = w->limit_writes,
					  .sec = LIMIT_SEC};
	uint64_t before = l->moved;
	int r;

	if (!w->measures_limit)
		return 0;
	r = trials_limit(&w->trials, l, schedule, err);
	if (r == 0 && !read && l->moved > before)
		r = sweep_add_wear(w, l->moved - before, err);
	return r < 0 ? r : penstock_check_stop(w->job->stop, err);
}

/* ------------------------------------------------------------------ the walk */

/* A different order in each loop, the same for a seed. */
static void sweep_shuffle(unsigned *order, unsigned n, uint64_t seed)
{
	struct penstock_random r;

	penstock_random_seed(&r, seed);
	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	for (unsigned i = n; i > 1; i--) {
		unsigned k = (unsigned)penstock_random_below(&r, i), t = order[i - 1];

		order[i - 1] = order[k];
		order[k] = t;
	}
}

static int sweep_one_loop(struct sweep *w, unsigned first, uint32_t loop, unsigned *order,
			  struct penstock_err *err)
{
	const struct sweep_job *job = w->job;
	int r = 0;

	sweep_shuffle(order, w->nr_points, job->seed * 1000003 + first + loop);
	for (unsigned i = 0; i < w->nr_points && r == 0; i++) {
		unsigned index = first + order[i];

		if (w->known[(size_t)index * job->loops + loop])
			continue;
		r = penstock_check_stop(job->stop, err);
		if (r == 0)
			r = sweep_measure(w, index, loop, err);
		if (r == 0 && w->res->points[index].loops == job->loops && job->point_done)
			r = job->point_done(job->arg, job, &w->res->series[index],
					    &w->res->points[index], err);
		if (r == 0)
			r = sweep_limit_turn(w, w->res->series[index].read, err);
	}
	return r;
}

/* Points that an earlier process completed; it may have ended before it could say so. */
static int sweep_log_known(struct sweep *w, struct penstock_err *err)
{
	const struct sweep_job *job = w->job;
	int r = 0;

	for (unsigned i = 0; job->point_done && i < w->res->nr && r == 0; i++)
		if (w->res->points[i].loops == job->loops)
			r = job->point_done(job->arg, job, &w->res->series[i], &w->res->points[i],
					    err);
	return r;
}

static int sweep_measure_all(struct sweep *w, struct penstock_err *err)
{
	CLEANUP_FREE unsigned *order = calloc(w->nr_points, sizeof(*order));
	int r = order ? 0 : penstock_fail(err, -ENOMEM, "out of memory");

	for (unsigned first = 0; first < w->res->nr && r == 0; first += w->nr_points) {
		for (uint32_t loop = 0; loop < w->job->loops && r == 0; loop++)
			r = sweep_one_loop(w, first, loop, order, err);
		if (r == 0) /* where all was known there is still no limit */
			r = sweep_limit_turn(w, w->res->series[first].read, err);
	}
	return r;
}

/* ------------------------------------------------------------------ results */

static void sweep_describe(struct sweep *w, unsigned index)
{
	struct run_series *s = &w->res->series[index];
	const struct sweep_point *p = &w->res->points[index];
	struct page_cache_facts f = {
		.resident = p->resident,
		.unknown = p->unknown,
		.size = w->job->io_size,
		.durable = w->job->opts.durability != PENSTOCK_DURABLE_NONE,
	};

	series_finish(s);
	page_cache_describe(s, &f, w->trials.info, w->trials.info ? w->job->nr_folders : 0);
	if (p->loops == w->job->loops)
		return;
	s->partial = true;
	snprintf(s->partial_why, sizeof(s->partial_why), "%u of %u loops", p->loops, w->job->loops);
}

static void sweep_set_limits(struct sweep *w, bool complete)
{
	const struct sweep_job *job = w->job;

	for (int read = 0; read < 2; read++) {
		if (job->limit)
			limit_set(w->res->series, w->res->nr, read, (double)job->limit, "as given");
		else if (complete && w->measures_limit)
			limit_set_measured(&w->limit[read], w->res->series, w->res->nr);
	}
}

/* Take the state file for us alone, then look at what is in it. */
static int sweep_resume(struct sweep *w, struct penstock_err *err)
{
	int r = sweep_state_open(&w->state, w->job, err);

	return r < 0 ? r
		     : sweep_state_load(w->job, sweep_add_known, w, &w->res->bytes_written, err);
}

/* Folders first: where one cannot be made nothing else is, and a failure undoes the others. */
static int sweep_begin(struct sweep *w, struct penstock_err *err)
{
	const struct sweep_job *job = w->job;
	struct trials_job trials = sweep_trials_job(job);
	int r = sweep_alloc_points(w, err);

	trials.progress = job->progress ? sweep_on_fill : NULL;
	trials.tick = job->progress ? sweep_on_tick : NULL;
	trials.progress_arg = w;
	if (r == 0 && job->state && job->resume)
		r = sweep_resume(w, err);
	if (r == 0) {
		sweep_count_left(w);
		r = trials_open(&w->trials, &trials, err);
	}
	if (r == 0 && job->ready)
		r = job->ready(job->arg, err);
	if (r == 0 && job->state && !w->state)
		r = sweep_state_open(&w->state, job, err);
	w->res->began = r == 0;
	return r;
}

static int prepare_files(struct sweep *w, struct penstock_err *err)
{
	int r = trials_fill(&w->trials, err);
	int r_wear = sweep_add_wear(w, w->trials.written, r == 0 ? err : NULL);

	return r < 0 ? r : r_wear;
}

int sweep_run(const struct sweep_job *job, struct sweep_result *res, struct penstock_err *err)
{
	struct sweep w = {.job = job,
			  .res = res,
			  .start_ns = clock_ns(),
			  .measures_limit = job->measure_limit && !job->limit && sweep_moves(job),
			  .limit_writes = sweep_limit_writes(job),
			  .limit[true].read = true};
	int r;

	*res = (struct sweep_result){.nr = 0};
	r = sweep_begin(&w, err);
	if (r == 0)
		r = prepare_files(&w, err);
	if (r == 0)
		r = sweep_log_known(&w, err);
	if (r == 0)
		r = sweep_measure_all(&w, err);
	sweep_set_limits(&w, r == 0);
	for (unsigned i = 0; i < res->nr; i++)
		sweep_describe(&w, i);
	sweep_close(&w);
	return r;
}

void sweep_result_fini(struct sweep_result *res)
{
	for (unsigned i = 0; i < res->nr; i++) {
		series_fini(&res->series[i]);
		free(res->points[i].worker_sec);
	}
	free(res->series);
	free(res->points);
	free(res->paths);
	*res = (struct sweep_result){.nr = 0};
}
