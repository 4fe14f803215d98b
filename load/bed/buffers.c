/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of transfers: host memory of three kinds, and memory of GPUs. */
#include "load/bed/buffers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <penstock/gpu.h>
#include <penstock/probe.h>

#include "base/err.h"
#include "base/random.h"
#include "base/size.h"
#include "base/util.h"

#define PAGE_BYTES 4096 /* what small buffers begin on */
#define HUGE_BYTES (2u << 20)
#define POISON     0x5a
#define WINDOW     (16u << 20)

const char *const bed_memory_words[] = {"own", "plain", "odd", "gpu", NULL};
const char *const bed_host_words[] = {"own", "plain", "odd", NULL};

int bed_gpu_check(uint32_t device, struct penstock_err *err)
{
	struct penstock_gpu_device d = {.size = sizeof(d)};

	return penstock_probe_gpu_device(device, &d, err);
}

/* Ordinary memory of small pages, to see what callers without our buffers get. */
static int plain_open(struct bed_buffers *b, struct penstock_err *err)
{
	void *m =
		mmap(NULL, b->map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return penstock_fail(err, -errno, "no memory for buffers: %s",
				     penstock_strerror(errno));
	b->map = m;
	b->info.page = (uint32_t)sysconf(_SC_PAGESIZE);
	madvise(m, b->map_len, MADV_NOHUGEPAGE);
	if (b->want.lock && mlock(m, b->map_len) == 0)
		b->info.got = PENSTOCK_BUF_LOCKED;
	else if (b->want.lock)
		snprintf(b->info.note, sizeof(b->info.note), "not locked: %s",
			 penstock_strerror(errno));
	return 0;
}

static int host_open(struct bed_buffers *b, struct penstock_err *err)
{
	const struct bed_buffers_opts *want = &b->want;
	char size[PENSTOCK_SIZE_TEXT];
	int r;

	/* Room for an odd address; a large buffer begins on a huge page of its own. */
	b->step = align_up(want->len + want->odd, want->len < HUGE_BYTES ? PAGE_BYTES : HUGE_BYTES);
	if (b->step < want->len || __builtin_mul_overflow(b->step, (uint64_t)want->nr, &b->map_len))
		return penstock_fail(err, -ENOMEM, "no memory for %u buffers of %s", want->nr,
				     penstock_size_format(size, want->len));
	r = want->memory != BED_OWN
		    ? plain_open(b, err)
		    : penstock_mem_alloc(&b->map, b->map_len, want->huge,
					 want->lock ? PENSTOCK_BUF_LOCKED : 0, &b->info, err);
	for (unsigned i = 0; i < want->nr && r == 0; i++)
		b->bufs[i] = (char *)b->map + i * b->step + want->odd;
	return r;
}

static int device_open(struct bed_buffers *b, struct penstock_err *err)
{
	const struct bed_buffers_opts *want = &b->want;
	int r = 0;

	for (unsigned i = 0; i < want->nr && r == 0; i++) {
		void *p = NULL;

		r = penstock_gpu_alloc(&p, want->devices ? want->devices[i] : 0,
				       want->len + want->odd, err);
		b->bufs[i] = r == 0 ? (char *)p + want->odd : NULL;
	}
	return r;
}

int bed_buffers_open(struct bed_buffers *b, const struct bed_buffers_opts *want,
		     struct penstock_err *err)
{
	int r;

	*b = (struct bed_buffers){.want = *want};
	b->want.odd |= want->memory == BED_ODD;
	b->bufs = calloc(want->nr, sizeof(*b->bufs));
	if (!b->bufs)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = want->memory == BED_GPU ? device_open(b, err) : host_open(b, err);
	if (r < 0)
		bed_buffers_close(b);
	return r;
}

void bed_buffers_close(struct bed_buffers *b)
{
	if (b->map && b->want.memory == BED_OWN)
		penstock_mem_free(b->map, b->map_len);
	else if (b->map)
		munmap(b->map, b->map_len);
	for (unsigned i = 0; b->bufs && b->want.memory == BED_GPU && i < b->want.nr; i++)
		if (b->bufs[i])
			penstock_gpu_free(b->bufs[i] - b->want.odd);
	free(b->bufs);
	*b = (struct bed_buffers){.bufs = NULL};
}

/* Only cuFile gains from knowing device memory in advance, and not at an odd address. */
static bool bed_registers(const struct bed_buffers *b, struct penstock_io *io)
{
	struct penstock_stats stats = {.size = sizeof(stats)};

	if (b->want.memory != BED_GPU)
		return b->want.memory == BED_OWN;
	return !b->want.odd && penstock_get_stats(io, &stats) == 0 &&
	       !strcmp(stats.engine, "cufile");
}

int bed_buffers_register(const struct bed_buffers *b, unsigned first, unsigned nr,
			 struct penstock_io *io, struct penstock_buf_info *info,
			 struct penstock_err *err)
{
	uint32_t had = b->info.got & (PENSTOCK_BUF_HUGE | PENSTOCK_BUF_LOCKED);
	bool device = b->want.memory == BED_GPU;
	unsigned times = device ? nr : 1;
	int r = 0;

	*info = b->info;
	if (!bed_registers(b, io))
		return 0;
	for (unsigned i = 0; i < times && r == 0; i++)
		r = penstock_buf_register(io, b->bufs[first + i],
					  device ? b->want.len : nr * b->step,
					  had & PENSTOCK_BUF_HUGE, info, err);
	info->got |= had;
	if (!info->note[0])
		memcpy(info->note, b->info.note, sizeof(info->note));
	return r;
}

void bed_buffers_unregister(const struct bed_buffers *b, unsigned first, unsigned nr,
			    struct penstock_io *io)
{
	unsigned times = b->want.memory == BED_GPU ? nr : 1;

	for (unsigned i = 0; bed_registers(b, io) && i < times; i++)
		penstock_buf_unregister(io, b->bufs[first + i]);
}

/* ---------------------------------------------------------------- what is in them */

/* What is done to a part of a buffer, in host memory: @host stands for what is at @at. */
struct block_visitor {
	int (*visit)(const struct block_visitor *l, char *host, uint64_t at, uint64_t len,
		     struct penstock_err *err);
	bool reads;
	uint64_t seed, offset;
	const char *name;
};

/* Host memory as it is; of device memory one window after the other. */
static int visit_blocks(const struct bed_buffers *b, char *buf, uint64_t len,
			const struct block_visitor *l, struct penstock_err *err)
{
	uint64_t most = min_u64(len, WINDOW), n;
	CLEANUP_FREE char *window = NULL;
	int r = 0;

	if (!b || b->want.memory != BED_GPU)
		return l->visit(l, buf, 0, len, err);
	window = malloc(most ? most : 1);
	if (!window)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (uint64_t at = 0; at < len && r == 0; at += n) {
		n = min_u64(len - at, most);
		if (l->reads)
			r = penstock_gpu_copy(window, buf + at, n, err);
		if (r == 0)
			r = l->visit(l, window, at, n, err);
		if (r == 0 && !l->reads)
			r = penstock_gpu_copy(buf + at, window, n, err);
	}
	return r;
}

static int fill_block(const struct block_visitor *l, char *host, uint64_t at, uint64_t len,
		      struct penstock_err *err)
{
	(void)err;
	penstock_pattern_fill(host, len, l->seed, l->offset + at);
	return 0;
}

static int poison_block(const struct block_visitor *l, char *host, uint64_t at, uint64_t len,
			struct penstock_err *err)
{
	(void)l;
	(void)at;
	(void)err;
	memset(host, POISON, len);
	return 0;
}

static int check_block(const struct block_visitor *l, char *host, uint64_t at, uint64_t len,
		       struct penstock_err *err)
{
	size_t wrong = penstock_pattern_check(host, len, l->seed, l->offset + at);
	unsigned char right;

	if (wrong == len)
		return 0;
	penstock_pattern_fill(&right, 1, l->seed, l->offset + at + wrong);
	return penstock_fail(err, -EBADMSG,
			     "verification failed: %s: offset %llu holds 0x%02x, should be 0x%02x",
			     l->name, (unsigned long long)(l->offset + at + wrong),
			     (unsigned char)host[wrong], right);
}

int bed_buf_fill(const struct bed_buffers *b, void *buf, uint64_t len, uint64_t seed,
		 uint64_t offset, struct penstock_err *err)
{
	return visit_blocks(b, buf, len,
			    &(struct block_visitor){fill_block, false, seed, offset, NULL}, err);
}

int bed_buf_poison(const struct bed_buffers *b, void *buf, uint64_t len, struct penstock_err *err)
{
	return visit_blocks(b, buf, len, &(struct block_visitor){.visit = poison_block}, err);
}

int bed_buf_check(const struct bed_buffers *b, void *buf, uint64_t len, uint64_t seed,
		  uint64_t offset, const char *name, struct penstock_err *err)
{
	return visit_blocks(b, buf, len,
			    &(struct block_visitor){check_block, true, seed, offset, name}, err);
}
