/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of a bench job: what each file holds, and the operations on them.  A file's
 * content follows from its number and, where only one operation is in flight, from
 * how often it was written, so that a write that was lost is noticed too.
 */
#include "load/jobs/bench_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "load/measure/cache.h"

#define CHUNK (8u << 20) /* for filling and verifying files */

int bench_stopped(const struct bench_job *job, struct sluice_err *err)
{
	if (job->stop && atomic_load(job->stop))
		return sluice_fail(err, -ECANCELED, "interrupted");
	return 0;
}

/* Only one operation at a time on whole files: then each write can have its own content. */
static bool versions_are_clear(const struct bench_job *job)
{
	return !job->random && job->in_flight == 1;
}

static uint64_t pattern(const struct bench_files *f, unsigned file)
{
	return (f->job->seed + 1) * 0x9e3779b97f4a7c15ull + ((uint64_t)file << 32) +
	       (versions_are_clear(f->job) ? f->version[file] : 0);
}

/* ------------------------------------------------------------------- making */

static int make_file(struct bench_files *f, unsigned i, struct sluice_err *err)
{
	int fd;

	if (asprintf(&f->paths[i], "%s/tensor-%u", f->dir, f->first + i) < 0) {
		f->paths[i] = NULL;
		return sluice_fail(err, -ENOMEM, "out of memory");
	}
	fd = open(f->paths[i], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return sluice_fail(err, -errno, "%s: cannot create: %s", f->paths[i],
				   sluice_strerror(errno));
	close(fd);
	return 0;
}

int bench_files_init(struct bench_files *f, const struct bench_job *job, const char *dir,
		     uint64_t size, unsigned first, struct sluice_err *err)
{
	unsigned nr = bench_nr_files(job, size);
	int r = 0;

	*f = (struct bench_files){.job = job,
				  .dir = dir,
				  .first = first,
				  .size = size,
				  .bytes = job->random ? job->span / size * size : size};
	f->paths = calloc(nr, sizeof(*f->paths));
	f->version = calloc(nr, sizeof(*f->version));
	f->full = calloc(nr, sizeof(*f->full));
	if (!f->paths || !f->version || !f->full)
		return sluice_fail(err, -ENOMEM, "out of memory");
	for (; f->nr < nr && r == 0; f->nr++)
		r = make_file(f, f->nr, err);
	return r;
}

void bench_files_fini(struct bench_files *f)
{
	for (unsigned i = 0; f->paths && i < f->nr; i++) {
		if (f->paths[i])
			unlink(f->paths[i]);
		free(f->paths[i]);
	}
	free(f->paths);
	free(f->version);
	free(f->full);
	*f = (struct bench_files){.nr = 0};
}

/* ------------------------------------------------------- filling, verifying */

/* Move file @i in pieces between disk and @buf, which holds what it should. */
static int each_chunk(struct bench_files *f, struct sluice_io *io, char *buf, unsigned i, bool read,
		      struct sluice_err *err)
{
	struct sluice_file *file;
	int r = sluice_file_open(&file, io, f->paths[i], O_RDWR, 0, err);
	uint64_t n;

	for (uint64_t off = 0; r == 0 && off < f->bytes; off += n) {
		int64_t moved;

		n = min_u64(CHUNK, f->bytes - off);
		if (!read)
			sluice_pattern_fill(buf, n, pattern(f, i), off);
		moved = read ? sluice_pread(file, buf, n, off, err)
			     : sluice_pwrite(file, buf, n, off, err);
		if (moved < 0)
			r = (int)moved;
		else if ((uint64_t)moved != n)
			r = sluice_fail(err, -ENODATA, "%s: ends at offset %llu", f->paths[i],
					(unsigned long long)(off + (uint64_t)moved));
		else if (read)
			r = bed_buf_check(NULL, buf, n, pattern(f, i), off, f->paths[i], err);
		if (r == 0)
			r = bench_stopped(f->job, err);
	}
	if (r == 0)
		r = sluice_file_close(file, err);
	return r;
}

static int all_files(struct bench_files *f, bool read, uint64_t *bytes, struct sluice_err *err)
{
	struct sluice_io *io;
	void *buf;
	int r = sluice_open(&io, NULL, err);

	if (r < 0)
		return r;
	r = sluice_buf_alloc(&buf, io, CHUNK, 0, NULL, err);
	for (unsigned i = 0; r == 0 && i < f->nr; i++) {
		if (f->full[i] != read)
			continue;
		if (read)
			cache_drop(f->paths[i], f->bytes);
		r = each_chunk(f, io, buf, i, read, err);
		if (r < 0)
			break;
		f->full[i] = true;
		*bytes += f->bytes;
		if (f->job->progress)
			f->job->progress(f->job->progress_arg, read ? BENCH_VERIFY : BENCH_PREPARE,
					 f->size, *bytes, f->nr * f->bytes);
	}
	sluice_close(io, NULL);
	return r;
}

int bench_files_fill(struct bench_files *f, uint64_t *written, struct sluice_err *err)
{
	return all_files(f, false, written, err);
}

int bench_files_verify(struct bench_files *f, uint64_t *verified, struct sluice_err *err)
{
	return all_files(f, true, verified, err);
}

/* ------------------------------------------------------------------- source */

static int next(void *arg, unsigned worker, struct load_op *op, struct sluice_err *err)
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
		.read = job->rwmix ? sluice_random_below(&s->random, 100) < job->rwmix : s->read,
		.warmup = warmup,
		.file = (uint32_t)(i % s->nr_files),
		.offset = job->random
				  ? sluice_random_below(&s->random, s->files->bytes / size) * size
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

/* What the kernel had of the file in memory; a file that was written may be all there. */
static void drop_cache(struct bench_source *s, unsigned file)
{
	int64_t left = cache_drop(s->files->paths[file], s->files->bytes);

	if (left < 0)
		s->unknown = left;
	else if (left > s->resident)
		s->resident = left;
}

static int prepare(void *arg, const struct load_op *op, void *buf, struct sluice_err *err)
{
	struct bench_source *s = arg;
	struct bench_files *f = s->files;

	if (op->read) {
		if (!f->direct)
			drop_cache(s, op->file);
		return s->job->verify ? bed_buf_poison(s->buffers, buf, op->len, err) : 0;
	}
	if (!s->job->overwrite && f->full[op->file] && truncate(f->paths[op->file], 0) < 0)
		return sluice_fail(err, -errno, "%s: cannot empty: %s", f->paths[op->file],
				   sluice_strerror(errno));
	f->full[op->file] = s->job->overwrite;
	f->version[op->file]++;
	if (!s->job->verify)
		return 0;
	return bed_buf_fill(s->buffers, buf, op->len, pattern(f, op->file), op->offset, err);
}

static int finish(void *arg, const struct load_op *op, void *buf, struct sluice_err *err)
{
	struct bench_source *s = arg;
	struct bench_files *f = s->files;
	int r;

	if (!op->read) {
		f->full[op->file] = true;
		return 0;
	}
	if (!s->job->verify)
		return 0;
	r = bed_buf_check(s->buffers, buf, op->len, pattern(f, op->file), op->offset,
			  f->paths[op->file], err);
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
	return (struct op_source){next, hooks ? prepare : NULL, hooks ? finish : NULL, s};
}
