/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of workers, filled and compared in steps of the stage.  For device memory that
 * is a copy each, by another way than the transfers that are measured.
 */
#include "load/jobs/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sluice/gpu.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "load/jobs/worker.h"

#define PAGE_BYTES  4096
#define STAGE_BYTES (16u << 20)

static void *map_pages(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Ordinary memory of small pages, to see what callers without our buffers get. */
static int plain_open(struct worker *w, struct sluice_err *err)
{
	const struct io_job *job = w->run->job;

	w->map_len = job->io_size + PAGE_BYTES;
	w->map = map_pages(w->map_len);
	if (!w->map)
		return sluice_fail(err, -ENOMEM, "no memory for a buffer: %s",
				   sluice_strerror(errno));
	w->buf = (char *)w->map + (job->memory == BED_ODD);
	w->res->buf.page = PAGE_BYTES;
	madvise(w->map, w->map_len, MADV_NOHUGEPAGE);
	if (job->lock && mlock(w->map, w->map_len) == 0)
		w->res->buf.got = SLUICE_BUF_LOCKED;
	else if (job->lock)
		snprintf(w->res->buf.note, sizeof(w->res->buf.note), "not locked: %s",
			 sluice_strerror(errno));
	return 0;
}

static int own_open(struct worker *w, struct sluice_err *err)
{
	const struct io_job *job = w->run->job;
	void *p;
	int r = sluice_buf_alloc(&p, w->io, job->io_size, job->lock ? SLUICE_BUF_LOCKED : 0,
				 &w->res->buf, err);

	if (r == 0)
		w->buf = p;
	return r;
}

/* Only cuFile gains from knowing device memory in advance. */
static int device_open(struct worker *w, struct sluice_err *err)
{
	const struct io_job *job = w->run->job;
	int r = sluice_gpu_alloc(&w->device, w->res->device, job->io_size + 1, err);

	if (r < 0)
		return r;
	w->buf = (char *)w->device + (job->memory == BED_ODD);
	w->stage_len = min_u64(job->io_size, STAGE_BYTES);
	w->stage = map_pages(w->stage_len);
	if (!w->stage)
		return sluice_fail(err, -ENOMEM, "no memory for a buffer: %s",
				   sluice_strerror(errno));
	if (!job->gds || job->memory != BED_OWN)
		return 0;
	return sluice_buf_register(w->io, w->buf, job->io_size, 0, &w->res->buf, err);
}

int memory_open(struct worker *w, struct sluice_err *err)
{
	const struct io_job *job = w->run->job;
	int r;

	if (job->gpu)
		return device_open(w, err);
	r = job->memory == BED_OWN ? own_open(w, err) : plain_open(w, err);
	w->stage = w->buf;
	w->stage_len = job->io_size;
	return r;
}

void memory_close(struct worker *w)
{
	if (w->map)
		munmap(w->map, w->map_len);
	if (w->device && w->stage)
		munmap(w->stage, w->stage_len);
	sluice_gpu_free(w->device);
}

/* ----------------------------------------------------- through the stage */

static int stage_put(const struct worker *w, uint64_t offset, uint64_t len, struct sluice_err *err)
{
	return w->device ? sluice_gpu_copy(w->buf + offset, w->stage, len, err) : 0;
}

static int stage_get(const struct worker *w, uint64_t offset, uint64_t len, struct sluice_err *err)
{
	return w->device ? sluice_gpu_copy(w->stage, w->buf + offset, len, err) : 0;
}

int memory_set(struct worker *w, int byte, struct sluice_err *err)
{
	uint64_t size = w->run->job->io_size, n;
	int r = 0;

	memset(w->stage, byte, w->stage_len);
	for (uint64_t off = 0; off < size && r == 0; off += n) {
		n = min_u64(size - off, w->stage_len);
		r = stage_put(w, off, n, err);
	}
	return r;
}

int memory_fill(struct worker *w, uint64_t seed, struct sluice_err *err)
{
	uint64_t size = w->run->job->io_size, n;
	int r = 0;

	for (uint64_t off = 0; off < size && r == 0; off += n) {
		n = min_u64(size - off, w->stage_len);
		sluice_pattern_fill(w->stage, n, seed, off);
		r = stage_put(w, off, n, err);
	}
	return r;
}

int stage_check(const struct worker *w, uint64_t seed, uint64_t offset, uint64_t len,
		const char *path, struct sluice_err *err)
{
	size_t at = sluice_pattern_check(w->stage, len, seed, offset);
	unsigned char right;

	if (at == len)
		return 0;
	sluice_pattern_fill(&right, 1, seed, offset + at);
	return sluice_fail(
		err, -EBADMSG, "validation failed: %s: offset %llu holds 0x%02x, should be 0x%02x",
		path, (unsigned long long)(offset + at), (unsigned char)w->stage[at], right);
}

int memory_check(struct worker *w, uint64_t seed, const char *path, struct sluice_err *err)
{
	uint64_t size = w->run->job->io_size, n;
	int r = 0;

	for (uint64_t off = 0; off < size && r == 0; off += n) {
		n = min_u64(size - off, w->stage_len);
		r = stage_get(w, off, n, err);
		if (r == 0)
			r = stage_check(w, seed, off, n, path, err);
	}
	return r;
}

char *memory_content(struct worker *w)
{
	uint64_t size = w->run->job->io_size;

	if (w->device && !w->map) {
		w->map_len = size;
		w->map = map_pages(size);
		if (!w->map || sluice_gpu_copy(w->map, w->buf, size, NULL) < 0)
			return NULL;
	} else if (!w->device && w->map && w->buf != w->map) {
		w->stage = w->buf = memmove(w->map, w->buf, size);
	}
	return w->device ? w->map : w->buf;
}
