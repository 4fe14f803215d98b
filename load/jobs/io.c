/* SPDX-License-Identifier: Apache-2.0 */
/* Sets an I/O job up, watches it, tears it down and adds up; worker.c does the work. */
#include "load/jobs/io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/jobs/worker.h"
#include "load/measure/cache.h"

#define TICK_NS 100000000

/* -------------------------------------------------------------------- check */

static int check_gpu(uint32_t device, struct sluice_err *err)
{
	struct sluice_gpu_device d = {.size = sizeof(d)};
	struct sluice_err why;
	int r = sluice_probe_gpu_device(device, &d, &why);

	return r < 0 ? sluice_fail(err, r, "no GPU memory: %s", why.msg) : 0;
}

static int check_folder(const char *folder, bool write, struct sluice_err *err)
{
	struct stat st;

	if (stat(folder, &st) < 0)
		return sluice_fail(err, -EINVAL, "folder: %s: %s", folder, sluice_strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return sluice_fail(err, -EINVAL, "folder: %s is not a directory", folder);
	if (write && access(folder, W_OK | X_OK) < 0)
		return sluice_fail(err, -EINVAL, "folder: %s cannot be written to: %s", folder,
				   sluice_strerror(errno));
	return 0;
}

int io_job_check(const struct io_job *job, struct sluice_err *err)
{
	struct sluice_io *io;
	int r;

	if (!job->nr_places || !job->io_size || !job->loops)
		return sluice_fail(err, -EINVAL, "a job needs a folder, a size and a loop");
	if (job->loops > UINT32_MAX - job->warmup)
		return sluice_fail(err, -EINVAL, "too many loops");
	for (unsigned i = 0; i < job->nr_places; i++) {
		r = check_folder(job->places[i].folder, !job->read, err);
		if (r < 0)
			return r;
	}
	for (unsigned i = 0; job->gpu && i < job->nr_places; i++) {
		r = check_gpu(job->places[i].device, err);
		if (r < 0)
			return r;
	}
	r = sluice_open(&io, &job->opts, err); /* the library knows its own ranges */
	if (r < 0)
		return r;
	return sluice_close(io, err);
}

/* ----------------------------------------------------------- set-up, teardown */

static int run_alloc(struct run *run, struct sluice_err *err)
{
	struct io_result *res = run->res;
	unsigned n = run->job->nr_places, per = files_per_worker(run->job);

	res->nr_workers = n;
	run->nr_loops = run->job->loops + run->job->warmup;
	res->first = run->job->include_warmup ? 0 : run->job->warmup;
	res->workers = calloc(n, sizeof(*res->workers));
	run->workers = calloc(n, sizeof(*run->workers));
	run->files = calloc(n, (size_t)per * sizeof(*run->files));
	if (!res->workers || !run->workers || !run->files)
		return sluice_fail(err, -ENOMEM, "out of memory");
	run->nr_workers = n;
	for (unsigned i = 0; i < n; i++) {
		struct worker *w = &run->workers[i];

		w->run = run;
		w->tid = i;
		w->files = run->files + (size_t)i * per;
		w->res = &res->workers[i];
		w->res->folder = run->job->places[i].folder;
		w->res->device = run->job->places[i].device;
		w->res->task = calloc(run->nr_loops, sizeof(double));
		w->res->e2e = calloc(run->nr_loops, sizeof(double));
		if (!w->res->task || !w->res->e2e)
			return sluice_fail(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* Look at all files before the first one is touched. */
static int run_files(struct run *run, struct sluice_err *err)
{
	unsigned per = files_per_worker(run->job);
	int r;

	for (unsigned i = 0; i < run->nr_workers; i++) {
		for (unsigned k = 0; k < per; k++) {
			r = file_init(&run->workers[i].files[k], run->job, i, k, err);
			if (r < 0)
				return r;
		}
	}
	r = files_room(run->job, run->files, err);
	return r < 0 || run->job->gpu ? r : memory_room(run->job, err);
}

static int run_open(struct run *run, struct sluice_err *err)
{
	int r = run_alloc(run, err);

	if (r < 0)
		return r;
	r = run_files(run, err);
	if (r == 0 && run->job->ready)
		run->job->ready(run->job->progress_arg);
	for (unsigned i = 0; r == 0 && i < run->nr_workers; i++)
		r = worker_init(&run->workers[i], err);
	if (r == 0 && (run->job->read || run->job->validate))
		r = sluice_open(&run->helper, NULL, err);
	return r;
}

static void run_close(struct run *run)
{
	size_t nr_files = (size_t)run->nr_workers * files_per_worker(run->job);

	for (unsigned i = 0; i < run->nr_workers; i++)
		worker_fini(&run->workers[i]);
	sluice_close(run->helper, NULL);
	for (size_t i = 0; i < nr_files; i++)
		if (run->files[i].path)
			file_fini(&run->files[i], run->job);
	free(run->workers);
	free(run->files);
}

/* ----------------------------------------------------------------- progress */

static uint64_t bytes_moved(struct sluice_io *io, bool read)
{
	struct sluice_stats s = {.size = sizeof(s)};

	if (!io || sluice_get_stats(io, &s) < 0)
		return 0;
	return read ? s.bytes_read : s.bytes_written;
}

static void tick(struct run *run)
{
	const struct io_job *job = run->job;
	enum io_step step = (enum io_step)atomic_load(&run->step);
	uint64_t files = (uint64_t)run->nr_workers * files_per_worker(job);
	uint64_t done = 0, total = 0;

	if (!job->progress)
		return;
	if (step == IO_STEP_PREPARE || step == IO_STEP_CHECK) {
		done = bytes_moved(run->helper, step == IO_STEP_CHECK);
		total = files * job->io_size;
	} else if (step == IO_STEP_RUN) {
		for (unsigned i = 0; i < run->nr_workers; i++)
			done += bytes_moved(run->workers[i].io, job->read);
		total = (uint64_t)run->nr_workers * run->nr_loops * job->io_size;
	}
	job->progress(job->progress_arg, step, done, total);
}

/* Wait for all workers, showing how far they are meanwhile. */
static void run_watch(struct run *run, unsigned started)
{
	for (unsigned i = 0; i < started; i++) {
		struct timespec until;

		do {
			tick(run);
			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_nsec += TICK_NS;
			until.tv_sec += until.tv_nsec / 1000000000;
			until.tv_nsec %= 1000000000;
		} while (pthread_timedjoin_np(run->workers[i].thread, NULL, &until) == ETIMEDOUT);
	}
}

/* ------------------------------------------------------------------ results */

static const char *any_memory_behind(const struct io_result *res)
{
	const char *why = NULL;

	for (unsigned i = 0; i < res->nr_workers && !why; i++)
		why = cache_memory_behind(&res->workers[i].path);
	return why;
}

static void describe_cache(struct io_result *res, const struct io_job *job)
{
	struct cache_facts f = {
		.read = job->read,
		.engine = res->workers[0].stats.engine,
		.memory = any_memory_behind(res),
		.direct = res->direct,
		.size = job->io_size,
		.durable = job->opts.durability != SLUICE_DURABLE_NONE,
	};

	for (unsigned i = 0; i < res->nr_workers; i++) {
		struct io_worker_result *w = &res->workers[i];

		f.resident = w->resident > f.resident ? w->resident : f.resident;
		f.unknown = w->resident < 0 ? w->resident : f.unknown;
	}
	cache_describe(res->cache, &f);
}

static void sum_worker(struct io_result *res, struct worker *w)
{
	struct io_worker_result *r = w->res;

	for (unsigned i = res->first; i < res->nr_loops; i++) {
		r->task_sec += r->task[i];
		r->e2e_sec += r->e2e[i];
	}
	r->stats.size = sizeof(r->stats);
	sluice_get_stats(w->io, &r->stats);
	r->gpu.size = w->run->job->gpu ? sizeof(r->gpu) : 0;
	if (r->gpu.size)
		sluice_probe_gpu_device(r->device, &r->gpu, NULL);
	r->path.size = sizeof(r->path);
	sluice_probe_path(r->folder, &r->path, NULL);
	res->task_sec = r->task_sec > res->task_sec ? r->task_sec : res->task_sec;
	res->e2e_sec = r->e2e_sec > res->e2e_sec ? r->e2e_sec : res->e2e_sec;
	res->fallbacks |= r->stats.fallbacks;
}

/* Only the first pass over a file that was not there fills it. */
static uint32_t fresh_loops(const struct run *run)
{
	const struct job_file *files = run->files;
	uint32_t n = 0;

	if (run->job->read)
		return 0;
	if (!run->job->different_file)
		return run->res->first == 0 && !files[0].ours;
	for (uint32_t i = run->res->first; i < run->res->nr_loops; i++)
		n += !files[i].ours;
	return n;
}

static void run_sum(struct run *run)
{
	const struct io_job *job = run->job;
	struct io_result *res = run->res;
	uint64_t direct = 0, buffered = 0;

	res->first = (uint32_t)min_u64(res->first, res->nr_loops);
	for (unsigned i = 0; i < run->nr_workers; i++) {
		sum_worker(res, &run->workers[i]);
		direct += res->workers[i].stats.blocks_direct;
		buffered += res->workers[i].stats.blocks_buffered;
	}
	res->bytes = (uint64_t)run->nr_workers * (res->nr_loops - res->first) * job->io_size;
	res->direct = direct && !buffered;
	res->buffered = buffered && !direct;
	res->fresh = fresh_loops(run);
	if (job->limit) {
		res->limit = (double)job->limit;
		snprintf(res->limit_how, sizeof(res->limit_how), "as given");
	} else if (job->measure_limit) {
		double speed = res->e2e_sec > 0 ? (double)res->bytes / res->e2e_sec : 0;

		res->limit = limit_settle(&run->limit, speed, res->limit_how);
		res->limit_bytes = run->limit.moved;
	}
	describe_cache(res, job);
}

void io_result_fini(struct io_result *res)
{
	for (unsigned i = 0; res->workers && i < res->nr_workers; i++) {
		free(res->workers[i].task);
		free(res->workers[i].e2e);
	}
	free(res->workers);
	memset(res, 0, sizeof(*res));
}

/* ---------------------------------------------------------------------- run */

static int run_threads(struct run *run, struct sluice_err *err)
{
	unsigned started = 0;
	int r = pthread_barrier_init(&run->barrier, NULL, run->nr_workers);

	if (r)
		return sluice_fail(err, -r, "cannot make a barrier: %s", sluice_strerror(r));
	pthread_mutex_init(&run->lock, NULL);
	pthread_mutex_lock(&run->lock); /* nobody starts before all are there */
	for (; started < run->nr_workers; started++) {
		struct worker *w = &run->workers[started];

		r = pthread_create(&w->thread, NULL, worker_main, w);
		if (r)
			break;
	}
	run->abandoned = started < run->nr_workers;
	pthread_mutex_unlock(&run->lock);
	run_watch(run, started);
	pthread_barrier_destroy(&run->barrier);
	pthread_mutex_destroy(&run->lock);
	if (run->abandoned)
		return sluice_fail(err, -r, "cannot start thread %u of %u: %s", started + 1,
				   run->nr_workers, sluice_strerror(r));
	if (run->job->stop && atomic_load(run->job->stop))
		return sluice_fail(err, -ECANCELED, "interrupted");
	if (atomic_load(&run->failed)) {
		*err = run->err;
		return run->err.code;
	}
	return 0;
}

int io_job_run(const struct io_job *job, struct io_result *result, struct sluice_err *err)
{
	struct run run = {.job = job, .res = result};
	struct sluice_err local;
	bool keep;
	int r;

	memset(result, 0, sizeof(*result));
	err = err ? err : &local;
	r = run_open(&run, err);
	if (r == 0)
		r = run_threads(&run, err);
	keep = r == 0 || (r == -ECANCELED && job->stop && atomic_load(job->stop));
	result->partial = r < 0;
	if (keep)
		run_sum(&run);
	run_close(&run);
	if (!keep)
		io_result_fini(result);
	return r;
}
