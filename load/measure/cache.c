/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "load/measure/null.h"

const char *cache_memory_behind(const struct sluice_path_info *p)
{
	if (!strcmp(p->fs, "tmpfs") || !strcmp(p->fs, "ramfs"))
		return "the file system is in memory";
	return p->has_device && p->device.cached[0] ? p->device.cached : NULL;
}

static void describe_read(char *out, const struct cache_facts *f)
{
	if (f->resident > 0)
		snprintf(out, CACHE_TEXT, "warm (%u %% resident)",
			 (unsigned)((double)f->resident / (double)f->size * 100 + 0.999));
	else if (f->memory)
		snprintf(out, CACHE_TEXT, "warm (%s)", f->memory);
	else if (f->direct)
		snprintf(out, CACHE_TEXT, "cold (O_DIRECT)");
	else if (!f->unknown)
		snprintf(out, CACHE_TEXT, "cold (dropped)");
	else
		snprintf(out, CACHE_TEXT, "unknown (residency cannot be read: %s)",
			 sluice_strerror((int)f->unknown));
}

void cache_describe(char out[CACHE_TEXT], const struct cache_facts *f)
{
	if (engine_is_null(f->engine))
		snprintf(out, CACHE_TEXT, "not used (the null engine moves nothing)");
	else if (f->read)
		describe_read(out, f);
	else if (f->memory)
		snprintf(out, CACHE_TEXT, "used (%s)", f->memory);
	else if (f->direct)
		snprintf(out, CACHE_TEXT, "not used (O_DIRECT)");
	else if (f->durable)
		snprintf(out, CACHE_TEXT, "used, flushed within the time");
	else
		snprintf(out, CACHE_TEXT, "used, not flushed: not the device's speed");
}

void cache_describe_objects(char out[CACHE_TEXT], bool read, bool durable,
			    const struct sluice_path_info *path, const struct sluice_stats *st)
{
	/* Parts of pages are written through the page cache; they are read past it all the same. */
	bool past = st->blocks_direct && !(st->fallbacks & SLUICE_FELL_BUFFERED);
	struct cache_facts f = {
		.read = read,
		.engine = st->engine,
		.memory = path ? cache_memory_behind(path) : NULL,
		.direct = past && (read || !st->blocks_buffered),
		.durable = durable,
	};

	if (read && !past && !f.memory)
		f.memory = "written through the page cache before";
	if (path)
		cache_describe(out, &f);
	else
		snprintf(out, CACHE_TEXT, "not used (no files)");
}

int64_t cache_drop(const char *path, uint64_t len)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	int64_t left = 0;

	if (fd < 0)
		return -errno;
	/* Dirty pages cannot be dropped; a page just in use may need a second try. */
	fdatasync(fd);
	for (int i = 0; i < 3; i++) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		left = sluice_probe_resident(fd, 0, len);
		if (left <= 0)
			break;
	}
	return left;
}
