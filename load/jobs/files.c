/* SPDX-License-Identifier: Apache-2.0 */
#include "load/jobs/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <sluice/probe.h>

#include "base/err.h"
#include "base/random.h"
#include "base/size.h"
#include "base/util.h"
#include "load/jobs/io.h"
#include "load/measure/ram.h"

/* How much of each end of a file is compared to tell whose it is. */
#define OWN_BYTES 4096

unsigned files_per_worker(const struct io_job *job)
{
	return job->different_file ? job->loops + job->warmup : 1;
}

/* FNV-1a of the name: files that changed names do not look right. */
static uint64_t name_hash(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
	return h;
}

/* Do @len bytes at @offset hold the pattern? */
static bool holds_pattern(int fd, uint64_t pattern, uint64_t offset, size_t len)
{
	unsigned char buf[OWN_BYTES];

	return pread(fd, buf, len, (off_t)offset) == (ssize_t)len &&
	       sluice_pattern_check(buf, len, pattern, offset) == len;
}

static bool file_is_ours(const struct job_file *f, uint64_t size)
{
	CLEANUP_CLOSE int fd = open(f->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	size_t n = (size_t)min_u64(size, OWN_BYTES);

	return fd >= 0 && holds_pattern(fd, f->pattern, 0, n) &&
	       holds_pattern(fd, f->pattern, size - n, n);
}

/* Why the job must not use a file that is there and not ours; 0 when it may. */
static int file_refuse(const struct job_file *f, const struct io_job *job, const struct stat *st,
		       struct sluice_err *err)
{
	if (!S_ISREG(st->st_mode))
		return sluice_fail(err, -EEXIST, "%s: exists and is not a regular file", f->path);
	if (job->overwrite)
		return 0;
	if (!job->read)
		return sluice_fail(
			err, -EEXIST,
			"%s: exists and does not hold the data of this job (seed %" PRIu64
			"); remove it, or allow --overwrite",
			f->path, job->seed);
	if ((uint64_t)st->st_size != job->io_size)
		return sluice_fail(err, -EEXIST,
				   "%s: exists and has %lld bytes, not %" PRIu64
				   "; remove it, or allow --overwrite",
				   f->path, (long long)st->st_size, job->io_size);
	if (job->validate)
		return sluice_fail(
			err, -EEXIST,
			"%s: exists and does not hold the data of this job (seed %" PRIu64
			"), so --validate has nothing to compare; remove it, or allow "
			"--overwrite",
			f->path, job->seed);
	return 0;
}

int file_init(struct job_file *f, const struct io_job *job, unsigned tid, unsigned index,
	      struct sluice_err *err)
{
	const char *folder = job->places[tid].folder;
	struct stat st;

	if (asprintf(&f->path, "%s/_aio_%s_%" PRIu64 ".pt.%u_%u", folder,
		     job->read ? "read" : "write", job->io_size, tid, index) < 0) {
		f->path = NULL;
		return sluice_fail(err, -ENOMEM, "out of memory");
	}
	f->pattern = name_hash(strrchr(f->path, '/') + 1) ^ job->seed * 0x9e3779b97f4a7c15ull;
	if (lstat(f->path, &st) < 0) {
		if (errno == ENOENT)
			return 0;
		return sluice_fail(err, -errno, "%s: %s", f->path, sluice_strerror(errno));
	}
	f->exists = true;
	f->had = min_u64((uint64_t)st.st_size, job->io_size);
	f->ours = S_ISREG(st.st_mode) && (uint64_t)st.st_size == job->io_size &&
		  file_is_ours(f, job->io_size);
	return f->ours ? 0 : file_refuse(f, job, &st, err);
}

int file_create(struct job_file *f, struct sluice_err *err)
{
	int how = f->exists ? O_TRUNC | O_NOFOLLOW : O_CREAT | O_EXCL;
	int fd = open(f->path, O_WRONLY | O_CLOEXEC | how, 0600);

	if (fd < 0)
		return sluice_fail(err, -errno, "%s: cannot create: %s", f->path,
				   sluice_strerror(errno));
	f->created = !f->exists;
	close(fd);
	return 0;
}

void file_fini(struct job_file *f, const struct io_job *job)
{
	if (f->created && !job->keep)
		unlink(f->path);
	free(f->path);
	memset(f, 0, sizeof(*f));
}

/* What the files of worker @tid will take beyond what they have. */
static uint64_t worker_needs(const struct io_job *job, const struct job_file *files, unsigned tid)
{
	unsigned n = files_per_worker(job);
	uint64_t need = 0;

	for (unsigned i = 0; i < n; i++)
		need += job->io_size - files[(size_t)tid * n + i].had;
	return need;
}

static bool same_fs(const char *a, const char *b)
{
	struct stat sa, sb;

	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev;
}

/* Negative when the file system does not say. */
static int64_t free_bytes(const char *folder)
{
	struct statvfs v;

	if (statvfs(folder, &v) < 0)
		return -errno;
	if (!v.f_blocks)
		return -ENODATA;
	return (int64_t)min_u64((uint64_t)v.f_bavail * v.f_frsize, INT64_MAX);
}

int files_room(const struct io_job *job, const struct job_file *files, struct sluice_err *err)
{
	for (unsigned i = 0; i < job->nr_places; i++) {
		const char *folder = job->places[i].folder;
		char need_text[SLUICE_SIZE_TEXT], have_text[SLUICE_SIZE_TEXT];
		int64_t have = free_bytes(folder);
		uint64_t need = 0;

		/* Workers on one file system share its room; in the end each was counted. */
		for (unsigned k = 0; k <= i; k++)
			if (k == i || same_fs(folder, job->places[k].folder))
				need += worker_needs(job, files, k);
		if (have < 0 || need <= (uint64_t)have)
			continue;
		return sluice_fail(err, -ENOSPC,
				   "%s: not enough free space: %s (%" PRIu64
				   " bytes) needed, %s (%" PRId64 " bytes) available",
				   folder, sluice_size_format(need_text, need), need,
				   sluice_size_format(have_text, (uint64_t)have), have);
	}
	return 0;
}

int memory_room(const struct io_job *job, struct sluice_err *err)
{
	char need_text[SLUICE_SIZE_TEXT], have_text[SLUICE_SIZE_TEXT];
	uint64_t have = ram_available(), need;

	if (__builtin_mul_overflow(job->io_size, (uint64_t)job->nr_places, &need))
		need = UINT64_MAX;
	if (!have || need <= have)
		return 0;
	return sluice_fail(err, -ENOMEM,
			   "not enough memory: %s needed for %u buffer%s, %s available",
			   sluice_size_format(need_text, need), job->nr_places,
			   job->nr_places == 1 ? "" : "s", sluice_size_format(have_text, have));
}

uint64_t io_job_default_size(const struct io_job *job)
{
	uint64_t workers = job->nr_places, files = workers * files_per_worker(job);
	uint64_t size = 1ull << 30, memory = ram_available();

	for (unsigned i = 0; i < job->nr_places; i++) {
		int64_t room = free_bytes(job->places[i].folder);

		if (room >= 0)
			size = min_u64(size, (uint64_t)room / 2 / files);
	}
	if (memory)
		size = min_u64(size, memory / 4 / workers);
	return max_u64(align_down(size, 1u << 20), 1u << 20);
}
