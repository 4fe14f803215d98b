/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker of an I/O job.  All workers pass the same barriers, whatever
 * happens: after a failure anywhere they skip the work between the barriers and
 * leave the loop together, so nobody waits for a thread that has left.
 */
#include "load/jobs/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "load/jobs/memory.h"
#include "load/measure/cache.h"
#include "load/measure/cpu_time.h"
#include "load/measure/limit.h"

#define POLL_NS    100000000 /* how soon a stop is noticed */
#define PAGE_BYTES 4096
#define POISON     0x5a /* in the buffer before a read that will be compared */

void run_fail(struct run *run, const struct sluice_err *err)
{
	pthread_mutex_lock(&run->lock);
	if (!atomic_load(&run->failed)) {
		run->err = *err;
		atomic_store(&run->failed, true);
	}
	pthread_mutex_unlock(&run->lock);
}

bool run_stopped(struct run *run)
{
	return atomic_load(&run->failed) || (run->job->stop && atomic_load(run->job->stop));
}

int worker_init(struct worker *w, struct sluice_err *err)
{
	int r = sluice_open(&w->io, &w->run->job->opts, err);

	return r < 0 ? r : memory_open(w, err);
}

void worker_fini(struct worker *w)
{
	sluice_close(w->io, NULL);
	memory_close(w);
}

/* ---------------------------------------------------------------- transfers */

/* Carry out one operation, all of it, giving up when the job is stopped. */
static int move(struct run *run, struct sluice_io *io, const struct sluice_op *op,
		uint32_t *ret_ways, struct sluice_err *err)
{
	struct sluice_done done;
	uint64_t ticket;
	int r = sluice_submit(io, op, 1, &ticket, err);

	if (r < 0)
		return r;
	for (;;) {
		r = sluice_wait(io, ticket, POLL_NS, &done);
		if (r != -ETIMEDOUT)
			break;
		if (run_stopped(run))
			sluice_cancel(io, ticket);
	}
	if (r < 0)
		return sluice_fail(err, r, "waiting for a transfer: %s", sluice_strerror(r));
	if (done.res < 0)
		return sluice_fail(err, (int)done.res, "%s", done.msg);
	*ret_ways |= done.flags;
	return 0;
}

/* The operation that is measured: open, move, close. */
static int transfer(struct worker *w, const struct job_file *f, struct sluice_err *err)
{
	bool read = w->run->job->read;
	struct sluice_op op = {
		.opcode = read ? SLUICE_READ : SLUICE_WRITE,
		.flags = read ? SLUICE_OP_EXACT : 0,
		.buf = w->buf,
		.len = w->run->job->io_size,
	};
	struct sluice_file *file;
	int r = sluice_file_open(&file, w->io, f->path, read ? O_RDONLY : O_RDWR, 0, err);

	if (r < 0)
		return r;
	op.file = file;
	r = move(w->run, w->io, &op, &w->res->ways, err);
	w->res->file.size = sizeof(w->res->file);
	sluice_file_stat(file, &w->res->file);
	if (r < 0) {
		sluice_file_close(file, NULL);
		return r;
	}
	return sluice_file_close(file, err);
}

/* Between the stage and a file, through the helper's handle; not measured. */
static int helper_transfer(struct worker *w, const struct job_file *f, bool read, uint64_t offset,
			   uint64_t len, struct sluice_err *err)
{
	struct sluice_op op = {
		.opcode = read ? SLUICE_READ : SLUICE_WRITE,
		.flags = read ? SLUICE_OP_EXACT : SLUICE_OP_DATASYNC,
		.path = f->path,
		.buf = w->stage,
		.len = len,
		.offset = offset,
	};
	uint32_t ways = 0;

	return move(w->run, w->run->helper, &op, &ways, err);
}

/* --------------------------------------------------------------------- data */

static struct job_file *loop_file(const struct worker *w, unsigned loop)
{
	return &w->files[w->run->job->different_file ? loop : 0];
}

/*
 * Seed of what loop @loop writes.  When it will be compared, each pass over one
 * file writes something else, or a pass that was lost would not be noticed; the
 * last one leaves the pattern by which the file is known to be ours.
 */
static uint64_t loop_pattern(const struct worker *w, unsigned loop)
{
	const struct io_job *job = w->run->job;
	uint64_t pattern = loop_file(w, loop)->pattern;

	if (job->read || job->different_file || !job->validate)
		return pattern;
	return pattern + (job->loops + job->warmup - 1 - loop);
}

/* Write what a file to be read holds. */
static int make_file(struct worker *w, const struct job_file *f, struct sluice_err *err)
{
	uint64_t size = w->run->job->io_size, n;
	int r = 0;

	for (uint64_t off = 0; off < size && r == 0; off += n) {
		n = min_u64(size - off, w->stage_len);
		sluice_pattern_fill(w->stage, n, f->pattern, off);
		r = helper_transfer(w, f, false, off, n, err);
		w->res->prepared_bytes += r == 0 ? n : 0;
	}
	return r;
}

/* Read a file back, past the page cache where that is possible, and compare. */
static int check_file(struct worker *w, const struct job_file *f, struct sluice_err *err)
{
	uint64_t size = w->run->job->io_size, n;
	int r = 0;

	cache_drop(f->path, size);
	for (uint64_t off = 0; off < size && r == 0; off += n) {
		n = min_u64(size - off, w->stage_len);
		memset(w->stage, POISON, n);
		r = helper_transfer(w, f, true, off, n, err);
		if (r == 0)
			r = stage_check(w, f->pattern, off, n, f->path, err);
		w->res->verified_bytes += r == 0 ? n : 0;
	}
	return r;
}

/* --------------------------------------------------------------- life of it */

/* Files to write begin empty, files to read begin with the pattern on the device. */
static int prepare(struct worker *w, struct sluice_err *err)
{
	const struct io_job *job = w->run->job;
	unsigned n = files_per_worker(job);
	int r = memory_set(w, 0, err); /* page faults are not what is measured */

	for (unsigned i = 0; i < n && r == 0 && !run_stopped(w->run); i++) {
		struct job_file *f = &w->files[i];

		if (f->ours || (f->exists && !job->overwrite))
			continue;
		r = file_create(f, err);
		if (r < 0)
			return r;
		w->res->made++;
		if (job->read)
			r = make_file(w, f, err);
	}
	return r;
}

/* Before the clock starts: a cold cache for reads, the right data for writes. */
static int prepare_loop(struct worker *w, unsigned loop, struct sluice_err *err)
{
	const struct io_job *job = w->run->job;
	int64_t left;

	if (!job->read) {
		if (loop == 0 || job->different_file || job->validate)
			return memory_fill(w, loop_pattern(w, loop), err);
		return 0;
	}
	left = cache_drop(loop_file(w, loop)->path, job->io_size);
	if (loop >= w->run->res->first && w->res->resident >= 0)
		w->res->resident = left < 0 || left > w->res->resident ? left : w->res->resident;
	return job->validate ? memory_set(w, POISON, err) : 0;
}

/* CPU time of the I/O threads of all workers. */
static uint64_t library_cpu(const struct run *run)
{
	struct sluice_stats s = {.size = sizeof(s)};
	uint64_t ns = 0;

	for (unsigned i = 0; i < run->nr_workers; i++)
		if (sluice_get_stats(run->workers[i].io, &s) == 0)
			ns += s.cpu_ns;
	return ns;
}

static void count_cpu(struct run *run)
{
	double user, system;

	cpu_time_since(&run->before, &user, &system);
	run->res->library_sec += (double)(library_cpu(run) - run->library_ns) / 1e9;
	run->res->user_sec += user;
	run->res->system_sec += system;
}

/*
 * Between two barriers, by worker 0.  A loop that not all workers have completed, because of
 * a stop or a failure, does not count.
 */
static void end_loop(struct run *run, unsigned loop)
{
	if (atomic_exchange(&run->moved, 0) == run->nr_workers) {
		run->res->nr_loops = loop + 1;
		if (loop >= run->res->first)
			count_cpu(run);
	}
	run->leave = run_stopped(run); /* one answer for all, read after the barrier */
}

/*
 * One loop.  The first two barriers keep the preparations of all workers out of
 * the CPU time, the last one keeps what follows out.
 */
static int one_loop(struct worker *w, unsigned loop, struct sluice_err *err)
{
	struct run *run = w->run;
	const struct job_file *f = loop_file(w, loop);
	uint64_t begin, done, end;
	int r = 0;

	if (!run_stopped(run) && prepare_loop(w, loop, err) < 0)
		run_fail(run, err);
	pthread_barrier_wait(&run->barrier);
	if (w->tid == 0) {
		run->library_ns = library_cpu(run);
		getrusage(RUSAGE_SELF, &run->before);
	}
	pthread_barrier_wait(&run->barrier);
	begin = clock_ns();
	if (!run_stopped(run)) {
		r = transfer(w, f, err);
		atomic_fetch_add(&run->moved, r == 0);
	}
	done = clock_ns();
	if (r < 0)
		run_fail(run, err);
	pthread_barrier_wait(&run->barrier);
	end = clock_ns();
	if (w->tid == 0)
		end_loop(run, loop);
	pthread_barrier_wait(&run->barrier);

	w->res->task[loop] = (double)(done - begin) / 1e9;
	w->res->e2e[loop] = (double)(end - begin) / 1e9;
	if (run->job->read && run->job->validate && !run_stopped(run)) {
		r = memory_check(w, f->pattern, f->path, err);
		w->res->verified_bytes += r == 0 ? run->job->io_size : 0;
	}
	return r;
}

/* What a plain loop gets from the same files, now that they are there. */
static void measure_limit(struct run *run)
{
	CLEANUP_FREE struct limit_target *targets = calloc(run->nr_workers, sizeof(*targets));
	bool read = run->job->read;

	if (!targets)
		return;
	for (unsigned i = 0; i < run->nr_workers; i++) {
		struct worker *w = &run->workers[i];

		targets[i] = (struct limit_target){
			.paths = (const char *const *)&loop_file(w, run->res->nr_loops - 1)->path,
			.nr_paths = 1,
			.len = run->job->io_size,
			/* Whatever the job used: this wants aligned host memory. */
			.buf = memory_content(w),
			.nr_bufs = 1,
			.buf_len = run->job->io_size,
		};
		if (!targets[i].buf) {
			snprintf(run->limit.why_not, sizeof(run->limit.why_not), "out of memory");
			return;
		}
		targets[i].align = w->res->file.direct ? w->res->file.offset_align : PAGE_BYTES;
	}
	run->limit.read = read;
	limit_try_all(&run->limit, targets, run->nr_workers,
		      read ? 0
			   : limit_most_written((uint64_t)run->nr_workers * run->res->nr_loops *
						run->job->io_size),
		      LIMIT_SEC, run->job->stop);
}

/* Everything that was written. */
static int check_written(struct worker *w, struct sluice_err *err)
{
	unsigned n = files_per_worker(w->run->job);
	int r = 0;

	for (unsigned i = 0; i < n && r == 0 && !run_stopped(w->run); i++)
		r = check_file(w, &w->files[i], err);
	return r;
}

/* All workers enter step @step together. */
static void next_step(struct worker *w, enum io_step step)
{
	if (pthread_barrier_wait(&w->run->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		atomic_store(&w->run->step, (int)step);
}

void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct run *run = w->run;
	struct sluice_err err = {0, ""};

	pthread_mutex_lock(&run->lock); /* the starting signal */
	pthread_mutex_unlock(&run->lock);
	if (run->abandoned)
		return NULL;
	if (prepare(w, &err) < 0)
		run_fail(run, &err);
	next_step(w, IO_STEP_RUN);
	for (unsigned i = 0; i < run->nr_loops && !run->leave; i++)
		if (one_loop(w, i, &err) < 0)
			run_fail(run, &err);
	next_step(w, IO_STEP_LIMIT);
	if (w->tid == 0 && run->job->measure_limit && !run_stopped(run))
		measure_limit(run);
	next_step(w, IO_STEP_CHECK);
	if (!run->job->read && run->job->validate && !run_stopped(run) &&
	    check_written(w, &err) < 0)
		run_fail(run, &err);
	return NULL;
}
