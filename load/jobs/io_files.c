/* SPDX-License-Identifier: Apache-2.0 */
#include "load/jobs/io_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/bed/bed_check.h"
#include "load/measure/limit.h"
#include "load/measure/ram.h"

/* FNV-1a of the name: files that changed names do not look right. */
static uint64_t name_hash(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
	return h;
}

/* File @i of all, in @folder. */
static int io_file_name(struct io_files *f, unsigned i, const struct bed_folder *folder,
			struct penstock_err *err)
{
	struct bed_file *file = &f->all[i];
	int r = bed_file_init(file, folder, f->job->io_size, err, "_aio_%s_%" PRIu64 ".pt.%u_%u",
			      f->job->read ? "read" : "write", f->job->io_size,
			      f->job->first_target + i / f->per, i % f->per);

	if (r == 0)
		file->seed = name_hash(file->name) ^ f->job->seed * 0x9e3779b97f4a7c15ull;
	return r;
}

/* Why the job must not use a file that is there and not ours; 0 when it may. */
static int io_file_refuse(const struct bed_file *f, const struct io_job *job, bool plain,
			  struct penstock_err *err)
{
	const char *what = job->read ? ", so --verify has nothing to compare" : "";

	if (!plain)
		return penstock_fail(err, -EEXIST, "%s: exists and is not a regular file", f->path);
	if (f->full || job->overwrite)
		return 0;
	if (job->read && f->old_bytes != f->len)
		return penstock_fail(err, -EEXIST,
				     "%s: exists and has %" PRIu64 " bytes, not %" PRIu64
				     "; remove it, or allow --overwrite",
				     f->path, f->old_bytes, f->len);
	if (job->read && !job->validate)
		return 0;
	return penstock_fail(err, -EEXIST,
			     "%s: exists and does not hold the data of this job (seed %" PRIu64
			     ")%s; remove it, or allow --overwrite",
			     f->path, job->seed, what);
}

static int io_file_check_existing(struct io_files *f, unsigned i, struct penstock_err *err)
{
	struct bed_file *file = &f->all[i];
	bool plain;
	int r = io_file_name(f, i, &f->targets[i / f->per], err);

	if (r == 0)
		r = bed_file_inspect(file, &plain, err);
	if (r == 0 && file->found)
		r = io_file_refuse(file, f->job, plain, err);
	/* A stranger's file that may be read is as it should be. */
	if (f->job->read && file->found && !f->job->overwrite)
		file->full = true;
	return r;
}

int io_files_init(struct io_files *f, const struct io_job *job, struct penstock_err *err)
{
	unsigned n = job->nr_targets;
	int r = 0;

	*f = (struct io_files){.job = job,
			       .per = job->different_file ? job->loops + job->warmup : 1};
	f->all = calloc(n, f->per * sizeof(*f->all));
	f->targets = calloc(n, sizeof(*f->targets));
	f->own = calloc(n, sizeof(*f->own));
	f->made = calloc(n, sizeof(*f->made));
	if (!f->all || !f->targets || !f->own || !f->made)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < n && r == 0; i++)
		r = bed_folder_open(&f->targets[i], job->targets[i].folder, job->opts.s3, err);
	f->nr = r == 0 ? n * f->per : 0;
	for (unsigned i = 0; i < f->nr && r == 0 && !job->share.on; i++)
		r = io_file_check_existing(f, i, err);
	return r;
}

int io_files_check_space(const struct io_files *f, struct penstock_err *err)
{
	CLEANUP_FREE struct bed_need *needs = calloc(f->job->nr_targets, sizeof(*needs));

	if (!needs)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < f->nr; i++) {
		needs[i / f->per].folder = f->job->targets[i / f->per].folder;
		needs[i / f->per].bytes += f->job->io_size - f->all[i].old_bytes;
	}
	for (unsigned i = 0; f->job->share.on && i < f->job->nr_targets; i++)
		needs[i].bytes *= f->job->share.size;
	return bed_check_space(needs, f->job->nr_targets, err);
}

/* The folder of worker @w's new files, which workers in one place share. */
static int io_own_folder(struct io_files *f, unsigned w, const struct bed_folder **ret,
			 struct penstock_err *err)
{
	const struct io_target *targets = f->job->targets;
	unsigned i = 0;

	*ret = f->job->own_folder;
	if (*ret)
		return 0;
	while (strcmp(targets[i].folder, targets[w].folder) != 0)
		i++;
	*ret = &f->own[i];
	return f->own[i].path
		       ? 0
		       : bed_folder_make(&f->own[i], targets[i].folder, "io", f->job->opts.s3, err);
}

static int io_file_make(struct io_files *f, unsigned i, struct penstock_err *err)
{
	const struct bed_folder *own;
	int r = 0;

	if (!f->all[i].found && (!f->job->keep || f->job->own_folder)) {
		bed_file_fini(&f->all[i], true);
		r = io_own_folder(f, i / f->per, &own, err);
		if (r == 0)
			r = io_file_name(f, i, own, err);
	}
	f->made[i / f->per]++;
	return r < 0 ? r : bed_file_make(&f->all[i], err);
}

/* All of one file, in a folder of this run. */
static int io_files_share(struct io_files *f, struct penstock_err *err)
{
	const struct io_job *job = f->job;
	int r = bed_folder_share(&f->own[0], job->targets[0].folder, "io", &job->share, err);

	if (r == 0)
		r = bed_files_share(f->all, f->nr, job->io_size, &f->own[0], &job->share, "shared",
				    err);
	for (unsigned i = 0; i < f->nr && r == 0; i++) {
		f->all[i].seed = (job->seed + f->all[i].from) * 0x9e3779b97f4a7c15ull;
		f->made[i / f->per]++;
	}
	return r;
}

int io_files_make(struct io_files *f, struct bed_file_work *work, struct penstock_err *err)
{
	int r = f->job->share.on ? io_files_share(f, err) : 0;

	for (unsigned i = 0; i < f->nr && r == 0 && !f->job->share.on; i++)
		if (!f->all[i].full)
			r = io_file_make(f, i, err);
	if (r == 0 && f->job->read)
		r = bed_files_fill(f->all, f->nr, work, err);
	f->prepared_bytes = work->bytes;
	return r;
}

void io_files_fini(struct io_files *f)
{
	for (unsigned i = 0; i < f->nr; i++)
		bed_file_fini(&f->all[i], f->job->keep);
	for (unsigned i = 0; f->targets && f->own && i < f->job->nr_targets; i++) {
		bed_folder_close(&f->own[i], false);
		bed_folder_close(&f->targets[i], true);
	}
	free(f->all);
	free(f->targets);
	free(f->own);
	free(f->made);
}

uint64_t io_job_default_size(const struct io_job *job)
{
	uint64_t workers = job->nr_targets;
	uint64_t files = workers * (job->different_file ? job->loops + job->warmup : 1);
	uint64_t size = 1ull << 30, memory = ram_available();

	for (unsigned i = 0; i < job->nr_targets; i++) {
		int64_t free_bytes = bed_free_bytes(job->targets[i].folder);

		if (free_bytes >= 0)
			size = min_u64(size, (uint64_t)free_bytes / 2 / files);
	}
	if (memory)
		size = min_u64(size, memory / 4 / workers);
	return max_u64(align_down(size, 1u << 20), 1u << 20);
}

/* -------------------------------------------------------------------- check */

int io_job_check(const struct io_job *job, struct penstock_err *err)
{
	struct penstock_io *io;
	int r = 0;

	if (!job->nr_targets || !job->io_size || !job->loops)
		return penstock_fail(err, -EINVAL, "a job needs a folder, a size and a loop");
	if (job->loops > UINT32_MAX - job->warmup)
		return penstock_fail(err, -EINVAL, "too many loops");
	for (unsigned i = 0; i < job->nr_targets && r == 0; i++)
		r = bed_check_folder(job->targets[i].folder, !job->read, err);
	for (unsigned i = 0; job->gpu && i < job->nr_targets && r == 0; i++)
		r = bed_gpu_check(job->targets[i].device, err);
	if (r == 0)
		r = penstock_open(&io, &job->opts, err); /* the library knows its own ranges */
	return r < 0 ? r : penstock_close(io, err);
}

unsigned io_turns(const struct io_job *job)
{
	return job->measure_limit ? (unsigned)min_u64(job->loops, LIMIT_TRIES) : 1;
}

int io_job_plan(const struct io_job *job, struct io_plan *ret, struct penstock_err *err)
{
	struct io_files files;
	int r = io_files_init(&files, job, err);

	*ret = (struct io_plan){.speed = job->limit ? (double)job->limit : 1e9};
	if (r == 0)
		r = io_files_check_space(&files, err);
	if (r == 0 && !job->gpu)
		r = bed_check_memory(job->io_size, job->nr_targets, err);
	for (unsigned i = 0; i < files.nr && r == 0; i++) {
		ret->space += job->io_size - files.all[i].old_bytes;
		ret->prepares += job->read && !files.all[i].full ? job->io_size : 0;
	}
	ret->moves = (uint64_t)job->nr_targets * job->io_size *
		     (job->loops + job->warmup + (job->warmup ? io_turns(job) - 1 : 0));
	if (job->measure_limit)
		ret->limit = job->read ? 0 : limit_max_write(ret->moves);
	ret->seconds = (double)(ret->prepares + ret->moves) / ret->speed +
		       (job->measure_limit ? LIMIT_SEC : 0);
	io_files_fini(&files);
	return r;
}
