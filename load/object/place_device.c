/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block devices: what is on one before it is taken, and nothing left on it afterwards.  Tables and
 * file systems are at one of the ends, which are read, and libblkid knows their marks where it is
 * installed; what has neither is looked for in a block here and there.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/full_io.h"
#include "base/util.h"
#include "load/object/place_slab.h"

enum {
	INDEX_SHARE = 256, /* one part in so many is left for the index */
	DEVICE_PLACES = 1024,
	DEVICE_BLOCK = 4096,
};

uint64_t device_units(uint64_t bytes, uint32_t unit)
{
	uint64_t index = max_u64(SLAB_HEAD, bytes / INDEX_SHARE);

	return bytes > SLAB_HEAD + index ? (bytes - SLAB_HEAD - index) / unit : 0;
}

/* ---------------------------------------------------------------- libblkid */

/* Its functions, as far as they are needed. */
struct blkid {
	void *(*new_probe)(void);
	void (*free_probe)(void *probe);
	int (*probe_set_device)(void *probe, int fd, int64_t offset, int64_t size);
	int (*probe_enable_partitions)(void *probe, int enable);
	int (*do_safeprobe)(void *probe);
	int (*probe_lookup_value)(void *probe, const char *name, const char **data, size_t *len);
};

static bool blkid_load(struct blkid *b, void *lib)
{
	const struct {
		const char *name;
		void *to;
	} table[] = {
		{"blkid_new_probe", &b->new_probe},
		{"blkid_free_probe", &b->free_probe},
		{"blkid_probe_set_device", &b->probe_set_device},
		{"blkid_probe_enable_partitions", &b->probe_enable_partitions},
		{"blkid_do_safeprobe", &b->do_safeprobe},
		{"blkid_probe_lookup_value", &b->probe_lookup_value},
	};
	void *symbol;

	for (size_t i = 0; lib && i < ARRAY_SIZE(table); i++) {
		symbol = dlsym(lib, table[i].name);
		if (!symbol)
			return false;
		memcpy(table[i].to, &symbol, sizeof(symbol));
	}
	return lib != NULL;
}

/* What libblkid takes it for, "" for nothing or where there is no libblkid. */
static void blkid_name(char out[64], int fd)
{
	static const char *const keys[] = {"TYPE", "PTTYPE"};
	void *lib = dlopen("libblkid.so.1", RTLD_NOW | RTLD_LOCAL), *probe;
	const char *what = NULL;
	struct blkid b;
	int r;

	out[0] = '\0';
	probe = blkid_load(&b, lib) ? b.new_probe() : NULL;
	if (probe && b.probe_set_device(probe, fd, 0, 0) == 0) {
		b.probe_enable_partitions(probe, 1);
		r = b.do_safeprobe(probe); /* 1: nothing; -2: several things at once */
		for (size_t i = 0; r == 0 && !what && i < ARRAY_SIZE(keys); i++)
			b.probe_lookup_value(probe, keys[i], &what, NULL);
		if (r == 0 || r == -2)
			snprintf(out, 64, "%s", what ? what : "several things at once");
	}
	if (probe)
		b.free_probe(probe);
	if (lib)
		dlclose(lib);
}

/* ------------------------------------------------------------------- bytes */

/*
 * Call @visit for every range that counts: both ends, and a block here and there.  A device that
 * is too small to be a slab has none.
 */
static int device_visit(int fd, uint64_t bytes, bool (*visit)(int fd, uint64_t at, uint64_t len))
{
	uint64_t step = align_down(max_u64(bytes / DEVICE_PLACES, DEVICE_BLOCK), DEVICE_BLOCK);
	uint64_t end = bytes - SLAB_HEAD;
	bool good;

	if (bytes <= 2 * SLAB_HEAD)
		return -ENOSPC;
	good = visit(fd, end, SLAB_HEAD);
	for (uint64_t at = SLAB_HEAD; good && at < end; at += step)
		good = visit(fd, at, min_u64(DEVICE_BLOCK, end - at));
	return good && visit(fd, 0, SLAB_HEAD) ? 0 : -EEXIST;
}

static bool all_zero(int fd, uint64_t at, uint64_t len)
{
	char buf[DEVICE_BLOCK];
	uint64_t n;

	for (uint64_t end = at + len; at < end; at += n) {
		n = min_u64(end - at, sizeof(buf));
		if (slab_read(fd, buf, n, at) < 0 || buf[0] || memcmp(buf, buf + 1, n - 1))
			return false;
	}
	return true;
}

static bool make_zero(int fd, uint64_t at, uint64_t len)
{
	static const char zero[DEVICE_BLOCK];
	uint64_t n;

	for (uint64_t end = at + len; at < end; at += n) {
		n = min_u64(end - at, sizeof(zero));
		if (penstock_full_pwrite(fd, zero, n, at) < 0)
			return false;
	}
	return true;
}

int device_check_empty(int fd, uint64_t bytes, bool ours, const char *path,
		       struct penstock_err *err)
{
	char what[64];
	bool good;

	blkid_name(what, fd);
	if (what[0])
		return penstock_fail(
			err, -EEXIST,
			"%s: holds %s; clear it (wipefs -a) if nothing on it is needed", path,
			what);
	if (ours)
		good = all_zero(fd, sizeof(struct slab_head), SLAB_HEAD - sizeof(struct slab_head));
	else
		good = device_visit(fd, bytes, all_zero) == 0;
	return good ? 0
		    : penstock_fail(err, -EEXIST,
				    "%s: is not a slab of penstock's; clear it (blkdiscard -z) "
				    "if nothing on it is needed",
				    path);
}

/* The head goes last: until then it is ours. */
int device_clear(int fd, uint64_t bytes)
{
	errno = EIO;
	if (device_visit(fd, bytes, make_zero) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}
