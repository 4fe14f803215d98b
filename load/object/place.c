/* SPDX-License-Identifier: Apache-2.0 */
/* Places of all kinds: opening, checking, closing; memory, which needs no file of its own. */
#include "load/object/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <penstock/gpu.h>
#include <penstock/probe.h>

#include "base/err.h"
#include "base/size.h"
#include "base/textfile.h"
#include "base/util.h"
#include "load/measure/ram.h"
#include "load/object/content.h"
#include "load/object/place_journal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { HUGE = 2 << 20, FS_BLOCK = 4096 };

/* ------------------------------------------------------------------- options */

static int check_opts(const struct place_opts *o, struct penstock_err *err)
{
	bool files = o->kind == PLACE_FILES || o->kind == PLACE_STORE;
	bool slab = o->kind == PLACE_SLAB || o->kind == PLACE_BUCKET;

	if (o->kind < PLACE_FILES || o->kind > PLACE_BUCKET)
		return penstock_fail(err, -EINVAL, "kind: %d is none of PLACE_*", (int)o->kind);
	if ((files && !o->nr_paths) || (slab && o->nr_paths != 1))
		return penstock_fail(err, -EINVAL, "paths: %u given, %s needed", o->nr_paths,
				     slab ? "one is" : "at least one is");
	for (unsigned i = 0; (files || slab) && i < o->nr_paths; i++)
		if (!o->paths[i] || !o->paths[i][0])
			return penstock_fail(err, -EINVAL, "paths: an empty one");
	if (o->nr_paths > UINT16_MAX)
		return penstock_fail(err, -EINVAL, "paths: %u given, at most %d possible",
				     o->nr_paths, UINT16_MAX);
	if (o->unit && !place_unit_fits(o->unit))
		return penstock_fail(err, -EINVAL,
				     "unit: %u is not a power of two between 4096 and 1 GiB",
				     o->unit);
	if ((o->kind == PLACE_MEMORY || o->kind == PLACE_GPU) && !o->capacity)
		return penstock_fail(err, -EINVAL, "capacity: memory needs one");
	if (o->stretch && o->kind != PLACE_SLAB)
		return penstock_fail(err, -EINVAL, "stretch: only a slab can do that");
	if (o->bytes_per_sec < 0)
		return penstock_fail(err, -EINVAL, "bytes_per_sec: %g is negative",
				     o->bytes_per_sec);
	return 0;
}

uint32_t place_fit_unit(uint32_t unit, uint64_t bytes, uint64_t max)
{
	while (bytes / unit >= max && place_unit_fits(2ull * unit))
		unit *= 2;
	return unit;
}

/* ---------------------------------------------------------------------- free space */

/* Of all folders; those of one file system share its room. */
static int files_free_bytes(const struct place_opts *o, uint64_t *ret, struct penstock_err *err)
{
	CLEANUP_FREE dev_t *seen = calloc(o->nr_paths, sizeof(dev_t));
	unsigned nr = 0, k;

	*ret = 0;
	if (!seen)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < o->nr_paths; i++) {
		uint64_t freed, bytes;
		dev_t dev;
		int r = o->kind == PLACE_STORE ? store_place_check(o->paths[i], o, &freed, err)
					       : dir_check(o->paths[i], o, &freed, err);

		if (r == 0)
			r = dir_free_bytes(o->paths[i], &bytes, &dev, err);
		if (r < 0)
			return r;
		*ret += freed;
		for (k = 0; k < nr && seen[k] != dev; k++)
			;
		if (k == nr) {
			seen[nr++] = dev;
			*ret += bytes;
		}
	}
	return 0;
}

static int gpu_free_bytes(const struct place_opts *o, uint64_t *ret, struct penstock_err *err)
{
	struct penstock_gpu_device d = {.size = sizeof(d)};
	int r = penstock_probe_gpu_device(o->device, &d, err);

	*ret = d.memory;
	return r;
}

int place_free_bytes(const struct place_opts *o, uint64_t *ret_bytes, struct penstock_err *err)
{
	int r = check_opts(o, err);

	if (r < 0)
		return r;
	switch (o->kind) {
	case PLACE_FILES:
	case PLACE_STORE:
		return files_free_bytes(o, ret_bytes, err);
	case PLACE_SLAB:
		return slab_check(o, ret_bytes, err);
	case PLACE_MEMORY:
		*ret_bytes = ram_available();
		return 0;
	case PLACE_GPU:
		return gpu_free_bytes(o, ret_bytes, err);
	case PLACE_BUCKET:
		*ret_bytes = UINT64_MAX; /* nobody says */
		return bucket_check(o, err);
	default:
		*ret_bytes = UINT64_MAX;
		return 0;
	}
}

bool place_is_kept(const struct place_opts *o)
{
	if (o->kind == PLACE_SLAB)
		return o->nr_paths && slab_is_kept(o->paths[0]);
	if (o->kind == PLACE_BUCKET)
		return o->nr_paths && bucket_is_kept(o);
	for (unsigned i = 0; o->kind == PLACE_STORE && i < o->nr_paths; i++)
		if (store_place_is_there(o->paths[i]))
			return true;
	for (unsigned i = 0; o->kind == PLACE_FILES && i < o->nr_paths; i++)
		if (journal_is_kept(o->paths[i]))
			return true;
	return false;
}

int place_check(const struct place_opts *o, struct penstock_err *err)
{
	char want[PENSTOCK_SIZE_TEXT], have[PENSTOCK_SIZE_TEXT];
	bool memory = o->kind == PLACE_MEMORY || o->kind == PLACE_GPU;
	uint64_t free_bytes;
	int r = place_free_bytes(o, &free_bytes, err);

	if (r < 0 || o->capacity <= free_bytes)
		return r;
	return penstock_fail(err, memory ? -ENOMEM : -ENOSPC, "%s: %s needed, %s free",
			     o->kind == PLACE_GPU ? "GPU memory"
			     : memory             ? "memory"
						  : o->paths[0],
			     penstock_size_format(want, o->capacity),
			     penstock_size_format(have, free_bytes));
}

/* --------------------------------------------------------------------- memory */

static bool huge_pages(void)
{
	char mode[16];

	return penstock_textfile_read_selected(mode, sizeof(mode),
					       "/sys/kernel/mm/transparent_hugepage/enabled") > 0 &&
	       strcmp(mode, "never") != 0;
}

/* Addresses for all of it; pages come as they are needed, see place_memory_grow(). */
static int memory_open(struct place *p, struct penstock_err *err)
{
	char text[PENSTOCK_SIZE_TEXT];
	uint64_t bytes = align_up(p->o.capacity, p->unit), head;
	char *m;

	p->mapped = align_up(bytes, HUGE);
	m = mmap(NULL, p->mapped + HUGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return penstock_fail(err, -errno, "no memory for %s: %s",
				     penstock_size_format(text, bytes), strerror(errno));
	head = align_up((uintptr_t)m, HUGE) - (uintptr_t)m;
	if (head)
		munmap(m, head);
	if (head < HUGE)
		munmap(m + head + p->mapped, HUGE - head);
	p->base = m + head;
	if (huge_pages() && madvise(p->base, p->mapped, MADV_HUGEPAGE) == 0)
		p->huge = PENSTOCK_BUF_HUGE;
	p->map = extent_map_new(bytes / p->unit, 0, 1, true);
	return p->map ? 0 : penstock_fail(err, -ENOMEM, "no memory for the map of the memory");
}

int place_memory_grow(struct place *p, uint64_t from, uint64_t len)
{
	if (madvise(p->base + from, len, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno == ENOMEM)
		return -ENOMEM;
	for (uint64_t at = 0; at < len; at += FS_BLOCK) /* a kernel that cannot do it at once */
		p->base[from + at] = 0;
	return 0;
}

void place_pin(struct place *p, char *from, uint64_t len)
{
	if (ARRAY_GROW(p->pins, p->nr_pins) == 0 && penstock_gpu_pin(from, len, NULL) == 0)
		p->pins[p->nr_pins++] = from;
}

void place_unpin(struct place *p)
{
	while (p->nr_pins)
		penstock_gpu_unpin(p->pins[--p->nr_pins]);
	free(p->pins);
	p->pins = NULL;
}

static int gpu_open(struct place *p, struct penstock_err *err)
{
	uint64_t bytes = align_up(p->o.capacity, p->unit);
	void *m;
	int r = penstock_gpu_alloc(&m, p->o.device, bytes, err);

	if (r < 0)
		return r;
	p->base = m;
	p->map = extent_map_new(bytes / p->unit, bytes / p->unit, 1, true);
	return p->map ? 0
		      : penstock_fail(err, -ENOMEM, "no memory for the map of the GPU's memory");
}

/* -------------------------------------------------------- what was there before */

struct place_old *place_old_add(struct place *p)
{
	if (ARRAY_GROW(p->old, p->nr_old) < 0)
		return NULL;
	p->old[p->nr_old] = (struct place_old){0};
	return &p->old[p->nr_old++];
}

static void place_old_free(struct place_old *o)
{
	free(o->name);
	free(o->shape);
	o->name = o->shape = NULL;
}

static int place_by_name(const void *a, const void *b)
{
	const struct place_old *x = a, *y = b;
	uint64_t i = content_id(x->name, x->name_len), k = content_id(y->name, y->name_len);

	return (i > k) - (i < k);
}

struct place_old *place_old_find(struct place *p, const char *name, uint32_t len)
{
	uint64_t id = content_id(name, len), low = 0, high = p->nr_old;

	while (low < high) {
		uint64_t mid = (low + high) / 2;

		if (content_id(p->old[mid].name, p->old[mid].name_len) < id)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < p->nr_old; low++) {
		struct place_old *o = &p->old[low];

		if (content_id(o->name, o->name_len) != id)
			break;
		if (!o->adopted && o->name_len == len && !memcmp(o->name, name, len))
			return o;
	}
	return NULL;
}

bool place_next(const struct place *p, uint64_t *pos, struct place_found *ret)
{
	const struct place_old *o;

	while (*pos < p->nr_old && p->old[*pos].adopted)
		++*pos;
	if (*pos >= p->nr_old)
		return false;
	o = &p->old[(*pos)++];
	*ret = (struct place_found){o->name, o->name_len, o->size};
	return true;
}

/* --------------------------------------------------------------- open and close */

static int copy_paths(struct place *p, const struct place_opts *o)
{
	p->paths = calloc((size_t)o->nr_paths + 1, sizeof(*p->paths));
	if (!p->paths)
		return -ENOMEM;
	for (unsigned i = 0; i < o->nr_paths; i++) {
		p->paths[i] = strdup(o->paths[i]);
		if (!p->paths[i])
			return -ENOMEM;
	}
	p->o.paths = (const char *const *)p->paths;
	return 0;
}

static int open_kind(struct place *p, struct penstock_err *err)
{
	switch (p->o.kind) {
	case PLACE_FILES:
		return dirs_open(p, err);
	case PLACE_SLAB:
		return slab_open(p, err);
	case PLACE_MEMORY:
		return memory_open(p, err);
	case PLACE_GPU:
		return gpu_open(p, err);
	case PLACE_STORE:
		return store_place_open(p, err);
	case PLACE_BUCKET:
		return bucket_open(p, err);
	default:
		return 0;
	}
}

/* What is left of an earlier run is used space from the beginning. */
static void count_old(struct place *p)
{
	for (uint64_t i = 0; i < p->nr_old; i++)
		p->used += place_charge(p, p->old[i].size);
	p->objects = p->nr_old;
	if (p->nr_old)
		qsort(p->old, p->nr_old, sizeof(*p->old), place_by_name);
}

int place_open(struct place **out, const struct place_opts *o, struct penstock_err *err)
{
	struct place *p;
	int r = check_opts(o, err);

	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	if (!p)
		return penstock_fail(err, -ENOMEM, "out of memory");
	p->o = *o;
	p->slab_fd = p->slab_dir = -1;
	p->unit = o->unit ? o->unit : PLACE_UNIT;
	r = copy_paths(p, o);
	if (r < 0)
		penstock_fail(err, r, "out of memory");
	else
		r = open_kind(p, err);
	if (r < 0) {
		place_close(p, NULL);
		return r;
	}
	count_old(p);
	p->ready = true;
	*out = p;
	return 0;
}

void place_keep_found(struct place *p)
{
	p->o.keep = p->o.keep || p->o.reuse;
}

int place_close(struct place *p, struct penstock_err *err)
{
	int r = 0;

	if (!p)
		return 0;
	if (p->o.kind == PLACE_FILES)
		r = dirs_close(p, err);
	else if (p->o.kind == PLACE_SLAB)
		r = slab_close(p, err);
	else if (p->o.kind == PLACE_STORE)
		r = store_place_close(p, err);
	else if (p->o.kind == PLACE_BUCKET)
		r = bucket_close(p, err);
	else if (p->o.kind == PLACE_MEMORY && p->base)
		munmap(p->base, p->mapped);
	else if (p->o.kind == PLACE_GPU)
		penstock_gpu_free(p->base);
	for (uint64_t i = 0; i < p->nr_old; i++) {
		if (p->map)
			extents_free(&p->old[i].where, p->map);
		place_old_free(&p->old[i]);
	}
	free(p->old);
	extent_map_free(p->map);
	for (unsigned i = 0; p->paths && i < p->o.nr_paths; i++)
		free(p->paths[i]);
	free(p->paths);
	free(p);
	return r;
}

uint64_t place_charge(const struct place *p, uint64_t size)
{
	uint64_t head = p->o.kind == PLACE_FILES && p->o.layout == PLACE_NPY ? PLACE_HEADER : 0;

	if (p->o.kind == PLACE_NULL || p->o.kind == PLACE_BUCKET)
		return size;
	if (p->o.kind == PLACE_STORE)
		return 0; /* it makes room itself */
	if (p->o.kind == PLACE_FILES)
		return align_up(size + head, FS_BLOCK);
	return align_up(size, p->unit);
}

void place_add_used(struct place *p, uint64_t charge)
{
	uint64_t limit;

	p->used += charge;
	p->objects++;
	p->max_used = max_u64(p->max_used, p->used);
	limit = p->o.capacity ? min_u64(p->o.capacity, p->max_used) : p->max_used;
	atomic_store(&p->slack, limit > p->used ? limit - p->used : 0);
}

bool place_store_stats(const struct place *p, struct penstock_store_stats *s)
{
	*s = (struct penstock_store_stats){.size = sizeof(*s)};
	return p->store && penstock_store_get_stats(p->store, s) == 0;
}

uint64_t place_used(const struct place *p)
{
	struct penstock_store_stats s;

	return place_store_stats(p, &s) ? s.used_bytes : p->used;
}

uint64_t place_objects(const struct place *p)
{
	struct penstock_store_stats s;

	return place_store_stats(p, &s) ? s.entries : p->objects;
}
