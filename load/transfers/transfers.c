/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner: sets workers up, watches them, and adds up what they counted.  Each
 * is a thread with a handle, a share of the buffers and counts of its own.
 */
#include "load/transfers/transfers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/measure/handle.h"
#include "load/measure/rank_barrier.h"
#include "load/transfers/transfers_work.h"

#define TICK_NS 100000000

/* ------------------------------------------------------------------ workers */

/* What files and blocks are like, whoever opens them later. */
static int transfers_record_file_info(struct transfers_worker *w, struct penstock_err *err)
{
	const struct bed_file *f = &w->transfers->job->files[0];
	struct penstock_file *file;
	int r = penstock_file_open(&file, w->io, f->open_path, bed_file_flags(f, false), 0, err);

	if (r < 0)
		return r;
	w->handle.file.size = sizeof(w->handle.file);
	penstock_file_stat(file, &w->handle.file);
	return penstock_file_abort(file, err); /* one that is there stays, an object, too */
}

static int transfers_open_files(struct transfers_worker *w, struct penstock_err *err)
{
	const struct transfers_job *job = w->transfers->job;
	int r = job->rounds ? 0 : transfers_record_file_info(w, err);

	if (r < 0 || job->open_each)
		return r;
	w->files = calloc(job->nr_files, sizeof(struct penstock_file *));
	if (!w->files)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < job->nr_files && r == 0; i++)
		r = penstock_file_open(
			&w->files[i], w->io, job->files[i].open_path,
			bed_file_flags(&job->files[i], bed_file_remote(&job->files[i])), 0, err);
	return r;
}

static int worker_open(struct transfers_worker *w, struct penstock_err *err)
{
	const struct transfers_job *job = w->transfers->job;
	int r;

	w->slots = calloc(job->depth, sizeof(*w->slots));
	w->series = calloc(job->nr_series, sizeof(*w->series));
	if (!w->slots || !w->series)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < job->nr_series; i++)
		if (series_init(&w->series[i]) < 0)
			return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < job->depth; i++)
		w->slots[i].buf = job->buffers->bufs[w->id * job->depth + i];
	r = penstock_open(&w->io, &job->opts, err);
	if (r == 0)
		r = bed_buffers_register(job->buffers, w->id * job->depth, job->depth, w->io,
					 &w->handle.buf, err);
	return r < 0 ? r : transfers_open_files(w, err);
}

static void worker_close(struct transfers_worker *w)
{
	const struct transfers_job *job = w->transfers->job;

	if (w->io)
		bed_buffers_unregister(job->buffers, w->id * job->depth, job->depth, w->io);
	penstock_close(w->io, NULL);
	for (unsigned i = 0; w->series && i < job->nr_series; i++)
		series_fini(&w->series[i]);
	free(w->series);
	free(w->slots);
	free(w->files);
}

/* Bytes that all workers have moved so far, of operations in flight as well. */
static void transfers_tick(struct transfers *s)
{
	struct penstock_stats stats = {.size = sizeof(stats)};
	uint64_t bytes = 0;

	for (unsigned i = 0; i < s->job->workers; i++)
		if (penstock_get_stats(s->workers[i].io, &stats) == 0)
			bytes += stats.bytes_read + stats.bytes_written;
	rank_progress_report(bytes);
	if (s->job->progress)
		s->job->progress(s->job->progress_arg, bytes);
}

/* Wait for a worker, showing how far all are meanwhile. */
static void transfers_join_worker(struct transfers *s, struct transfers_worker *w)
{
	struct timespec until;

	do {
		transfers_tick(s);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += TICK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(w->thread, NULL, &until) == ETIMEDOUT);
}

static void start_workers(struct transfers *s)
{
	const struct transfers_job *job = s->job;
	struct penstock_err err;

	for (unsigned i = 0; i < job->workers; i++) {
		struct transfers_worker *w = &s->workers[i];
		int r = thread_start(&w->thread, transfers_work, w);

		w->started = r == 0;
		if (r == 0)
			continue;
		s->abandoned = true;
		penstock_fail(&err, r, "cannot start thread %u of %u: %s", i + 1, job->workers,
			      penstock_strerror(r));
		transfers_fail_locked(s, &err);
		break;
	}
}

static void run_workers(struct transfers *s)
{
	pthread_mutex_lock(&s->lock); /* nobody begins before it is clear that all are there */
	start_workers(s);
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < s->job->workers; i++)
		if (s->workers[i].started)
			transfers_join_worker(s, &s->workers[i]);
	transfers_tick(s);
	rank_progress_end();
}

/* ------------------------------------------------------------------ results */

/* What all series of a run share. */
static void transfers_add_run(struct transfers *s, struct run_series *series,
			      const struct rusage *after)
{
	const struct transfers_worker *w = s->workers;
	double user = 0, system = 0, outside = 0;
	uint64_t library_ns = 0;

	for (unsigned i = 0; i < s->job->workers; i++) {
		handle_stats_add(&series->stats, &w[i].handle.stats);
		library_ns += w[i].handle.stats.cpu_ns;
		outside += (double)w[i].hook_ns / 1e9;
	}
	if (atomic_load(&s->counting)) {
		user += timeval_sec(&after->ru_utime) - timeval_sec(&s->before.ru_utime);
		system += timeval_sec(&after->ru_stime) - timeval_sec(&s->before.ru_stime);
	}
	series->opts = s->job->opts;
	series->no_storage = engine_is_null(series->stats.engine);
	series->memory = s->job->buffers->want.memory;
	series->sec += (double)s->counted_ns / 1e9;
	if (s->counted_ns)
		series_turn(series, s->count_start_ns, s->counted_ns);
	/*
	 * The kernel knows the sum well, but divides it by where ticks happened to fall, for a
	 * thread otherwise than for the process.  Filling and comparing is the user's time.
	 */
	series->user_sec += fmax(0, user - outside);
	series->system_sec += fmax(0, system + fmin(0, user - outside));
	series->library_sec += (double)(library_ns - s->library_ns) / 1e9;
	series->file = w[0].handle.file;
	series->buf = w[0].handle.buf;
	if (!transfers_stopped(s))
		return;
	series->partial = true;
	snprintf(series->partial_why, sizeof(series->partial_why), "%s",
		 atomic_load(&s->failed) ? s->err.msg : "interrupted");
}

static int transfers_collect(struct transfers *s, const struct rusage *after,
			     struct penstock_err *err)
{
	unsigned n = s->job->nr_series;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < s->job->workers; k++)
			if (series_merge(&s->series[i], &s->workers[k].series[i]) < 0)
				return penstock_fail(err, -ENOMEM, "out of memory");
		series_finish(&s->series[i]);
		transfers_add_run(s, &s->series[i], after);
		bytes += s->series[i].bytes;
	}
	for (unsigned i = 0; i < n; i++)
		s->series[i].run_bytes = bytes;
	for (unsigned i = 0; s->job->handles && i < s->job->workers; i++)
		s->job->handles[i] = s->workers[i].handle;
	return 0;
}

static int transfers_open(struct transfers *s, struct penstock_err *err)
{
	int r = 0;

	s->workers = calloc(s->job->workers, sizeof(*s->workers));
	if (!s->workers)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < s->job->workers; i++)
		s->workers[i].transfers = s;
	for (unsigned i = 0; i < s->job->nr_series && r == 0; i++)
		if (!s->series[i].hist && series_init(&s->series[i]) < 0)
			r = penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < s->job->workers && r == 0; i++) {
		s->workers[i].id = i;
		r = worker_open(&s->workers[i], err);
	}
	return r;
}

int run_transfers(const struct transfers_job *job, struct run_series *series,
		  struct penstock_err *err)
{
	struct transfers s = {
		.job = job, .series = series, .earlier_ns = (uint64_t)(series[0].sec * 1e9)};
	struct penstock_err local;
	struct rusage after;
	int r;

	err = err ? err : &local;
	pthread_mutex_init(&s.lock, NULL);
	pthread_barrier_init(&s.barrier, NULL, job->workers);
	r = transfers_open(&s, err);
	if (r == 0) {
		run_workers(&s);
		getrusage(RUSAGE_SELF, &after);
		r = transfers_collect(&s, &after, err);
	}
	if (r == 0 && atomic_load(&s.failed)) {
		*err = s.err;
		r = s.err.code;
	}
	for (unsigned i = 0; s.workers && i < job->workers; i++)
		worker_close(&s.workers[i]);
	free(s.workers);
	pthread_barrier_destroy(&s.barrier);
	pthread_mutex_destroy(&s.lock);
	return r;
}
