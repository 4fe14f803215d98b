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

const char *const pool_words[] = {"own", "plain", "odd", "gpu", NULL};

static int own_open(struct pool *p, uint32_t huge, bool lock, struct sluice_err *err)
{
	int r = sluice_mem_alloc(&p->map, p->map_len, huge, lock ? SLUICE_BUF_LOCKED : 0, &p->info,
				 err);

	p->first = p->map;
	return r;
}

/* Ordinary memory of small pages, to see what callers without our buffers get. */
static int plain_open(struct pool *p, bool lock, struct sluice_err *err)
{
	void *m =
		mmap(NULL, p->map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return sluice_fail(err, -errno, "no memory for buffers: %s",
				   sluice_strerror(errno));
	p->map = m;
	p->first = (char *)m + (p->memory == POOL_ODD);
	p->info.page = PAGE_BYTES;
	madvise(m, p->map_len, MADV_NOHUGEPAGE);
	if (lock && mlock(m, p->map_len) == 0)
		p->info.got = SLUICE_BUF_LOCKED;
	else if (lock)
		snprintf(p->info.note, sizeof(p->info.note), "not locked: %s",
			 sluice_strerror(errno));
	return 0;
}

int pool_gpu_check(struct sluice_err *err)
{
	struct sluice_gpu_device d = {.size = sizeof(d)};
	struct sluice_err why;
	int r = sluice_probe_gpu_device(0, &d, &why);

	return r < 0 ? sluice_fail(err, r, "no GPU memory: %s", why.msg) : 0;
}

static int gpu_open(struct pool *p, struct sluice_err *err)
{
	void *m;
	int r = sluice_gpu_alloc(&p->map, 0, p->map_len, err);

	if (r < 0)
		return r;
	p->first = p->map;
	p->stage_len = min_u64(p->len, STAGE_MAX);
	m = mmap(NULL, p->stage_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return sluice_fail(err, -errno, "no memory for buffers: %s",
				   sluice_strerror(errno));
	p->stage = m;
	return 0;
}

int pool_open(struct pool *p, uint32_t memory, uint64_t len, unsigned nr, uint32_t huge, bool lock,
	      struct sluice_err *err)
{
	char size[SLUICE_SIZE_TEXT];

	*p = (struct pool){.memory = memory, .len = len, .nr = nr};
	/* Room for an odd address; a large buffer begins on a huge page of its own. */
	p->step = align_up(len + 1, len < HUGE_BYTES ? PAGE_BYTES : HUGE_BYTES);
	if (memory == POOL_OWN || memory == POOL_GPU)
		p->step = align_up(len, len < HUGE_BYTES ? PAGE_BYTES : HUGE_BYTES);
	if (p->step < len || __builtin_mul_overflow(p->step, (uint64_t)nr, &p->map_len))
		return sluice_fail(err, -ENOMEM, "no memory for %u buffers of %s", nr,
				   sluice_size_format(size, len));
	if (memory == POOL_GPU)
		return gpu_open(p, err);
	return memory == POOL_OWN ? own_open(p, huge, lock, err) : plain_open(p, lock, err);
}

void pool_close(struct pool *p)
{
	if (p->map && p->memory == POOL_OWN)
		sluice_mem_free(p->map, p->map_len);
	else if (p->map && p->memory == POOL_GPU)
		sluice_gpu_free(p->map);
	else if (p->map)
		munmap(p->map, p->map_len);
	if (p->stage)
		munmap(p->stage, p->stage_len);
	p->map = NULL;
	p->stage = NULL;
}

/* Only cuFile gains from knowing device memory in advance. */
static bool registers(const struct pool *p, struct sluice_io *io)
{
	struct sluice_stats stats = {.size = sizeof(stats)};

	if (p->memory != POOL_GPU)
		return p->memory == POOL_OWN;
	return sluice_get_stats(io, &stats) == 0 && !strcmp(stats.engine, "cufile");
}

int pool_register(const struct pool *p, struct sluice_io *io, struct sluice_buf_info *info,
		  struct sluice_err *err)
{
	uint32_t had = p->info.got & (SLUICE_BUF_HUGE | SLUICE_BUF_LOCKED);
	int r;

	*info = p->info;
	if (!registers(p, io))
		return 0;
	r = sluice_buf_register(io, p->map, p->map_len, had & SLUICE_BUF_HUGE, info, err);
	info->got |= had;
	if (!info->note[0])
		memcpy(info->note, p->info.note, sizeof(info->note));
	return r;
}

void pool_unregister(const struct pool *p, struct sluice_io *io)
{
	if (registers(p, io))
		sluice_buf_unregister(io, p->map);
}

/* Host memory the program may look at, for @len bytes of @buf: itself, or the window. */
static uint64_t window(const struct pool *p, void *buf, uint64_t len, char **ret)
{
	bool device = p && p->memory == POOL_GPU;

	*ret = device ? p->stage : buf;
	return device ? min_u64(len, p->stage_len) : len;
}

static int put(const struct pool *p, void *buf, const char *host, uint64_t len,
	       struct sluice_err *err)
{
	return host == buf ? 0 : sluice_gpu_copy(buf, p->stage, len, err);
}

int pool_fill(const struct pool *p, void *buf, uint64_t len, uint64_t seed, uint64_t offset,
	      struct sluice_err *err)
{
	int r = 0;
	uint64_t n;

	for (uint64_t at = 0; at < len && r == 0; at += n) {
		char *host, *to = (char *)buf + at;

		n = window(p, to, len - at, &host);
		sluice_pattern_fill(host, n, seed, offset + at);
		r = put(p, to, host, n, err);
	}
	return r;
}

int pool_poison(const struct pool *p, void *buf, uint64_t len, struct sluice_err *err)
{
	int r = 0;
	uint64_t n;

	for (uint64_t at = 0; at < len && r == 0; at += n) {
		char *host, *to = (char *)buf + at;

		n = window(p, to, len - at, &host);
		memset(host, POISON, n);
		r = put(p, to, host, n, err);
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

int pool_check(const struct pool *p, void *buf, uint64_t len, uint64_t seed, uint64_t offset,
	       const char *name, struct sluice_err *err)
{
	int r = 0;
	uint64_t n;

	for (uint64_t at = 0; at < len && r == 0; at += n) {
		char *host, *from = (char *)buf + at;

		n = window(p, from, len - at, &host);
		if (host != from)
			r = sluice_gpu_copy(host, from, n, err);
		if (r == 0)
			r = check_host(host, n, seed, offset + at, name, err);
	}
	return r;
}
