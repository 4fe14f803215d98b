/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory the library knows: allocated by it for a handle, or registered by the caller.  Each
 * piece of at most 1 GiB (the kernel's limit) has a slot in every queue's engine.
 * Nothing here is needed for a transfer to work, so nothing here is fatal.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "core/core.h"
#include "core/queue.h"
#include "core/submitter.h"
#include "dl/cuda.h"

static bool region_holds(const struct region *r, uint64_t addr, uint64_t len)
{
	return addr >= r->addr && addr - r->addr <= r->len && len <= r->len - (addr - r->addr);
}

/* A thread remembers where its memory was last: then it need not look at what all share. */
const struct region *region_find(struct penstock_io *io, struct thread_cache *cache, uint64_t addr,
				 uint64_t len)
{
	const struct region *found = NULL;

	if (!atomic_load(&io->nr_regions))
		return NULL;
	if (cache->region.len && cache->regions_version == atomic_load(&io->regions_version) &&
	    region_holds(&cache->region, addr, len))
		return &cache->region;
	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < io->nr_regions && !found; i++) {
		if (!region_holds(&io->regions[i], addr, len))
			continue;
		cache->region = io->regions[i];
		cache->regions_version = atomic_load(&io->regions_version);
		found = &cache->region;
	}
	pthread_mutex_unlock(&io->lock);
	return found;
}

/* ------------------------------------------------- slots of the engines */

struct slot_call {
	void *shared_bufs; /* that has it already, or NULL */
	unsigned slot;
	void *addr; /* NULL: take it out */
	size_t len;
	int device; /* whose memory it is, -1: the host's */
};

static int set_slot(struct queue *q, void *arg)
{
	const struct slot_call *c = arg;
	int r = c->addr && c->device >= 0 ? device_enter(q, c->device) : 0;

	if (r < 0)
		return r;
	return q->io->engine->set_buf(q->engine, c->shared_bufs, c->slot, c->addr, c->len);
}

void *shared_bufs_set(struct penstock_io *io, unsigned slot, void *addr, uint64_t len)
{
	const struct penstock_engine_params p = {.nr_bufs = BUF_SLOTS};
	void *shared_bufs = NULL;

	/* What is in it goes also where the second queue could not be made since. */
	if (!io->engine->shared_bufs_open || (addr && io->max_queues < 2))
		return NULL;
	pthread_mutex_lock(&io->shared_bufs_lock);
	if (addr && !io->shared_bufs_tried &&
	    io->engine->shared_bufs_open(&io->shared_bufs, &p) < 0)
		io->shared_bufs = NULL;
	io->shared_bufs_tried |= addr != NULL;
	if (io->shared_bufs && io->engine->shared_bufs_set(io->shared_bufs, slot, addr, len) == 0)
		shared_bufs = io->shared_bufs;
	pthread_mutex_unlock(&io->shared_bufs_lock);
	return shared_bufs;
}

/* The same in a child of fork(), where the pages are the parent's. */
void shared_bufs_free(struct penstock_io *io)
{
	if (io->shared_bufs)
		io->engine->shared_bufs_close(io->shared_bufs);
	pthread_mutex_destroy(&io->shared_bufs_lock);
}

static void clear_slots(struct penstock_io *io, unsigned slot, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct slot_call c = {.slot = slot + i};

		for (unsigned k = 0; k < io->nr_queues; k++)
			queue_call(&io->queues[k], set_slot, &c);
		shared_bufs_set(io, c.slot, NULL, 0);
	}
	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < n; i++)
		io->buf_slots[slot + i] = false;
	pthread_mutex_unlock(&io->lock);
}

int buf_slots_take(struct penstock_io *io, uint64_t n)
{
	unsigned run = 0;
	int first = -ENOSPC;

	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < BUF_SLOTS && first < 0; i++) {
		run = io->buf_slots[i] ? 0 : run + 1;
		if (run == n)
			first = (int)(i + 1 - run);
	}
	for (uint64_t i = 0; first >= 0 && i < n; i++)
		io->buf_slots[(unsigned)first + i] = true;
	pthread_mutex_unlock(&io->lock);
	return first;
}

/* Make a region known to every queue's engine; 0 or why not. */
static int engine_register(struct penstock_io *io, struct region *r)
{
	uint64_t n = (r->len + REGION_PIECE - 1) / REGION_PIECE;
	unsigned queues = io->nr_queues;
	int first, res = 0;

	if (!io->engine->set_buf || !r->len || io->engine->device != (r->device >= 0))
		return -ENOTSUP;
	first = buf_slots_take(io, n);
	if (first < 0)
		return first;
	for (uint64_t i = 0; i < n && !res; i++) {
		struct slot_call c = {
			.slot = (unsigned)first + (unsigned)i,
			.addr = (void *)(uintptr_t)(r->addr + i * REGION_PIECE),
			.len = min_u64(REGION_PIECE, r->len - i * REGION_PIECE),
			.device = r->device,
		};

		if (r->device < 0)
			c.shared_bufs = shared_bufs_set(io, c.slot, c.addr, c.len);
		for (unsigned k = 0; k < queues && !res; k++)
			res = queue_call(&io->queues[k], set_slot, &c);
	}
	if (res < 0) {
		clear_slots(io, (unsigned)first, (unsigned)n);
		return res;
	}
	r->slot = (unsigned)first;
	r->nr_slots = (unsigned)n;
	r->nr_queues = queues;
	return 0;
}

/* ---------------------------------------------------------- the regions */

static int region_add(struct penstock_io *io, const struct region *r)
{
	struct region *more;
	int res = -ENOMEM;

	pthread_mutex_lock(&io->lock);
	more = realloc(io->regions, (io->nr_regions + 1) * sizeof(*more));
	if (more) {
		io->regions = more;
		more[io->nr_regions] = *r;
		atomic_fetch_add(&io->nr_regions, 1);
		atomic_fetch_add(&io->regions_version, 1);
		res = 0;
	}
	pthread_mutex_unlock(&io->lock);
	return res;
}

/* Take out the region that starts at @addr; own: allocated here. */
static bool region_take(struct penstock_io *io, const void *addr, bool own, struct region *out)
{
	bool found = false;

	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < io->nr_regions && !found; i++) {
		struct region *r = &io->regions[i];

		if (r->addr != (uint64_t)(uintptr_t)addr || !r->area.addr == own)
			continue;
		*out = *r;
		*r = io->regions[atomic_fetch_sub(&io->nr_regions, 1) - 1];
		atomic_fetch_add(&io->regions_version, 1);
		found = true;
	}
	pthread_mutex_unlock(&io->lock);
	return found;
}

__attribute__((format(printf, 2, 3))) static void buf_note(struct penstock_buf_info *info,
							   const char *fmt, ...)
{
	size_t used = strlen(info->note);
	va_list ap;

	if (used && used + 2 < sizeof(info->note)) {
		strcpy(info->note + used, "; ");
		used += 2;
	}
	va_start(ap, fmt);
	vsnprintf(info->note + used, sizeof(info->note) - used, fmt, ap);
	va_end(ap);
}

static void note_lock(struct penstock_buf_info *info, int code)
{
	if (!code)
		info->got |= PENSTOCK_BUF_LOCKED;
	else
		buf_note(info, "not locked: %s (RLIMIT_MEMLOCK)", strerror(code));
}

static void report_unlocked(struct penstock_io *io, int code)
{
	if (code)
		report_fallback(io, PENSTOCK_FALLBACK_UNLOCKED, NULL,
				"mlock refused (RLIMIT_MEMLOCK)");
}

static void note_register(struct penstock_io *io, struct penstock_buf_info *info, int r)
{
	if (!r) {
		info->got |= PENSTOCK_BUF_REGISTERED;
	} else if (r == -ENOTSUP) {
		buf_note(info, "not registered: engine %s has no such thing", io->engine->name);
	} else {
		buf_note(info, "not registered: %s%s", strerror(-r),
			 r == -ENOMEM ? " (RLIMIT_MEMLOCK)" : "");
		report_fallback(io, PENSTOCK_FALLBACK_UNREGISTERED, NULL,
				io->engine->device ? "cuFile could not register device memory"
						   : "the engine could not register memory "
						     "(RLIMIT_MEMLOCK)");
	}
}

static int may_register(struct penstock_io *io, struct penstock_err *err)
{
	int r = io_check(io, err);

	if (r == 0 && queue_current(io))
		r = penstock_fail(err, -EDEADLK,
				  "a completion callback must not allocate or register memory");
	return r;
}

/* Map memory and say what it is; *@got is filled in any case. */
static int area_get(struct penstock_area *a, uint64_t len, uint32_t huge, uint32_t want,
		    struct penstock_buf_info *got, struct penstock_err *err)
{
	int r = penstock_area_map(a, len, huge,
				  want & PENSTOCK_BUF_LOCKED ? PENSTOCK_AREA_LOCK : 0);

	*got = (struct penstock_buf_info){.page = a->page, .got = a->huge ? PENSTOCK_BUF_HUGE : 0};
	if (r < 0)
		return penstock_fail(err, r, "cannot allocate %llu bytes: %s",
				     (unsigned long long)len, strerror(-r));
	if (a->huge_errno)
		buf_note(got, "no huge pages: switched off or not in this kernel");
	if (want & PENSTOCK_BUF_LOCKED)
		note_lock(got, a->lock_errno);
	return 0;
}

int penstock_mem_alloc(void **out, uint64_t len, uint32_t huge, uint32_t want,
		       struct penstock_buf_info *info, struct penstock_err *err)
{
	NO_CANCEL;
	struct penstock_buf_info got;
	struct penstock_area a;
	int r;

	if (huge > PENSTOCK_HUGE_NEVER)
		return penstock_fail(err, -EINVAL, "huge: %u is outside 0..%d", huge,
				     PENSTOCK_HUGE_NEVER);
	if (want & ~(PENSTOCK_BUF_HUGE | PENSTOCK_BUF_LOCKED))
		return penstock_fail(err, -EINVAL, "want: 0x%x has unknown bits", want);
	r = area_get(&a, len, huge, want, &got, err);
	if (r < 0)
		return r;
	*out = a.addr;
	if (info)
		*info = got;
	return 0;
}

void penstock_mem_free(void *addr, uint64_t len)
{
	struct penstock_area a = {.addr = addr, .len = len};

	penstock_area_unmap(&a);
}

/* Make a region known to the engine and to region_find(). */
static int region_register(struct penstock_io *io, struct region *r, struct penstock_buf_info *got,
			   struct penstock_err *err)
{
	int res;

	pthread_mutex_lock(&io->region_lock);
	note_register(io, got, engine_register(io, r));
	res = region_add(io, r);
	if (res < 0) {
		clear_slots(io, r->slot, r->nr_slots);
		penstock_fail(err, res, "out of memory");
	}
	pthread_mutex_unlock(&io->region_lock);
	return res;
}

int penstock_buf_alloc(void **out, struct penstock_io *io, uint64_t len, uint32_t want,
		       struct penstock_buf_info *info, struct penstock_err *err)
{
	NO_CANCEL;
	struct penstock_buf_info got;
	struct region r = {.device = -1};
	int res = may_register(io, err);

	if (res < 0)
		return res;
	if (want & ~(PENSTOCK_BUF_HUGE | PENSTOCK_BUF_LOCKED | PENSTOCK_BUF_REGISTERED))
		return penstock_fail(err, -EINVAL, "want: 0x%x has unknown bits", want);
	res = area_get(&r.area, len, io->opts.huge, want, &got, err);
	if (res < 0)
		return res;
	r.addr = (uint64_t)(uintptr_t)r.area.addr;
	r.len = r.area.len;
	r.huge = r.area.huge;
	if (r.area.huge_errno)
		report_fallback(io, PENSTOCK_FALLBACK_SMALL_PAGES, NULL,
				"no transparent huge pages");
	report_unlocked(io, r.area.lock_errno);
	res = region_register(io, &r, &got, err);
	if (res < 0) {
		penstock_area_unmap(&r.area);
		return res;
	}
	*out = r.area.addr;
	if (info)
		*info = got;
	return 0;
}

static int region_end(struct penstock_io *io, const void *addr, bool own)
{
	NO_CANCEL;
	struct region r;
	int res = may_register(io, NULL);

	if (res < 0 || !addr)
		return res;
	pthread_mutex_lock(&io->region_lock);
	if (region_take(io, addr, own, &r)) {
		clear_slots(io, r.slot, r.nr_slots);
		if (r.mlocked)
			munlock(addr, r.len);
		penstock_area_unmap(&r.area);
	} else {
		res = -ENOENT;
	}
	pthread_mutex_unlock(&io->region_lock);
	return res;
}

int penstock_buf_free(struct penstock_io *io, void *addr)
{
	return region_end(io, addr, true);
}

int penstock_buf_unregister(struct penstock_io *io, void *addr)
{
	return region_end(io, addr, false);
}

/* What the caller's memory is on, after what can be done about it. */
static void region_pages(struct region *r, uint32_t want, struct penstock_buf_info *got)
{
	void *addr = (void *)(uintptr_t)r->addr;
	int res = want & PENSTOCK_BUF_COLLAPSE ? penstock_area_collapse(addr, r->len) : 0;

	if (res < 0)
		buf_note(got, "not collapsed to huge pages: %s", strerror(-res));
	else
		got->got |= want & PENSTOCK_BUF_COLLAPSE;
	r->huge = want & PENSTOCK_BUF_HUGE || got->got & PENSTOCK_BUF_COLLAPSE;
	got->got |= r->huge ? PENSTOCK_BUF_HUGE : 0;
	got->page = r->huge ? PENSTOCK_AREA_HUGE : (uint32_t)sysconf(_SC_PAGESIZE);
}

/* What is asked of the kernel for memory that becomes a region. */
static void ask_kernel(struct penstock_io *io, struct region *r, void *addr, uint32_t want,
		       struct penstock_buf_info *got)
{
	int code;

	if (r->device >= 0) {
		if (want & (PENSTOCK_BUF_COLLAPSE | PENSTOCK_BUF_LOCKED | PENSTOCK_BUF_HUGE))
			buf_note(got, "device memory is neither locked nor on huge pages");
		return;
	}
	region_pages(r, want, got);
	if (want & PENSTOCK_BUF_LOCKED) {
		r->mlocked = mlock(addr, r->len) == 0;
		code = r->mlocked ? 0 : errno;
		note_lock(got, code);
		report_unlocked(io, code);
	}
}

int penstock_buf_register(struct penstock_io *io, void *addr, uint64_t len, uint32_t want,
			  struct penstock_buf_info *info, struct penstock_err *err)
{
	NO_CANCEL;
	struct region r = {.addr = (uint64_t)(uintptr_t)addr, .len = len, .device = -1};
	const struct penstock_cuda *cuda = penstock_cuda_present();
	struct penstock_buf_info got = {0};
	int res = may_register(io, err);

	if (res < 0)
		return res;
	if (!addr || !len || r.addr + len < len)
		return penstock_fail(err, -EINVAL, "addr, len: NULL or empty memory");
	if (want & ~(PENSTOCK_BUF_HUGE | PENSTOCK_BUF_LOCKED | PENSTOCK_BUF_COLLAPSE |
		     PENSTOCK_BUF_REGISTERED))
		return penstock_fail(err, -EINVAL, "want: 0x%x has unknown bits", want);
	if (cuda)
		r.device = penstock_mem_locate(cuda, addr, NULL).device;
	ask_kernel(io, &r, addr, want, &got);
	res = region_register(io, &r, &got, err);
	if (res == 0 && info)
		*info = got;
	return res;
}

/* The handle is going: its engines are closed already, or belong to another process. */
void regions_free(struct penstock_io *io)
{
	for (unsigned i = 0; i < io->nr_regions; i++) {
		if (io->regions[i].mlocked)
			munlock((void *)(uintptr_t)io->regions[i].addr, io->regions[i].len);
		penstock_area_unmap(&io->regions[i].area);
	}
	free(io->regions);
}
