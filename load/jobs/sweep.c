/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the points of a sweep; sweep_setup.c makes what that needs, sweep_state.c remembers. */
#include "load/jobs/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "load/jobs/sweep_work.h"
#include "load/measure/cache.h"
#include "load/measure/limit.h"
#include "load/stream/stream.h"

uint64_t sweep_bytes(const struct sweep_job *job)
{
	return job->io_size * job->nr_folders;
}

uint64_t sweep_measurements(const struct sweep_job *job)
{
	return (uint64_t)space_points(job->space) * job->loops *
	       ((unsigned)job->read + (unsigned)job->write);
}

/* --------------------------------------------------------- one measurement */

/* One operation for each worker. */
struct once {
	uint64_t len;
	bool read;
	bool *given;
};

static int next_op(void *arg, unsigned worker, struct load_op *op, struct sluice_err *err)
{
	struct once *o = arg;

	(void)err;
	if (o->given[worker])
		return 0;
	o->given[worker] = true;
	*op = (struct load_op){
		.read = o->read, .series = worker, .file = worker, .len = o->len, .tag = worker};
	return 1;
}

static void on_tick(void *arg, uint64_t ops, uint64_t bytes)
{
	struct sweep *w = arg;

	(void)ops;
	w->job->progress(w->job->arg, w->name, w->done_bytes + bytes, w->left_bytes);
}

static int need_buffers(struct sweep *w, uint32_t memory, const struct bed_buffers **ret,
			struct sluice_err *err)
{
	struct bed_buffers *p = &w->buffers[memory];
	int r = 0;

	if (!p->map) {
		r = bed_buffers_open(p, memory, w->job->io_size, w->job->nr_folders,
				     w->job->opts.huge, false, err);
		for (unsigned i = 0; i < w->job->nr_folders && r == 0; i++)
			r = bed_buf_fill(p, bed_buf(p, i), w->job->io_size, w->job->seed + i, 0,
					 err);
	}
	*ret = p;
	return r;
}

/* As cold as can be had: our files always, everything where that was asked for. */
static void cool(struct sweep *w, struct sweep_sample *m)
{
	for (unsigned i = 0; i < w->job->nr_folders; i++) {
		int64_t left = cache_drop(w->paths[i], w->job->io_size);

		if (left < 0)
			m->unknown = left;
		else if (left > m->resident)
			m->resident = left;
	}
	if (w->job->flush) {
		int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

		sync();
		if (fd >= 0 && write(fd, "1", 1) < 0)
			m->unknown = -errno;
		if (fd >= 0)
			close(fd);
	}
}

static int run_point(struct sweep *w, const struct run_series *s, const struct bed_buffers *buffers,
		     struct run_series *runs, struct sluice_err *err)
{
	const struct sweep_job *job = w->job;
	CLEANUP_FREE bool *given = calloc(job->nr_folders, sizeof(*given));
	struct once once = {.len = job->io_size, .read = s->read, .given = given};
	struct stream_job stream = {
		.source = {.next = next_op, .arg = &once},
		.files = (const char *const *)w->paths,
		.nr_files = job->nr_folders,
		.open_each = true,
		.workers = job->nr_folders,
		.depth = 1,
		.opts = s->opts,
		.buffers = buffers,
		.nr_series = job->nr_folders,
		.seed = job->seed,
		.stop = job->stop,
		.progress = job->progress ? on_tick : NULL,
		.progress_arg = w,
	};

	if (!given)
		return sluice_fail(err, -ENOMEM, "out of memory");
	return run_stream(&stream, runs, err);
}

/* Add a measurement, of this process or an earlier one, to its point. */
static int add_sample(void *arg, const struct sweep_sample *m, struct sluice_err *err)
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
		struct sluice_random key;
		double end = s->sec + m->worker_sec[i];

		sluice_random_seed(&key, m->index * 1000003ull + m->loop * 1009 + i);
		if (series_add(s, io_size, (uint64_t)(m->worker_sec[i] * 1e9 + 0.5),
			       (uint64_t)(end * 1e9), sluice_random_next(&key)) < 0)
			return sluice_fail(err, -ENOMEM, "out of memory");
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
	s->ways |= m->run->ways;
	s->stats = m->run->stats;
	s->file = m->run->file;
	s->buf = m->run->buf;
	return 0;
}

/* One that an earlier process made: its wear and time count as well. */
static int add_known(void *arg, const struct sweep_sample *m, struct sluice_err *err)
{
	struct sweep *w = arg;
	uint64_t before = m->index < w->res->nr ? series_wear(&w->res->series[m->index]) : 0;
	int r = add_sample(w, m, err);

	w->res->earlier_sec = fmax(w->res->earlier_sec, m->elapsed_sec);
	if (r == 0 && m->index < w->res->nr)
		w->res->bytes_written += series_wear(&w->res->series[m->index]) - before;
	return r;
}

static int measure(struct sweep *w, unsigned index, uint32_t loop, struct sluice_err *err)
{
	struct run_series *s = &w->res->series[index];
	CLEANUP_FREE struct run_series *runs = calloc(w->job->nr_folders, sizeof(*runs));
	struct sweep_sample m = {.index = index, .loop = loop, .worker_sec = w->worker_sec};
	const struct bed_buffers *buffers;
	uint64_t written = 0;
	int r = need_buffers(w, s->memory, &buffers, err);

	if (r < 0 || !runs)
		return r < 0 ? r : sluice_fail(err, -ENOMEM, "out of memory");
	w->name = s->name;
	if (s->read)
		cool(w, &m);
	r = run_point(w, s, buffers, runs, err);
	for (unsigned i = 0; i < w->job->nr_folders; i++) {
		m.worker_sec[i] = runs[i].latency.mean;
		runs[i].read = s->read;
		written += series_wear(&runs[i]);
		w->done_bytes += runs[i].bytes;
		if (r == 0 && !runs[i].ops)
			r = sweep_stopped(w->job, err); /* given up: not a measurement */
		series_fini(&runs[i]);
	}
	if (r < 0) { /* which makes it none: what was written was written */
		sweep_add_wear(w, written, NULL);
		return r;
	}
	w->res->bytes_written += written;
	m.sec = runs[0].sec;
	m.run = &runs[0];
	m.elapsed_sec = w->res->earlier_sec + (double)(clock_ns() - w->start_ns) / 1e9;
	if (!s->read)
		for (unsigned i = 0; i < w->job->nr_folders; i++)
			cache_drop(w->paths[i], w->job->io_size); /* leave nothing to the next */
	r = add_sample(w, &m, err);
	if (r == 0 && w->state)
		r = sweep_state_add(w->state, w->job, &m, err);
	return r;
}

/* ------------------------------------------------------------------ the walk */

/* A different order in each loop, the same for a seed. */
static void shuffle(unsigned *order, unsigned n, uint64_t seed)
{
	struct sluice_random r;

	sluice_random_seed(&r, seed);
	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	for (unsigned i = n; i > 1; i--) {
		unsigned k = (unsigned)sluice_random_below(&r, i), t = order[i - 1];

		order[i - 1] = order[k];
		order[k] = t;
	}
}

static int one_loop(struct sweep *w, unsigned first, uint32_t loop, unsigned *order,
		    struct sluice_err *err)
{
	const struct sweep_job *job = w->job;
	int r = 0;

	shuffle(order, w->nr_points, job->seed * 1000003 + first + loop);
	for (unsigned i = 0; i < w->nr_points && r == 0; i++) {
		unsigned index = first + order[i];

		if (w->known[(size_t)index * job->loops + loop])
			continue;
		r = sweep_stopped(job, err);
		if (r == 0)
			r = measure(w, index, loop, err);
		if (r == 0 && w->res->points[index].loops == job->loops && job->point_done)
			r = job->point_done(job->arg, job, &w->res->series[index],
					    &w->res->points[index], err);
	}
	return r;
}

/* Points that an earlier process completed; it may have ended before it could say so. */
static int log_known(struct sweep *w, struct sluice_err *err)
{
	const struct sweep_job *job = w->job;
	int r = 0;

	for (unsigned i = 0; job->point_done && i < w->res->nr && r == 0; i++)
		if (w->res->points[i].loops == job->loops)
			r = job->point_done(job->arg, job, &w->res->series[i], &w->res->points[i],
					    err);
	return r;
}

static int walk(struct sweep *w, struct sluice_err *err)
{
	CLEANUP_FREE unsigned *order = calloc(w->nr_points, sizeof(*order));
	int r = order ? 0 : sluice_fail(err, -ENOMEM, "out of memory");

	for (unsigned first = 0; first < w->res->nr && r == 0; first += w->nr_points)
		for (uint32_t loop = 0; loop < w->job->loops && r == 0; loop++)
			r = one_loop(w, first, loop, order, err);
	return r;
}

/* ------------------------------------------------------------------ results */

static void describe(struct sweep *w, unsigned index)
{
	struct run_series *s = &w->res->series[index];
	const struct sweep_point *p = &w->res->points[index];
	struct cache_facts f = {
		.read = s->read,
		.engine = s->stats.engine,
		.direct = s->stats.blocks_direct && !s->stats.blocks_buffered,
		.resident = p->resident,
		.unknown = p->unknown,
		.size = w->job->io_size,
		.durable = w->job->opts.durability != SLUICE_DURABLE_NONE,
	};

	for (unsigned i = 0; i < w->job->nr_folders && !f.memory; i++)
		f.memory = cache_memory_behind(&w->res->paths[i]);
	series_finish(s);
	cache_describe(s->cache, &f);
	if (p->loops == w->job->loops)
		return;
	s->partial = true;
	snprintf(s->partial_why, sizeof(s->partial_why), "%u of %u loops", p->loops, w->job->loops);
}

/* What plain threads get from the same files, in buffers as large as those of the work. */
static int measure_limit(struct sweep *w, struct sluice_err *err)
{
	const struct sweep_job *job = w->job;
	CLEANUP_FREE struct limit_target *targets = calloc(job->nr_folders, sizeof(*targets));
	const struct bed_buffers *b = NULL;
	int r = targets ? need_buffers(w, BED_OWN, &b, err)
			: sluice_fail(err, -ENOMEM, "out of memory");

	for (unsigned i = 0; i < job->nr_folders && r == 0; i++)
		targets[i] = (struct limit_target){
			.paths = (const char *const *)&w->paths[i],
			.nr_paths = 1,
			.len = job->io_size,
			.buf = bed_buf(b, i),
			.nr_bufs = 1,
			.buf_len = b->len,
			.align = 4096,
		};
	if (job->progress)
		job->progress(job->arg, "limit", w->done_bytes, w->left_bytes);
	for (int read = 0; read < 2 && r == 0; read++) {
		struct limit l = {.read = read};

		if (!(read ? job->read : job->write))
			continue;
		limit_try_all(&l, targets, job->nr_folders, read ? 0 : sweep_limit_writes(job),
			      LIMIT_SEC, job->stop);
		limit_tell(&l, w->res->series, w->res->nr);
		if (!read)
			r = sweep_add_wear(w, l.moved, err);
	}
	return r < 0 ? r : sweep_stopped(job, err);
}

/* Take the state file for us alone, then look at what is in it. */
static int take_up(struct sweep *w, struct sluice_err *err)
{
	int r = sweep_state_open(&w->state, w->job, err);

	if (r == 0)
		sweep_state_remove_work(w->job);
	if (r == 0)
		w->res->bytes_written += sweep_state_wear(w->job);
	return r < 0 ? r : sweep_state_load(w->job, add_known, w, err);
}

/* Folders first: where one cannot be made nothing else is, and a failure undoes the others. */
static int begin(struct sweep *w, struct sluice_err *err)
{
	const struct sweep_job *job = w->job;
	int r = sweep_alloc_points(w, err);

	if (r == 0 && job->state && job->resume)
		r = take_up(w, err);
	if (r == 0)
		sweep_count_left(w);
	for (unsigned i = 0; i < job->nr_folders && r == 0; i++)
		r = sweep_make_folder(w, i, err);
	if (r == 0 && job->ready)
		r = job->ready(job->arg, err);
	if (r == 0 && job->state && !w->state)
		r = sweep_state_open(&w->state, job, err);
	if (r == 0 && w->state)
		r = sweep_state_add_work(w->state, job, w->dirs, err);
	if (r < 0 && w->state && !job->resume)
		unlink(job->state);
	w->res->began = r == 0;
	return r;
}

int sweep_run(const struct sweep_job *job, struct sweep_result *res, struct sluice_err *err)
{
	struct sweep w = {.job = job, .res = res, .start_ns = clock_ns()};
	int r;

	*res = (struct sweep_result){.nr = 0};
	r = begin(&w, err);
	for (unsigned i = 0; i < job->nr_folders && r == 0; i++)
		r = sweep_make_file(&w, i, err);
	if (r == 0)
		r = log_known(&w, err);
	if (r == 0)
		r = walk(&w, err);
	if (job->limit) {
		limit_set(res->series, res->nr, true, (double)job->limit, "as given");
		limit_set(res->series, res->nr, false, (double)job->limit, "as given");
	} else if (r == 0 && job->measure_limit && sweep_moves(job)) {
		r = measure_limit(&w, err);
	}
	for (unsigned i = 0; i < res->nr; i++)
		describe(&w, i);
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
