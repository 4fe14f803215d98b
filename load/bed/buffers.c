/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of a stream: host memory of three kinds, and memory of the first GPU. */
#include "load/bed/buffers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <sluice/gpu.h>
#include <sluice/probe.h>

#include "base/err.h"
#include "base/random.h"
#include "base/size.h"
#include "base/util.h"

#define PAGE_BYTES 4096
#define HUGE_BYTES (2u << 20)
#define POISON     0x5a
#define STAGE_MAX  (16u << 20)

const char *const bed_memory_words[] = {"own", "plain", "odd", "gpu", NULL};
const char *const bed_host_words[] = {"own", "plain", "odd", NULL};

static int own_open(struct bed_buffers *b, uint32_t huge, bool lock, struct sluice_err *err)
{
	int r = sluice_mem_alloc(&b->map, b->map_len, huge, lock ? SLUICE_BUF_LOCKED : 0, &b->info,
				 err);

	b->first = b->map;
	return r;
}

/* Ordinary memory of small pages, to see what callers without our buffers get. */
static int plain_open(struct bed_buffers *b, bool lock, struct sluice_err *err)
{
	void *m =
		mmap(NULL, b->map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return sluice_fail(err, -errno, "no memory for buffers: %s",
				   sluice_strerror(errno));
	b->map = m;
	b->first = (char *)m + (b->memory == BED_ODD);
	b->info.page = PAGE_BYTES;
	madvise(m, b->map_len, MADV_NOHUGEPAGE);
	if (lock && mlock(m, b->map_len) == 0)
		b->info.got = SLUICE_BUF_LOCKED;
	else if (lock)
		snprintf(b->info.note, sizeof(b->info.note), "not locked: %s",
			 sluice_strerror(errno));
	return 0;
}

int bed_gpu_check(struct sluice_err *err)
{
	struct sluice_gpu_device d = {.size = sizeof(d)};
	struct sluice_err why;
	int r = sluice_probe_gpu_device(0, &d, &why);

	return r < 0 ? sluice_fail(err, r, "no GPU memory: %s", why.msg) : 0;
}

static int gpu_open(struct bed_buffers *b, struct sluice_err *err)
{
	void *m;
	int r = sluice_gpu_alloc(&b->map, 0, b->map_len, err);

	if (r < 0)
		return r;
	b->first = b->map;
	b->stage_len = min_u64(b->len, STAGE_MAX);
	m = mmap(NULL, b->stage_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return sluice_fail(err, -errno, "no memory for buffers: %s",
				   sluice_strerror(errno));
	b->stage = m;
	return 0;
}

int bed_buffers_open(struct bed_buffers *b, uint32_t memory, uint64_t len, unsigned nr,
		     uint32_t huge, bool lock, struct sluice_err *err)
{
	char size[SLUICE_SIZE_TEXT];

	*b = (struct bed_buffers){.memory = memory, .len = len, .nr = nr};
	/* Room for an odd address; a large buffer begins on a huge page of its own. */
	b->step = align_up(len + 1, len < HUGE_BYTES ? PAGE_BYTES : HUGE_BYTES);
	if (memory == BED_OWN || memory == BED_GPU)
		b->step = align_up(len, len < HUGE_BYTES ? PAGE_BYTES : HUGE_BYTES);
	if (b->step < len || __builtin_mul_overflow(b->step, (uint64_t)nr, &b->map_len))
		return sluice_fail(err, -ENOMEM, "no memory for %u buffers of %s", nr,
				   sluice_size_format(size, len));
	if (memory == BED_GPU)
		return gpu_open(b, err);
	return memory == BED_OWN ? own_open(b, huge, lock, err) : plain_open(b, lock, err);
}

void bed_buffers_close(struct bed_buffers *b)
{
	if (b->map && b->memory == BED_OWN)
		sluice_mem_free(b->map, b->map_len);
	else if (b->map && b->memory == BED_GPU)
		sluice_gpu_free(b->map);
	else if (b->map)
		munmap(b->map, b->map_len);
	if (b->stage)
		munmap(b->stage, b->stage_len);
	b->map = NULL;
	b->stage = NULL;
}

/* Only cuFile gains from knowing device memory in advance. */
static bool registers(const struct bed_buffers *b, struct sluice_io *io)
{
	struct sluice_stats stats = {.size = sizeof(stats)};

	if (b->memory != BED_GPU)
		return b->memory == BED_OWN;
	return sluice_get_stats(io, &stats) == 0 && !strcmp(stats.engine, "cufile");
}

int bed_buffers_register(const struct bed_buffers *b, struct sluice_io *io,
			 struct sluice_buf_info *info, struct sluice_err *err)
{
	uint32_t had = b->info.got & (SLUICE_BUF_HUGE | SLUICE_BUF_LOCKED);
	int r;

	*info = b->info;
	if (!registers(b, io))
		return 0;
	r = sluice_buf_register(io, b->map, b->map_len, had & SLUICE_BUF_HUGE, info, err);
	info->got |= had;
	if (!info->note[0])
		memcpy(info->note, b->info.note, sizeof(info->note));
	return r;
}

void bed_buffers_unregister(const struct bed_buffers *b, struct sluice_io *io)
{
	if (registers(b, io))
		sluice_buf_unregister(io, b->map);
}

/* Host memory the program may look at, for @len bytes of @buf: itself, or the window. */
static uint64_t window(const struct bed_buffers *b, void *buf, uint64_t len, char **ret)
{
	bool device = b && b->memory == BED_GPU;

	*ret = device ? b->stage : buf;
	return device ? min_u64(len, b->stage_len) : len;
}

static int put(const struct bed_buffers *b, void *buf, const char *host, uint64_t len,
	       struct sluice_err *err)
{
	return host == buf ? 0 : sluice_gpu_copy(buf, b->stage, len, err);
}

int bed_buf_fill(const struct bed_buffers *b, void *buf, uint64_t len, uint64_t seed,
		 uint64_t offset, struct sluice_err *err)
{
	int r = 0;
	uint64_t n;

	for (uint64_t at = 0; at < len && r == 0; at += n) {
		char *host, *to = (char *)buf + at;

		n = window(b, to, len - at, &host);
		sluice_pattern_fill(host, n, seed, offset + at);
		r = put(b, to, host, n, err);
	}
	return r;
}

int bed_buf_poison(const struct bed_buffers *b, void *buf, uint64_t len, struct sluice_err *err)
{
	int r = 0;
	uint64_t n;

	for (uint64_t at = 0; at < len && r == 0; at += n) {
		char *host, *to = (char *)buf + at;

		n = window(b, to, len - at, &host);
		memset(host, POISON, n);
		r = put(b, to, host, n, err);
	}
	return r;
}

static int check_host(const char *host, uint64_t len, uint64_t seed, uint64_t offset,
		      const char *name, struct sluice_err *err)
{
	size_t at = sluice_pattern_check(host, len, seed, offset);
	unsigned char right;

	if (at == len)
		return 0;
	sluice_pattern_fill(&right, 1, seed, offset + at);
	return sluice_fail(err, -EBADMSG,
			   "verification failed: %s: offset %llu holds 0x%02x, should be 0x%02x",
			   name, (unsigned long long)(offset + at), (unsigned char)host[at], right);
}

int bed_buf_check(const struct bed_buffers *b, void *buf, uint64_t len, uint64_t seed,
		  uint64_t offset, const char *name, struct sluice_err *err)
{
	int r = 0;
	uint64_t n;

	for (uint64_t at = 0; at < len && r == 0; at += n) {
		char *host, *from = (char *)buf + at;

		n = window(b, from, len - at, &host);
		if (host != from)
			r = sluice_gpu_copy(host, from, n, err);
		if (r == 0)
			r = check_host(host, n, seed, offset + at, name, err);
	}
	return r;
}
