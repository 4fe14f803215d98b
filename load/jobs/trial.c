/* SPDX-License-Identifier: Apache-2.0 */
/* The files and buffers of trial.h, and one configuration after the other on them. */
#include "load/jobs/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/bed/bed_check.h"
#include "load/transfers/transfers.h"

#define WARMUP (1u << 20) /* an operation that does not count: threads are awake, pages there */

int trials_check(const struct trials_job *job, unsigned kinds, struct penstock_err *err)
{
	int r = bed_check_folders(job->folders, job->nr_folders, job->file_size, err);

	return r < 0 ? r : bed_check_memory(job->op_size, (uint64_t)job->nr_folders * kinds, err);
}

/* ------------------------------------------------------------- open, close */

static int make_trial_folder(struct trials *t, unsigned i, struct penstock_err *err)
{
	int r = bed_folder_make(&t->folders[i], t->job.folders[i], t->job.name, t->job.s3, err);

	if (r == 0)
		r = bed_file_init(&t->files[i], &t->folders[i], t->job.file_size, err, "data");
	if (r < 0)
		return r;
	t->files[i].seed = t->job.seed + i;
	t->info[i].size = sizeof(t->info[i]);
	penstock_probe_path(t->folders[i].path, &t->info[i], NULL);
	return 0;
}

int trials_open(struct trials *t, const struct trials_job *job, struct penstock_err *err)
{
	int r = 0;

	*t = (struct trials){.job = *job};
	t->folders = calloc(job->nr_folders, sizeof(*t->folders));
	t->files = calloc(job->nr_folders, sizeof(*t->files));
	t->info = calloc(job->nr_folders, sizeof(*t->info));
	if (!t->folders || !t->files || !t->info)
		return penstock_fail(err, -ENOMEM, "out of memory");
	penstock_random_seed(&t->random, job->seed);
	for (unsigned i = 0; i < job->nr_folders && r == 0; i++)
		r = make_trial_folder(t, i, err);
	return r;
}

static void trials_on_fill(void *arg, uint64_t bytes)
{
	struct trials *t = arg;

	t->job.progress(t->job.progress_arg, bytes, t->job.nr_folders * t->job.file_size);
}

int trials_fill(struct trials *t, struct penstock_err *err)
{
	struct bed_file_work work = {
		.stop = t->job.stop, .progress = t->job.progress ? trials_on_fill : NULL, .arg = t};
	uint64_t start = clock_ns();
	int r = 0;

	for (unsigned i = 0; i < t->job.nr_folders && r == 0; i++)
		r = bed_file_make(&t->files[i], err);
	if (r == 0)
		r = bed_files_fill(t->files, t->job.nr_folders, &work, err);
	t->written += work.bytes;
	t->fill_sec = (double)(clock_ns() - start) / 1e9;
	return r;
}

void trials_close(struct trials *t)
{
	for (unsigned i = 0; t->folders && t->files && i < t->job.nr_folders; i++) {
		bed_file_fini(&t->files[i], false);
		bed_folder_close(&t->folders[i], false);
	}
	for (unsigned i = 0; i <= BED_GPU; i++)
		bed_buffers_close(&t->buffers[i]);
	free(t->folders);
	free(t->files);
	free(t->info);
	*t = (struct trials){.written = 0};
}

static int open_buffers(struct trials *t, uint32_t memory, struct penstock_err *err)
{
	struct bed_buffers *b = &t->buffers[memory];
	struct bed_buffers_opts want = {.memory = memory,
					.len = t->job.op_size,
					.nr = t->job.nr_folders,
					.huge = t->job.huge,
					.lock = t->job.lock};
	int r;

	if (b->bufs)
		return 0;
	r = bed_buffers_open(b, &want, err);
	/* Written back is what the file holds, or other parts of the same pattern. */
	for (unsigned i = 0; i < want.nr && r == 0; i++)
		r = bed_buf_fill(b, b->bufs[i], want.len, t->files[i].seed, 0, err);
	return r;
}

/* ------------------------------------------------------------------ a trial */

struct trial_source {
	struct trials *trials;
	const struct trial *how;
	unsigned *done; /* per worker */
};

static int trial_next(void *arg, unsigned worker, struct load_op *op, struct penstock_err *err)
{
	struct trial_source *s = arg;
	const struct trials_job *job = &s->trials->job;
	uint64_t places = job->file_size / job->op_size;

	(void)err;
	if (s->done[worker] == s->how->ops + !job->rounds)
		return 0;
	*op = (struct load_op){
		.read = s->how->read,
		.warmup = !job->rounds && s->done[worker] == 0,
		.file = worker,
		.len = job->op_size,
		.offset = penstock_random_below(&s->trials->random, places) * job->op_size,
	};
	if (op->warmup)
		op->len = min_u64(WARMUP, op->len);
	s->done[worker]++;
	return 1;
}

static int trial_finish(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct trial_source *s = arg;

	(void)buf;
	(void)err;
	s->how->worker_sec[op->file] = (double)op->took_ns / 1e9;
	return 0;
}

/* As cold as can be had: our files always, everything where that was asked for. */
static void trials_drop_caches(struct trials *t, struct page_cache_facts *f)
{
	int fd = -1;

	for (unsigned i = 0; i < t->job.nr_folders; i++)
		page_cache_add(f, page_cache_drop(t->files[i].open_path, 0, t->files[i].len));
	if (!t->job.flush)
		return;
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	sync();
	if (fd >= 0 && write(fd, "1", 1) < 0)
		page_cache_add(f, -errno);
	penstock_cleanup_close(&fd);
}

int trial_once(struct trials *t, struct trial *how, struct run_series *one,
	       struct penstock_err *err)
{
	const struct trials_job *job = &t->job;
	CLEANUP_FREE unsigned *done = calloc(job->nr_folders, sizeof(*done));
	struct trial_source source = {t, how, done};
	struct transfers_job work = {
		.source = {.next = trial_next,
			   .finish = how->worker_sec ? trial_finish : NULL,
			   .arg = &source},
		.files = t->files,
		.nr_files = job->nr_folders,
		.open_each = job->rounds,
		.rounds = job->rounds,
		.workers = job->nr_folders,
		.depth = 1,
		.opts = how->opts,
		.buffers = &t->buffers[how->memory],
		.nr_series = 1,
		.stop = job->stop,
		.progress = job->tick,
		.progress_arg = job->progress_arg,
	};
	int r = done ? open_buffers(t, how->memory, err)
		     : penstock_fail(err, -ENOMEM, "out of memory");

	if (r < 0)
		return r;
	how->facts = (struct page_cache_facts){
		.size = job->file_size, .durable = how->opts.durability != PENSTOCK_DURABLE_NONE};
	if (how->read)
		trials_drop_caches(t, &how->facts);
	r = run_transfers(&work, one, err);
	one->read = how->read;
	t->written += series_wear(one);
	page_cache_describe(one, &how->facts, t->info, job->nr_folders);
	if (!how->read && job->rounds) /* leave nothing to the next */
		for (unsigned i = 0; i < job->nr_folders; i++)
			page_cache_drop(t->files[i].open_path, 0, job->file_size);
	return r < 0 ? r : penstock_check_stop(job->stop, err);
}

/* ------------------------------------------------------------- their sum */

uint64_t trial_bytes(const struct trials_job *job, unsigned ops)
{
	return job->nr_folders * (job->op_size * ops + min_u64(WARMUP, job->op_size));
}

/*
 * Add a probe to what is known of its configuration; its time comes behind what there
 * is.  A probe has few operations, so all of them are among its samples.
 */
static int trial_add(struct run_series *sum, const struct run_series *one)
{
	uint64_t before = (uint64_t)(sum->sec * 1e9);
	int r = sum->hist ? 0 : series_init(sum);

	for (uint64_t i = 0; i < series_kept(one) && r == 0; i++) {
		const struct series_sample *s = series_sample(one, i);

		r = series_add(sum, s->bytes, s->latency_ns, before + s->end_ns);
	}
	sum->warmup_bytes += one->warmup_bytes;
	sum->done_flags |= one->done_flags;
	sum->no_storage = one->no_storage;
	sum->sec += one->sec;
	sum->user_sec += one->user_sec;
	sum->system_sec += one->system_sec;
	sum->library_sec += one->library_sec;
	sum->run_bytes += one->run_bytes;
	sum->stats = one->stats;
	sum->file = one->file;
	sum->buf = one->buf;
	sum->partial |= one->partial;
	snprintf(sum->cache, sizeof(sum->cache), "%s", one->cache);
	return r;
}

int trial_run(struct trials *t, const struct penstock_opts *opts, uint32_t memory, bool read,
	      unsigned ops, struct run_series *sum, struct trial_numbers *last,
	      struct penstock_err *err)
{
	struct trial how = {.opts = *opts, .memory = memory, .read = read, .ops = ops};
	struct run_series one = {.read = read};
	struct stat_summary latency;
	bool exact;
	int r = trial_once(t, &how, &one, err);

	if (r == 0 && last) {
		*last = (struct trial_numbers){.speed = series_speed(&one),
					       .cpu = series_cpu_per_gib(&one)};
		if (series_latency(&one, &latency, &exact) == 0)
			last->p99 = latency.percentile[STAT_P99];
	}
	if (one.hist && (r == 0 || r == -ECANCELED) && trial_add(sum, &one) < 0)
		r = penstock_fail(err, -ENOMEM, "out of memory");
	series_fini(&one);
	return r;
}

/* -------------------------------------------------------------------- limit */

int trials_limit(struct trials *t, struct limit *l, struct limit_schedule schedule,
		 struct penstock_err *err)
{
	unsigned nr = t->job.nr_folders;
	CLEANUP_FREE struct limit_target *targets = calloc(nr, sizeof(*targets));
	const struct bed_buffers *b = &t->buffers[BED_OWN];
	uint64_t before = l->moved;
	int r = targets ? open_buffers(t, BED_OWN, err)
			: penstock_fail(err, -ENOMEM, "out of memory");

	if (r < 0)
		return r;
	for (unsigned i = 0; i < nr; i++)
		targets[i] = (struct limit_target){
			.paths = (const char *const *)&t->files[i].open_path,
			.nr_paths = 1,
			.len = t->job.file_size,
			.buf = b->bufs[i],
			.nr_bufs = 1,
			.buf_len = b->want.len,
			.align = 4096,
			.s3 = t->files[i].folder->s3,
		};
	schedule.max_bytes = l->read ? 0 : schedule.max_bytes;
	limit_run_due(l, targets, nr, &schedule, t->job.stop);
	t->written += l->read ? 0 : l->moved - before;
	return 0;
}
