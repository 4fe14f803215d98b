/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of a bench job: what each file holds, and the operations on them.  A file's
 * content follows from its number and, where only one operation is in flight, from
 * how often it was written, so that a write that was lost is noticed too.
 */
#include "load/jobs/bench_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/random.h"
#include "load/measure/page_cache.h"

/* Only one operation at a time on whole files: then each write can have its own content. */
static bool versions_are_known(const struct bench_job *job)
{
	return !job->random && job->in_flight == 1;
}

int bench_files_init(struct bench_files *f, const struct bench_job *job,
		     const struct bed_folder *folder, uint64_t size, unsigned first,
		     struct penstock_err *err)
{
	unsigned nr = bench_nr_files(job, size);
	char name[32];
	int r = 0;

	*f = (struct bench_files){
		.job = job, .size = size, .bytes = job->random ? job->span / size * size : size};
	f->files = calloc(nr, sizeof(*f->files));
	f->paths = calloc(nr, sizeof(*f->paths));
	if (!f->files || !f->paths)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (job->share.on) {
		snprintf(name, sizeof(name), "tensors-%" PRIu64, size);
		r = bed_files_share(f->files, nr, f->bytes, folder, &job->share, name, err);
	}
	for (; f->nr < nr && r == 0; f->nr++) {
		struct bed_file *file = &f->files[f->nr];

		if (!job->share.on)
			r = bed_file_init(file, folder, f->bytes, err, "tensor-%u", first + f->nr);
		if (r == 0 && !job->share.on)
			r = bed_file_make(file, err);
		f->paths[f->nr] = file->open_path;
		/* Each write of it adds one, where that is clear. */
		file->seed = (job->seed + 1) * 0x9e3779b97f4a7c15ull +
			     ((uint64_t)(f->nr + job->share.rank * nr) << 32);
	}
	return r;
}

void bench_files_fini(struct bench_files *f)
{
	for (unsigned i = 0; i < f->nr; i++)
		bed_file_fini(&f->files[i], false);
	free(f->files);
	free(f->paths);
	*f = (struct bench_files){.nr = 0};
}

/* ------------------------------------------------------- filling, verifying */

/* What the caller of the job is told while it happens. */
struct progress {
	const struct bench_files *files;
	enum bench_step step;
};

static void on_piece(void *arg, uint64_t bytes)
{
	const struct progress *t = arg;
	const struct bench_job *job = t->files->job;

	job->progress(job->progress_arg, t->step, t->files->size, bytes,
		      t->files->nr * t->files->bytes);
}

static struct bed_file_work work_of(const struct progress *progress, uint64_t bytes)
{
	const struct bench_job *job = progress->files->job;

	return (struct bed_file_work){job->stop, bytes, job->progress ? on_piece : NULL,
				      (void *)(uintptr_t)progress};
}

int bench_files_fill(struct bench_files *f, uint64_t *written, struct penstock_err *err)
{
	struct progress progress = {f, BENCH_PREPARE};
	struct bed_file_work work = work_of(&progress, *written);
	int r = bed_files_fill(f->files, f->nr, &work, err);

	*written = work.bytes;
	return r;
}

int bench_files_verify(struct bench_files *f, uint64_t *verified, struct penstock_err *err)
{
	struct progress progress = {f, BENCH_VERIFY};
	struct bed_file_work work = work_of(&progress, *verified);
	int r = bed_files_verify(f->files, f->nr, &work, err);

	*verified = work.bytes;
	return r;
}

/* ------------------------------------------------------------------- source */

static int bench_next(void *arg, unsigned worker, struct load_op *op, struct penstock_err *err)
{
	struct bench_source *s = arg;
	const struct bench_job *job = s->job;
	uint64_t i = s->issued, size = s->files->size;
	bool warmup = i < s->warm_end;

	(void)worker;
	(void)err;
	if (!job->runtime_ns && i == s->end)
		return 0;
	s->issued++;
	*op = (struct load_op){
		.read = job->rwmix ? penstock_random_below(&s->random, 100) < job->rwmix : s->read,
		.warmup = warmup,
		.file = (uint32_t)(i % s->nr_files),
		.offset = job->random
				  ? penstock_random_below(&s->random, s->files->bytes / size) * size
				  : 0,
		.len = size,
		.tag = i,
	};
	op->series = job->rwmix && !op->read;
	/* After its share of the time, not before it: whenever that ends, no more was moved. */
	if (job->rate && !warmup)
		op->not_before = bench_turn_ns(job, size, i - s->warm_end + 1);
	return 1;
}

static int bench_prepare(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct bench_source *s = arg;
	struct bed_file *f = &s->files->files[op->file];

	if (op->read) {
		if (!s->files->direct) /* a file that was written may be all in memory */
			page_cache_add(&s->facts, page_cache_drop(f->open_path, f->from, f->len));
		return s->job->verify ? bed_buf_poison(s->buffers, buf, op->len, err) : 0;
	}
	if (!s->job->overwrite && f->full && !bed_file_remote(f) && truncate(f->open_path, 0) < 0)
		return penstock_fail(err, -errno, "%s: cannot empty: %s", f->path,
				     penstock_strerror(errno));
	f->full = s->job->overwrite;
	f->seed += versions_are_known(s->job);
	if (!s->job->verify)
		return 0;
	return bed_buf_fill(s->buffers, buf, op->len, f->seed, f->from + op->offset, err);
}

static int bench_finish(void *arg, const struct load_op *op, void *buf, struct penstock_err *err)
{
	struct bench_source *s = arg;
	struct bed_file *f = &s->files->files[op->file];
	int r;

	if (!op->read) {
		f->full = true;
		return 0;
	}
	if (!s->job->verify)
		return 0;
	r = bed_buf_check(s->buffers, buf, op->len, f->seed, f->from + op->offset, f->path, err);
	if (r == 0)
		atomic_fetch_add(&s->verified, op->len);
	return r;
}

struct op_source bench_source(struct bench_source *s)
{
	const struct bench_job *job = s->job;
	bool writes = job->rwmix || !s->read, reads = job->rwmix || s->read;
	bool hooks = job->verify || (writes && !job->overwrite) || (reads && !s->files->direct);

	/* Where there is nothing to do, not even the time of a call. */
	return (struct op_source){bench_next, hooks ? bench_prepare : NULL,
				  hooks ? bench_finish : NULL, s};
}
