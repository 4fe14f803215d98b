/* SPDX-License-Identifier: Apache-2.0 */
/* An I/O job as a source of operations: what each loop moves, and what it found. */
#include "load/jobs/io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/bed/bed_check.h"
#include "load/jobs/io_files.h"
#include "load/measure/limit.h"
#include "load/measure/page_cache.h"
#include "load/measure/rank_barrier.h"

#define IO_AGAIN (1ull << 32) /* in a tag: not a loop of its own */

/* A job while it runs. */
struct io_run {
	const struct io_job *job;
	struct io_result *res;
	struct io_files files;
	struct bed_buffers buffers; /* one for each worker */
	struct transfers_handle_info *handles;
	uint32_t *issued; /* loops of each worker */
	bool *again;      /* its new handle is warm only when it has done the last one again */
	uint32_t nr_loops;
	uint32_t turn_end; /* loops of each worker when plain threads have their turn */
	enum io_step step;
	uint64_t total;   /* bytes of this step ... */
	uint64_t earlier; /* ... that other handles moved */
	_Atomic uint64_t verified;
	struct limit limit;
};

static bool io_stopped(const struct io_job *job)
{
	return asked_to_stop(job->stop);
}

/* ------------------------------------------------------------------- source */

static int io_next(void *arg, unsigned worker, struct load_op *op, struct penstock_err *err)
{
	struct io_run *run = arg;
	uint32_t loop = run->issued[worker];

	(void)err;
	if (loop == run->turn_end)
		return 0;
	if (run->again[worker])
		loop--;
	else
		run->issued[worker]++;
	*op = (struct load_op){
		.read = run->job->read,
		.warmup = loop < run->res->first || run->again[worker],
		.file = worker * run->files.per + (run->job->different_file ? loop : 0),
		.len = run->job->io_size,
		.tag = loop | (run->again[worker] ? IO_AGAIN : 0),
	};
	run->again[worker] = false;
	return 1;
}

/*
 * Seed of what loop @loop writes.  When it will be compared, each pass over one
 * file writes something else, or a pass that was lost would not be noticed; the
 * last one leaves the pattern by which the file is known to be ours.
 */
static uint64_t io_loop_seed(const struct io_run *run, const struct bed_file *f, uint32_t loop)
{
	bool same = run->job->different_file || !run->job->validate || run->job->read;

	return same ? f->seed : f->seed + (run->nr_loops - 1 - loop);
}

/* Before the clock starts: a cold cache for reads, the right data for writes. */
static int io_prepare(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct io_run *run = arg;
	const struct io_job *job = run->job;
	const struct bed_file *f = &run->files.all[op->file];
	struct io_worker_result *w = &run->res->workers[op->file / run->files.per];
	int r = bed_file_same(f, err);
	int64_t left;

	if (r < 0)
		return r;
	if (!job->read) {
		if (op->tag && !job->different_file && !job->validate)
			return 0;
		return bed_buf_fill(&run->buffers, buf, op->len,
				    io_loop_seed(run, f, (uint32_t)op->tag), f->from, err);
	}
	left = page_cache_drop(f->open_path, f->from, op->len);
	if (!op->warmup && w->resident >= 0)
		w->resident = left < 0 || left > w->resident ? left : w->resident;
	/* Page faults are not what is measured, either. */
	return !op->tag || job->validate ? bed_buf_poison(&run->buffers, buf, op->len, err) : 0;
}

static int io_finish(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct io_run *run = arg;
	const struct bed_file *f = &run->files.all[op->file];
	unsigned worker = op->file / run->files.per;
	int r;

	if (op->tag & IO_AGAIN)
		return 0;
	run->res->workers[worker].task[op->tag] = (double)op->took_ns / 1e9;
	run->res->workers[worker].e2e[op->tag] = (double)op->round_ns / 1e9;
	if (worker == 0)
		run->res->nr_loops = (uint32_t)op->tag + 1;
	if (!op->read || !run->job->validate || io_stopped(run->job))
		return 0;
	r = bed_buf_check(&run->buffers, buf, op->len, f->seed, f->from, f->path, err);
	atomic_fetch_add(&run->verified, r == 0 ? op->len : 0);
	return r;
}

/* ----------------------------------------------------------------- progress */

static void io_tick(void *arg, uint64_t bytes)
{
	struct io_run *run = arg;

	run->job->progress(run->job->progress_arg, run->step, run->earlier + bytes, run->total);
}

static void io_step(struct io_run *run, enum io_step step, uint64_t earlier, uint64_t total)
{
	run->step = step;
	run->earlier = earlier;
	run->total = total;
	if (run->job->progress)
		io_tick(run, 0);
}

static struct bed_file_work io_work(struct io_run *run)
{
	return (struct bed_file_work){.stop = run->job->stop,
				      .progress = run->job->progress ? io_tick : NULL,
				      .arg = run};
}

/* -------------------------------------------------------------------- steps */

static int io_alloc(struct io_run *run, struct penstock_err *err)
{
	const struct io_job *job = run->job;
	struct io_result *res = run->res;
	unsigned n = job->nr_targets;

	run->nr_loops = job->loops + job->warmup;
	res->first = job->include_warmup ? 0 : job->warmup;
	res->workers = calloc(n, sizeof(*res->workers));
	res->paths = calloc(n, sizeof(*res->paths));
	run->handles = calloc(n, sizeof(*run->handles));
	run->issued = calloc(n, sizeof(*run->issued));
	run->again = calloc(n, sizeof(*run->again));
	if (!res->workers || !res->paths || !run->handles || !run->issued || !run->again)
		return penstock_fail(err, -ENOMEM, "out of memory");
	res->nr_workers = n;
	for (unsigned i = 0; i < n; i++) {
		struct io_worker_result *w = &res->workers[i];

		w->folder = job->targets[i].folder;
		w->device = job->targets[i].device;
		w->task = calloc(run->nr_loops, sizeof(double));
		w->e2e = calloc(run->nr_loops, sizeof(double));
		if (!w->task || !w->e2e)
			return penstock_fail(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int io_buffers(struct io_run *run, struct penstock_err *err)
{
	const struct io_job *job = run->job;
	CLEANUP_FREE uint32_t *devices = calloc(job->nr_targets, sizeof(*devices));
	struct bed_buffers_opts want = {
		.memory = job->gpu ? BED_GPU : job->memory,
		.odd = job->memory == BED_ODD,
		.len = job->io_size,
		.nr = job->nr_targets,
		.huge = job->opts.huge,
		.lock = job->lock,
		.devices = devices,
	};

	if (!devices)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < job->nr_targets; i++)
		devices[i] = job->targets[i].device;
	return bed_buffers_open(&run->buffers, &want, err);
}

/* Look at all there is before the first thing is made. */
static int io_open(struct io_run *run, struct penstock_err *err)
{
	const struct io_job *job = run->job;
	struct bed_file_work work = io_work(run);
	int r = io_alloc(run, err);

	if (r == 0)
		r = io_files_init(&run->files, job, err);
	if (r == 0)
		r = io_files_check_space(&run->files, err);
	if (r == 0 && !job->gpu)
		r = bed_check_memory(job->io_size, job->nr_targets, err);
	if (r == 0 && job->ready)
		job->ready(job->progress_arg);
	if (r == 0)
		r = io_buffers(run, err);
	io_step(run, IO_STEP_PREPARE, 0, run->files.nr * job->io_size);
	return r < 0 ? r : io_files_make(&run->files, &work, err);
}

/* Only the first pass over a file that was not there fills it. */
static uint32_t io_fresh_loops(const struct io_run *run)
{
	const struct bed_file *files = run->files.all;
	uint32_t n = 0;

	if (run->job->read)
		return 0;
	if (!run->job->different_file)
		return run->res->first == 0 && !files[0].full;
	for (uint32_t i = run->res->first; i < run->res->nr_loops; i++)
		n += !files[i].full;
	return n;
}

/* The next loops, behind which plain threads have their turn, or all. */
static int io_turn(struct io_run *run, unsigned turn, unsigned turns, struct penstock_err *err)
{
	const struct io_job *job = run->job;
	struct transfers_job work = {
		.source = {io_next, io_prepare, io_finish, run},
		.files = run->files.all,
		.nr_files = run->files.nr,
		.open_each = true,
		.rounds = true,
		.workers = job->nr_targets,
		.depth = 1,
		.opts = job->opts,
		.buffers = &run->buffers,
		.nr_series = 1,
		.stop = job->stop,
		.progress = job->progress ? io_tick : NULL,
		.progress_arg = run,
		.handles = run->handles,
	};

	for (unsigned i = 0; i < job->nr_targets; i++)
		run->again[i] = turn > 1 && job->warmup;
	run->turn_end = run->res->first + (run->nr_loops - run->res->first) * turn / turns;
	io_step(run, IO_STEP_RUN, run->res->series.bytes + run->res->series.warmup_bytes,
		(uint64_t)job->nr_targets * run->nr_loops * job->io_size);
	return run_transfers(&work, &run->res->series, err);
}

/* The file of a worker's last loop. */
static struct bed_file *io_last_file(const struct io_run *run, unsigned worker)
{
	return &run->files.all[worker * run->files.per +
			       (run->job->different_file ? run->turn_end - 1 : 0)];
}

/* Buffers that plain threads can use, with the content of the files: ours, or others. */
static int io_limit_buffers(struct io_run *run, struct bed_buffers *other, struct bed_buffers **ret,
			    struct penstock_err *err)
{
	const struct io_job *job = run->job;
	struct bed_buffers_opts want = {
		.memory = BED_PLAIN, .len = job->io_size, .nr = job->nr_targets};
	int r;

	*ret = &run->buffers;
	if (!job->gpu && job->memory != BED_ODD)
		return 0;
	*ret = other;
	r = bed_buffers_open(other, &want, err);
	for (unsigned i = 0; i < want.nr && r == 0; i++)
		r = bed_buf_fill(other, other->bufs[i], want.len,
				 io_loop_seed(run, io_last_file(run, i), run->turn_end - 1), 0,
				 err);
	return r;
}

/* What plain threads get from the files of the last loop. */
static int io_limit(struct io_run *run, unsigned turn, unsigned turns, struct penstock_err *err)
{
	const struct io_job *job = run->job;
	struct limit_schedule t = {.done = turn, .all = turns, .sec = LIMIT_SEC};
	CLEANUP_FREE struct limit_target *targets = calloc(job->nr_targets, sizeof(*targets));
	struct bed_buffers other = {.bufs = NULL}, *b = NULL;
	int r = targets ? io_limit_buffers(run, &other, &b, err)
			: penstock_fail(err, -ENOMEM, "out of memory");

	io_step(run, IO_STEP_LIMIT, 0, 0);
	for (unsigned i = 0; i < job->nr_targets && r == 0; i++) {
		struct bed_file *f = io_last_file(run, i);
		const struct penstock_file_info *info = &run->handles[i].file;

		targets[i] = (struct limit_target){
			.paths = (const char *const *)&f->open_path,
			.nr_paths = 1,
			.len = f->len,
			.buf = b->bufs[i],
			.nr_bufs = 1,
			.buf_len = f->len,
			.align = info->direct ? info->offset_align : 4096,
			.s3 = f->folder->s3,
			.block = job->opts.block,
		};
	}
	run->limit.read = job->read;
	if (!job->read)
		t.max_bytes =
			limit_max_write((uint64_t)job->nr_targets * run->nr_loops * job->io_size);
	if (r == 0)
		limit_run_due(&run->limit, targets, job->nr_targets, &t, job->stop);
	bed_buffers_close(&other);
	return r;
}

/* Everything that was written. */
static int io_verify(struct io_run *run, struct penstock_err *err)
{
	struct bed_file_work work = io_work(run);
	int r;

	io_step(run, IO_STEP_CHECK, 0, run->files.nr * run->job->io_size);
	for (unsigned i = 0; i < run->files.nr; i++)
		run->files.all[i].full = true;
	r = bed_files_verify(run->files.all, run->files.nr, &work, err);
	atomic_fetch_add(&run->verified, work.bytes);
	return r;
}

/* ------------------------------------------------------------------ results */

static void io_sum_worker(struct io_run *run, unsigned i)
{
	struct io_result *res = run->res;
	struct io_worker_result *w = &res->workers[i];

	for (unsigned k = res->first; k < res->nr_loops; k++) {
		w->task_sec += w->task[k];
		w->e2e_sec += w->e2e[k];
	}
	w->handle = run->handles[i];
	w->made = run->files.made[i];
	w->gpu.size = run->job->gpu ? sizeof(w->gpu) : 0;
	if (w->gpu.size)
		penstock_probe_gpu_device(w->device, &w->gpu, NULL);
	res->paths[i].size = sizeof(res->paths[i]);
	penstock_probe_path(w->folder, &res->paths[i], NULL);
	res->task_sec = w->task_sec > res->task_sec ? w->task_sec : res->task_sec;
	res->e2e_sec = w->e2e_sec > res->e2e_sec ? w->e2e_sec : res->e2e_sec;
}

/* Nothing ran: what would have? */
static void io_get_handle_info(const struct io_job *job, struct penstock_stats *stats)
{
	struct penstock_io *io;

	stats->size = sizeof(*stats);
	if (penstock_open(&io, &job->opts, NULL) < 0)
		return;
	penstock_get_stats(io, stats);
	penstock_close(io, NULL);
}

/* What run_transfers() does not know of the series. */
static void io_sum_series(struct io_run *run)
{
	const struct io_job *job = run->job;
	struct io_result *res = run->res;
	struct run_series *s = &res->series;
	struct page_cache_facts facts = {
		.size = job->io_size,
		.durable = job->opts.durability != PENSTOCK_DURABLE_NONE,
	};
	char size[PENSTOCK_SIZE_TEXT];

	if (!s->stats.size)
		io_get_handle_info(job, &s->stats);
	snprintf(s->name, sizeof(s->name), "%s %s", job->read ? "read" : "write",
		 penstock_size_exact(size, job->io_size));
	s->read = job->read;
	s->size = job->io_size;
	s->opts = job->opts;
	s->memory = job->gpu ? BED_GPU : job->memory;
	s->lock = job->lock;
	s->verify = job->validate;
	s->sec = res->e2e_sec;
	s->prepared_bytes = run->files.prepared_bytes;
	s->verified_bytes = atomic_load(&run->verified);
	/* A loop that was interrupted wrote as well. */
	if (!s->read && s->stats.bytes_written > s->bytes + s->warmup_bytes)
		s->warmup_bytes = s->stats.bytes_written - s->bytes;
	s->partial = res->partial;
	if (res->partial)
		snprintf(s->partial_why, sizeof(s->partial_why), "interrupted: %u of %u loops",
			 res->nr_loops - res->first,
			 job->loops + (job->include_warmup ? job->warmup : 0));
	if (job->limit) {
		s->limit = (double)job->limit;
		snprintf(s->limit_how, sizeof(s->limit_how), "as given");
	} else if (job->measure_limit) {
		s->limit = limit_result(&run->limit, series_speed(s), s->limit_how);
		res->limit_bytes = run->limit.moved;
	}
	for (unsigned i = 0; i < res->nr_workers; i++)
		page_cache_add(&facts, res->workers[i].resident);
	page_cache_describe(s, &facts, res->paths, res->nr_workers);
}

static int io_sum(struct io_run *run, struct penstock_err *err)
{
	struct io_result *res = run->res;

	if (!res->series.hist && series_init(&res->series) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	res->first = (uint32_t)min_u64(res->first, res->nr_loops);
	for (unsigned i = 0; i < res->nr_workers; i++)
		io_sum_worker(run, i);
	io_sum_series(run);
	return 0;
}

void io_result_fini(struct io_result *res)
{
	for (unsigned i = 0; res->workers && i < res->nr_workers; i++) {
		free(res->workers[i].task);
		free(res->workers[i].e2e);
	}
	free(res->workers);
	free(res->paths);
	series_fini(&res->series);
	memset(res, 0, sizeof(*res));
}

/* ---------------------------------------------------------------------- run */

static int io_steps(struct io_run *run, struct penstock_err *err)
{
	const struct io_job *job = run->job;
	unsigned turns = io_turns(job);
	int r = io_open(run, err);

	for (unsigned turn = 1; turn <= turns && r == 0 && !io_stopped(job); turn++) {
		r = io_turn(run, turn, turns, err);
		run->res->fresh = io_fresh_loops(run);
		/* the last one comes behind the check, which is of what the loops wrote */
		if (r == 0 && turn == turns && !io_stopped(job) && job->validate && !job->read)
			r = io_verify(run, err);
		if (r == 0 && !io_stopped(job) && job->measure_limit)
			r = io_limit(run, turn, turns, err);
	}
	if (io_stopped(job) && (r == 0 || r == -ECANCELED))
		r = penstock_fail(err, -ECANCELED, "interrupted");
	return r;
}

int io_job_run(const struct io_job *job, struct io_result *result, struct penstock_err *err)
{
	struct io_run run = {.job = job, .res = result};
	struct penstock_err local;
	int r;

	memset(result, 0, sizeof(*result));
	err = err ? err : &local;
	r = io_steps(&run, err);
	result->partial = r < 0;
	if ((r == 0 || (r == -ECANCELED && io_stopped(job))) && io_sum(&run, err) < 0)
		r = err->code;
	bed_buffers_close(&run.buffers);
	if (r == 0 && job->share.on)
		rank_barrier_wait(); /* others may be reading what is removed now */
	if (run.files.job)
		io_files_fini(&run.files);
	free(run.handles);
	free(run.issued);
	free(run.again);
	if (r < 0 && !(r == -ECANCELED && io_stopped(job)))
		io_result_fini(result);
	return r;
}
