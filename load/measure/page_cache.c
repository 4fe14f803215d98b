/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <penstock/stripe.h>

#include "base/util.h"
#include "load/measure/handle.h"

/* Why O_DIRECT does not keep this machine's memory out, or NULL. */
static const char *backing_memory(const struct penstock_path_info *p)
{
	if (!strcmp(p->fs, "tmpfs") || !strcmp(p->fs, "ramfs"))
		return "the file system is in memory";
	return p->has_device && p->device.cached[0] ? p->device.cached : NULL;
}

static void page_cache_words_read(char *out, const struct penstock_stats *st,
				  const struct page_cache_facts *f, const char *memory)
{
	bool direct = st->blocks_direct && !st->blocks_buffered;

	if (f->resident > 0)
		snprintf(out, PAGE_CACHE_TEXT, "warm (%u %% resident)",
			 (unsigned)((double)f->resident / (double)f->size * 100 + 0.999));
	else if (memory)
		snprintf(out, PAGE_CACHE_TEXT, "warm (%s)", memory);
	else if (direct)
		snprintf(out, PAGE_CACHE_TEXT, "cold (O_DIRECT)");
	else if (f->filled_why)
		snprintf(out, PAGE_CACHE_TEXT, "warm (%s)", f->filled_why);
	else if (!f->unknown)
		snprintf(out, PAGE_CACHE_TEXT, "cold (dropped)");
	else
		snprintf(out, PAGE_CACHE_TEXT, "unknown (residency cannot be read: %s)",
			 penstock_strerror((int)f->unknown));
}

static void page_cache_words_write(char *out, const struct penstock_stats *st,
				   const struct page_cache_facts *f, const char *memory)
{
	if (memory)
		snprintf(out, PAGE_CACHE_TEXT, "used (%s)", memory);
	else if (st->blocks_direct && !st->blocks_buffered)
		snprintf(out, PAGE_CACHE_TEXT, "not used (O_DIRECT)");
	else if (st->blocks_direct > st->blocks_buffered)
		/* Ends that are no whole blocks; that is not all of the run. */
		snprintf(out, PAGE_CACHE_TEXT,
			 "not used (O_DIRECT) but for %" PRIu64 " of %" PRIu64 " blocks",
			 st->blocks_buffered, st->blocks_direct + st->blocks_buffered);
	else if (f->durable)
		snprintf(out, PAGE_CACHE_TEXT, "used, flushed within the time");
	else
		snprintf(out, PAGE_CACHE_TEXT, "used, not flushed: not the device's speed");
}

void page_cache_add(struct page_cache_facts *f, int64_t left)
{
	if (left < 0)
		f->unknown = left;
	else if (left > f->resident)
		f->resident = left;
}

static void page_cache_words(char *out, bool read, const struct penstock_stats *st,
			     const struct page_cache_facts *f, const char *memory)
{
	if (engine_is_null(st->engine))
		snprintf(out, PAGE_CACHE_TEXT, "not used (the null engine moves nothing)");
	else if (st->blocks_object)
		snprintf(out, PAGE_CACHE_TEXT, "%s: the store's is not ours to see",
			 read ? "unknown" : "not used on this machine");
	else if (read)
		page_cache_words_read(out, st, f, memory);
	else
		page_cache_words_write(out, st, f, memory);
}

void page_cache_describe(struct run_series *s, const struct page_cache_facts *f,
			 const struct penstock_path_info *paths, unsigned nr_paths)
{
	const char *memory = NULL;

	for (unsigned i = 0; i < nr_paths && !memory; i++)
		memory = backing_memory(&paths[i]);
	page_cache_words(s->cache, s->read, &s->stats, f, memory);
}

void page_cache_describe_objects(char out[PAGE_CACHE_TEXT], bool read, bool durable,
				 const struct penstock_path_info *path,
				 const struct penstock_stats *st)
{
	/* Parts of pages are written through the page cache; they are read past it all the same. */
	bool past = st->blocks_direct && !(st->fallbacks & PENSTOCK_FALLBACK_BUFFERED);
	struct page_cache_facts f = {.durable = durable,
				     .filled_why = "written through the page cache before"};
	struct penstock_stats of_kind = *st;

	if (read && past)
		of_kind.blocks_buffered = 0;
	else if (read || st->blocks_buffered)
		of_kind.blocks_direct = 0; /* of reads and writes together it would tell nothing */
	if (path)
		page_cache_words(out, read, &of_kind, &f, backing_memory(path));
	else
		snprintf(out, PAGE_CACHE_TEXT, "not used (no files)");
}

void page_cache_describe_remote(char out[PAGE_CACHE_TEXT])
{
	snprintf(out, PAGE_CACHE_TEXT, "none here; that of the object store is not known");
}

static int64_t drop_file(const char *path, uint64_t from, uint64_t len)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int64_t left = 0;

	if (fd < 0)
		return -errno;
	/* Dirty pages cannot be dropped; a page just in use may need a second try. */
	fdatasync(fd);
	for (int i = 0; i < 3; i++) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		left = penstock_probe_resident(fd, from, len);
		if (left <= 0)
			break;
	}
	return left;
}

static int64_t resident_file(const char *path, uint64_t from, uint64_t len)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : penstock_probe_resident(fd, from, len);
}

/* The sum over a file, or over the files that a striped one consists of. */
static int64_t each_file(const char *path, uint64_t from, uint64_t len,
			 int64_t (*of)(const char *, uint64_t, uint64_t))
{
	struct penstock_stripe_info *info;
	int64_t left = 0, r;

	if (penstock_stripe_get_kind(path) != 1 || penstock_stripe_load(&info, path, NULL) < 0)
		return of(path, from, len);
	for (unsigned i = 0; i < info->nr && left >= 0; i++) {
		const struct penstock_member *m = &info->members[i];

		r = m->device ? 0 : of(m->path, 0, (1 << 20) + m->bytes);
		left = r < 0 ? r : left + r;
	}
	penstock_stripe_free(info);
	return left;
}

int64_t page_cache_drop(const char *path, uint64_t from, uint64_t len)
{
	return each_file(path, from, len, drop_file);
}

int64_t page_cache_resident(const char *path, uint64_t len)
{
	return each_file(path, 0, len, resident_file);
}
