/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a job of streamed weights: turns of groups, or of sets of experts, and the limit between. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/gpu.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/bed/bed_check.h"
#include "load/bed/bed_file.h"
#include "load/bed/buffers.h"
#include "load/jobs/weights_job.h"
#include "load/measure/cache.h"
#include "load/measure/handle.h"
#include "load/measure/limit.h"

enum {
	TURNS = 2 * LIMIT_SHAPES,
	LEAST = 4, /* groups of a turn */
	LIMIT_BUFFER = 64 << 20,
};

struct turn {
	uint64_t first, nr; /* groups, around the model */
};

struct run {
	const struct weights_job *job;
	struct weights_result *res;
	struct sluice_io *io;
	struct bed_folder folder;
	struct bed_file file; /* of a shape */
	struct sluice_model *m;
	struct weights_files files;
	void *window;
	struct limit limit;
	struct bed_buffers limit_buffers;
	struct weights_router *router;
	struct turn turns[TURNS];
	unsigned nr_turns;
	uint64_t last_ns; /* when the group before was there */
};

static int stopped(const struct run *run, struct sluice_err *err)
{
	return run->job->stop && *run->job->stop ? sluice_fail(err, -ECANCELED, "interrupted") : 0;
}

/* --------------------------------------------------------------------- model */

static void measure_model(struct weights_plan *p, const struct sluice_model *m)
{
	const struct sluice_group *g;
	uint64_t layer, expert;

	for (uint64_t i = 0; (g = sluice_model_get_group(m, i)); i++) {
		p->groups++;
		p->bytes += g->bytes;
		p->weights += g->nr;
		p->largest = max_u64(p->largest, g->bytes);
		if (weights_expert_of(g->name, &layer, &expert)) {
			p->expert_groups++;
			p->expert_bytes += g->bytes;
		}
	}
}

/* The window holds two groups and not the model, so that each use is a read. */
static int check_window(const struct weights_job *job, const struct weights_plan *p,
			struct sluice_err *err)
{
	char a[SLUICE_SIZE_TEXT], b[SLUICE_SIZE_TEXT];

	if (job->window < p->largest)
		return sluice_fail(err, -EINVAL,
				   "--window: %s is smaller than the largest group of %s; a larger "
				   "one, or --by tensor",
				   sluice_size_format(a, job->window),
				   sluice_size_format(b, p->largest));
	if (!p->bytes)
		return sluice_fail(err, -EINVAL, "%s: its weights have no bytes", job->model);
	return 0;
}

int weights_look(struct weights_job *job, struct weights_plan *plan, struct sluice_err *err)
{
	struct sluice_model *m;
	struct sluice_io *io;
	int r;

	memset(plan, 0, sizeof(*plan));
	plan->shape = weights_shape_find(job->model);
	if (plan->shape)
		plan->file_bytes = job->size;
	else if (job->bits)
		return sluice_fail(err, -EINVAL, "--bits: '%s' is a model on disk and has its own",
				   job->model);
	if (plan->shape && job->size < 64 << 20)
		return sluice_fail(err, -EINVAL, "--size: a file of less than 64M tells nothing");
	if (plan->shape && bed_check_folder(job->folder, true, err) < 0)
		return -EINVAL;
	r = sluice_open(&io, &job->opts, err);
	if (r < 0)
		return r;
	r = weights_model(&m, io, job, "", job->size, err);
	if (r == 0) {
		measure_model(plan, m);
		r = check_window(job, plan, err);
		sluice_model_close(m);
	}
	sluice_close(io, NULL);
	return r;
}

static int make_file(struct run *run, struct sluice_err *err)
{
	const struct weights_job *job = run->job;
	struct bed_need need = {job->folder, job->size};
	struct bed_work work = {.stop = job->stop};
	int r = bed_check_room(&need, 1, err);

	if (r == 0)
		r = bed_folder_make(&run->folder, job->folder, "stream", err);
	if (r == 0)
		r = bed_file_init(&run->file, &run->folder, job->size, err, "weights");
	if (r == 0)
		r = bed_file_make(&run->file, err);
	if (r == 0)
		r = bed_files_fill(&run->file, 1, &work, err);
	run->res->made = work.bytes;
	return r;
}

/* --------------------------------------------------------------------- limit */

static void limit_turn(struct run *run)
{
	const struct weights_job *job = run->job;
	struct limit_target t = {
		.paths = &run->files.paths[run->files.largest],
		.nr_paths = 1,
		.len = align_down(run->files.lens[run->files.largest], 1 << 20),
		.nr_bufs = 1,
		.buf_len = LIMIT_BUFFER,
		.step = LIMIT_BUFFER,
		.align = 4096,
	};

	if (!job->measure_limit || job->limit || !t.len)
		return;
	t.buf = run->limit_buffers.at[0];
	limit_try(&run->limit, &t, 1, 0, LIMIT_SEC / LIMIT_SHAPES, job->stop);
}

/* What the device seems to do, to find out how long a turn would take. */
static double speed_so_far(const struct run *run)
{
	double best = (double)run->job->limit;

	for (unsigned i = 0; i < LIMIT_SHAPES; i++)
		if (run->limit.ns[i])
			best = max_u64((uint64_t)best, (uint64_t)((double)run->limit.counted[i] *
								  1e9 / (double)run->limit.ns[i]));
	if (run->res->series.sec > 0 && best <= 0)
		best = series_speed(&run->res->series);
	return best > 0 ? best : 1e9;
}

/* --------------------------------------------------------------------- turns */

static void compute(struct run *run)
{
	struct timespec t = {.tv_sec = (time_t)(run->job->compute_ms / 1000)};

	t.tv_nsec = (long)((run->job->compute_ms - (double)t.tv_sec * 1000) * 1e6);
	if (run->job->compute_ms > 0)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	run->res->compute_sec += run->job->compute_ms / 1000;
}

static void add_stats(struct sluice_weights_stats *sum, struct sluice_weights *w)
{
	struct sluice_weights_stats s = {.size = sizeof(s)};

	sluice_weights_get_stats(w, &s);
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

static int stream_open(struct run *run, struct sluice_weights **w, const struct sluice_model *m,
		       uint32_t flags, struct sluice_err *err)
{
	struct sluice_weights_opts o = SLUICE_WEIGHTS_OPTS_INIT;

	o.flags = flags;
	o.addr = run->window;
	o.window = run->job->window + (64 << 10);
	return sluice_weights_open(w, run->io, m, &o, err);
}

/* One group: waited for, used, given back.  1, 0 at the end, or -errno. */
static int one_group(struct run *run, struct sluice_weights *w, const struct sluice_model *m,
		     uint64_t begun_ns, struct sluice_err *err)
{
	struct run_series *s = &run->res->series;
	struct sluice_view v;
	int r = sluice_weights_next(w, &v, err);
	uint64_t now = clock_ns();

	if (r <= 0)
		return r;
	r = series_add(s, sluice_model_get_group(m, v.group)->bytes, now - run->last_ns,
		       (uint64_t)(s->sec * 1e9) + now - begun_ns);
	run->last_ns = now;
	if (r < 0)
		return sluice_fail(err, r, "out of memory");
	compute(run);
	r = sluice_weights_release(w, v.group, err);
	return r < 0 ? r : 1;
}

/* As many groups as take the time of a turn, from where the last one ended. */
static void turn_plan(struct run *run, struct turn *t)
{
	double left = run->job->sec / TURNS, speed = speed_so_far(run);
	const struct turn *before = run->nr_turns ? &run->turns[run->nr_turns - 1] : NULL;
	uint64_t groups = run->res->plan.groups;

	*t = (struct turn){.first = before ? (before->first + before->nr) % groups : 0};
	while (left > 0 || t->nr < LEAST) {
		uint64_t k = (t->first + t->nr++) % groups;
		double sec = (double)sluice_model_get_group(run->m, k)->bytes / speed;

		left -= sec > run->job->compute_ms / 1000 ? sec : run->job->compute_ms / 1000;
		left -= 1e-6;
	}
}

static int turn_model(struct sluice_model **out, const struct run *run, const struct turn *t,
		      struct sluice_err *err)
{
	struct sluice_model *m;
	int r = sluice_model_new(&m, err);

	if (r < 0)
		return r;
	for (uint64_t i = 0; i < t->nr && r == 0; i++) {
		const struct sluice_group *g =
			sluice_model_get_group(run->m, (t->first + i) % run->res->plan.groups);

		r = sluice_model_group(m, g->name, err);
		for (uint64_t k = 0; k < g->nr && r == 0; k++)
			r = sluice_model_add(m, sluice_model_get_weight(run->m, g->first + k), err);
	}
	if (r < 0)
		sluice_model_close(m);
	else
		*out = m;
	return r;
}

/* Its first reads were made before it was there. */
static uint64_t begun_at(struct sluice_weights *w)
{
	struct sluice_weights_stats s = {.size = sizeof(s)};

	sluice_weights_get_stats(w, &s);
	return clock_ns() - s.disk_ns;
}

static int turn_groups(struct run *run, struct sluice_err *err)
{
	struct turn *t = &run->turns[run->nr_turns];
	struct sluice_weights *w;
	struct sluice_model *m;
	uint64_t begun;
	int r;

	turn_plan(run, t);
	r = turn_model(&m, run, t, err);
	if (r < 0)
		return r;
	r = stream_open(run, &w, m, 0, err);
	if (r == 0) {
		begun = run->last_ns = begun_at(w);
		do
			r = one_group(run, w, m, begun, err);
		while (r == 1 && stopped(run, NULL) == 0);
		run->res->series.sec += (double)(clock_ns() - begun) / 1e9;
		add_stats(&run->res->stats, w);
		sluice_weights_close(w);
		run->nr_turns++;
	}
	sluice_model_close(m);
	return r < 0 ? r : stopped(run, err);
}

/* Sets of experts, layer by layer, for the time of a turn. */
static int turn_experts(struct run *run, struct sluice_weights *w, struct sluice_err *err)
{
	uint64_t begun = clock_ns(), end = begun + (uint64_t)(run->job->sec / TURNS * 1e9);
	const uint64_t *set, *next = NULL;
	uint64_t nr, nr_next = 0;
	int r = 0;

	run->last_ns = begun;
	nr = weights_router_next(run->router, &set);
	while (r >= 0 && nr) {
		r = sluice_weights_want(w, set, nr, err);
		nr_next = clock_ns() >= end ? 0 : weights_router_next(run->router, &next);
		if (r == 0 && run->job->ahead && nr_next)
			r = sluice_weights_hint(w, next, nr_next, err);
		while (r >= 0 && (r = one_group(run, w, run->m, begun, err)) == 1)
			;
		run->res->steps += weights_router_share(run->router);
		r = r < 0 ? r : stopped(run, err);
		set = next;
		nr = nr_next;
	}
	run->res->series.sec += (double)(clock_ns() - begun) / 1e9;
	return r;
}

/* --------------------------------------------------------------------- the whole */

static void tell(const struct run *run, unsigned turn)
{
	const struct weights_job *job = run->job;

	if (job->progress)
		job->progress(job->arg, (uint64_t)(job->sec * 1e3) * turn / TURNS,
			      (uint64_t)(job->sec * 1e3));
}

static int run_experts(struct run *run, struct sluice_err *err)
{
	struct sluice_weights *w;
	int r = weights_router_open(&run->router, run->job, run->m, run->res->plan.shape, err);

	if (r == 0)
		r = stream_open(run, &w, run->m, SLUICE_WEIGHTS_EXPERTS, err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < TURNS && r == 0; i++) {
		limit_turn(run);
		r = turn_experts(run, w, err);
		tell(run, i + 1);
	}
	add_stats(&run->res->stats, w);
	sluice_weights_close(w);
	return r;
}

static int run_groups(struct run *run, struct sluice_err *err)
{
	int r = 0;

	for (unsigned i = 0; i < TURNS && r == 0; i++) {
		limit_turn(run);
		r = turn_groups(run, err);
		series_mark(&run->res->series);
		tell(run, i + 1);
	}
	run->res->steps = (double)run->res->series.bytes / (double)run->res->plan.bytes;
	return r;
}

/* Reading goes on all the time, and a group is used when it and all before it have been. */
static double ideal_turn(const struct run *run, const struct turn *t, double limit)
{
	double there = 0, free_at = 0;

	for (uint64_t i = 0; i < t->nr; i++) {
		uint64_t k = (t->first + i) % run->res->plan.groups;

		there += (double)sluice_model_get_group(run->m, k)->bytes / limit;
		free_at = (there > free_at ? there : free_at) + run->job->compute_ms / 1000;
	}
	return free_at;
}

static void conclude(struct run *run)
{
	struct weights_result *res = run->res;
	struct run_series *s = &res->series;
	double read_sec, limit;

	if (run->job->limit)
		limit_set(s, 1, true, (double)run->job->limit, "as given");
	else if (run->job->measure_limit)
		limit_tell(&run->limit, s, 1);
	limit = s->limit;
	res->tokens = s->sec > 0 ? run->job->batch * res->steps / s->sec : 0;
	if (limit <= 0 || !s->ops)
		return;
	read_sec = (double)res->stats.bytes_read / limit;
	if (run->job->experts) {
		res->ideal_sec = read_sec > res->compute_sec ? read_sec : res->compute_sec;
		res->bound = read_sec > 0 ? run->job->batch * res->steps / read_sec : 0;
		return;
	}
	for (unsigned i = 0; i < run->nr_turns; i++)
		res->ideal_sec += ideal_turn(run, &run->turns[i], limit);
	res->bound = weights_bound(run->job->batch, limit, (double)res->plan.bytes);
}

static void finish_series(struct run *run, int r, const struct sluice_err *err)
{
	struct run_series *s = &run->res->series;
	struct sluice_file *f;

	s->stats.size = sizeof(s->stats);
	sluice_get_stats(run->io, &s->stats);
	s->library_sec = (double)s->stats.cpu_ns / 1e9;
	s->run_bytes = s->bytes;
	if (sluice_file_open(&f, run->io, run->files.paths[run->files.largest], O_RDONLY, 0,
			     NULL) == 0) {
		s->file.size = sizeof(s->file);
		sluice_file_stat(f, &s->file);
		sluice_file_close(f, NULL);
	}
	s->ways = run->res->stats.direct ? SLUICE_DONE_DIRECT : SLUICE_DONE_BUFFERED;
	s->partial = r < 0;
	snprintf(s->partial_why, sizeof(s->partial_why), "%.150s", r < 0 ? err->msg : "");
	cache_describe(s, &run->files.facts, &run->res->path, 1);
	series_finish(s);
	run->res->cached = weights_files_resident(&run->files);
	run->res->ran = s->ops > 0;
}

static int window_make(struct run *run, struct sluice_err *err)
{
	struct bed_buffers_want want = {.memory = BED_OWN, .len = LIMIT_BUFFER, .nr = 1};
	uint64_t len = run->job->window + (64 << 10);
	int r = run->job->gpu ? sluice_gpu_alloc(&run->window, run->job->device, len, err)
			      : sluice_buf_alloc(&run->window, run->io, len, 0,
						 &run->res->series.buf, err);

	return r < 0 ? r : bed_buffers_open(&run->limit_buffers, &want, err);
}

static int run_all(struct run *run, struct sluice_err *err)
{
	struct run_series *s = &run->res->series;
	struct rusage before;
	int r;

	r = weights_model(&run->m, run->io, run->job, run->file.at, run->job->size, err);
	if (r < 0)
		return r;
	measure_model(&run->res->plan, run->m);
	r = weights_files_find(&run->files, run->m, err);
	if (r == 0)
		r = weights_files_check(&run->files, err);
	if (r == 0)
		r = window_make(run, err);
	if (r == 0)
		r = series_init(s);
	if (r < 0)
		return r;
	getrusage(RUSAGE_SELF, &before);
	r = run->job->experts ? run_experts(run, err) : run_groups(run, err);
	cpu_time_since(&before, &s->user_sec, &s->system_sec);
	conclude(run);
	finish_series(run, r, err);
	return r;
}

static void run_free(struct run *run)
{
	weights_router_close(run->router);
	if (run->job->gpu)
		sluice_gpu_free(run->window);
	sluice_close(run->io, NULL);
	bed_buffers_close(&run->limit_buffers);
	sluice_model_close(run->m);
	weights_files_fini(&run->files);
	if (run->file.path)
		bed_file_fini(&run->file, false);
	if (run->folder.path)
		bed_folder_close(&run->folder, false);
}

int weights_run(const struct weights_job *job, struct weights_result *res, struct sluice_err *err)
{
	struct run run = {.job = job, .res = res, .limit = {.read = true}};
	int r;

	memset(res, 0, sizeof(*res));
	snprintf(res->series.name, sizeof(res->series.name), "stream");
	res->series.read = true;
	res->series.opts = job->opts;
	res->series.memory = job->gpu ? BED_GPU : BED_OWN;
	res->plan.shape = weights_shape_find(job->model);
	res->plan.file_bytes = res->plan.shape ? job->size : 0;
	res->path.size = sizeof(res->path);
	r = sluice_probe_path(res->plan.shape ? job->folder : job->model, &res->path, err);
	if (r == 0)
		r = sluice_open(&run.io, &job->opts, err);
	if (r < 0)
		return r;
	if (res->plan.shape)
		r = make_file(&run, err);
	if (r == 0)
		r = run_all(&run, err);
	run_free(&run);
	return r;
}

void weights_result_fini(struct weights_result *res)
{
	series_fini(&res->series);
}
