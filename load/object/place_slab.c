/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slab: one file or block device, with a head of 1 MiB that says whose it is, then the units,
 * then the index of the objects, which is written only when they are kept: while a slab is in use
 * its head says that there is none.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/object/place.h"
#include "load/object/place_book.h"

#define SLAB_FILE  "objects.slab"
#define SLAB_MAGIC "sluice slab 1\n\x01"

enum {
	INDEX_SHARE = 256, /* of a block device one part in so many is left for the index */
	PROBES = 1024,     /* blocks of a device that are looked at before it is taken */
};

struct slab_head {
	char magic[16];
	uint64_t owner, units;
	uint32_t unit, kept;
	uint64_t index_len, index_id, objects;
	char zero[4096 - 64];
};

/* One object in the index: then its extents, its name, its shape. */
struct slab_entry {
	uint64_t size, content;
	uint32_t nr_extents, name_len, shape_len, element;
};

/* What is at the path. */
struct slab_look {
	bool exists, folder, device, ours;
	uint64_t bytes; /* of a device */
	struct slab_head head;
};

static uint64_t index_offset(uint64_t units, uint32_t unit)
{
	return SLAB_HEAD + units * unit;
}

static int read_at(int fd, void *buf, uint64_t len, uint64_t at)
{
	ssize_t n;

	for (; len; buf = (char *)buf + n, len -= (uint64_t)n, at += (uint64_t)n) {
		n = pread(fd, buf, min_u64(len, 1u << 30), (off_t)at);
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
	}
	return 0;
}

static int write_at(int fd, const void *buf, uint64_t len, uint64_t at)
{
	ssize_t n;

	for (; len; buf = (const char *)buf + n, len -= (uint64_t)n, at += (uint64_t)n) {
		n = pwrite(fd, buf, min_u64(len, 1u << 30), (off_t)at);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
	}
	return 0;
}

/* ------------------------------------------------------------ looking at it */

static bool all_zero(int fd, uint64_t at, uint64_t len)
{
	char buf[4096];
	uint64_t n;

	for (uint64_t end = at + len; at < end; at += n) {
		n = min_u64(end - at, sizeof(buf));
		if (read_at(fd, buf, n, at) < 0 || buf[0] || memcmp(buf, buf + 1, n - 1))
			return false;
	}
	return true;
}

/*
 * Tables and file systems are at one of the ends, which are read; what has neither is looked for
 * in a block here and there.
 */
static bool looks_empty(int fd, uint64_t bytes)
{
	uint64_t step = align_down(max_u64(bytes / PROBES, 4096), 4096);

	if (bytes <= 2 * SLAB_HEAD || !all_zero(fd, 0, SLAB_HEAD) ||
	    !all_zero(fd, bytes - SLAB_HEAD, SLAB_HEAD))
		return false;
	for (uint64_t at = SLAB_HEAD; at < bytes - SLAB_HEAD; at += step)
		if (!all_zero(fd, at, 4096))
			return false;
	return true;
}

static int look_inside(struct slab_look *l, int fd, const char *path, struct sluice_err *err)
{
	int r = read_at(fd, &l->head, sizeof(l->head), 0);

	if (r < 0 && r != -ENODATA)
		return sluice_fail(err, r, "%s: %s", path, strerror(-r));
	l->ours = r == 0 && !memcmp(l->head.magic, SLAB_MAGIC, sizeof(l->head.magic));
	if (l->device && ioctl(fd, BLKGETSIZE64, &l->bytes) < 0)
		return sluice_fail(err, -errno, "%s: %s", path, strerror(errno));
	if (l->ours)
		return 0;
	if (l->device && looks_empty(fd, l->bytes))
		return 0;
	return sluice_fail(err, -EEXIST, "%s: is not a slab of sluice's; %s", path,
			   l->device ? "clear it (blkdiscard -z) if nothing on it is needed"
				     : "remove it, or use another name");
}

static int look(struct slab_look *l, const char *path, struct sluice_err *err)
{
	size_t n = strlen(path);
	struct stat st;
	int r;

	*l = (struct slab_look){.folder = n && path[n - 1] == '/'};
	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0
				       : sluice_fail(err, -errno, "%s: %s", path, strerror(errno));
	l->exists = true;
	l->folder = S_ISDIR(st.st_mode);
	l->device = S_ISBLK(st.st_mode);
	if (l->folder)
		return 0;
	if (!l->device && !S_ISREG(st.st_mode))
		return sluice_fail(err, -EEXIST,
				   "%s: is neither a file, a block device nor a folder", path);
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return sluice_fail(err, -errno, "%s: %s", path, strerror(errno));
	r = look_inside(l, fd, path, err);
	return r;
}

bool slab_is_kept(const char *path)
{
	struct slab_look l;
	char inside[PLACE_PATH];

	if (look(&l, path, NULL) < 0)
		return false;
	if (l.folder && book_is_kept(path))
		return true;
	snprintf(inside, sizeof(inside), "%s/%s", path, SLAB_FILE);
	if (l.folder && look(&l, inside, NULL) < 0)
		return false;
	return l.ours && l.head.kept;
}

/* Units that a device has room for, beside head and index. */
static uint64_t device_units(uint64_t bytes, uint32_t unit)
{
	uint64_t index = max_u64(SLAB_HEAD, bytes / INDEX_SHARE);

	return bytes > SLAB_HEAD + index ? (bytes - SLAB_HEAD - index) / unit : 0;
}

int slab_check(const struct place_opts *o, uint64_t *ret_room, struct sluice_err *err)
{
	uint32_t unit = o->unit ? o->unit : PLACE_UNIT;
	struct slab_look l;
	uint64_t freed = 0;
	struct stat st;
	dev_t dev;
	int r = look(&l, o->paths[0], err);

	if (r < 0)
		return r;
	if (l.device) {
		*ret_room = device_units(l.bytes, unit) * unit;
		return 0;
	}
	if (l.folder)
		r = dir_check(o->paths[0], o, &freed, err);
	else if (l.exists && stat(o->paths[0], &st) == 0)
		freed = (uint64_t)st.st_blocks * 512;
	if (r == 0)
		r = dir_free_bytes(o->paths[0], ret_room, &dev, err);
	*ret_room += freed;
	*ret_room -= min_u64(*ret_room, SLAB_HEAD);
	return r;
}

/* ---------------------------------------------------------------- the index */

int slab_keep(struct place *p, const struct place_old *o)
{
	struct slab_entry e = {.size = o->size,
			       .content = o->content,
			       .nr_extents = o->where.nr,
			       .name_len = o->name_len,
			       .shape_len = o->shape ? (uint32_t)strlen(o->shape) : 0,
			       .element = o->element};
	uint64_t extents = (uint64_t)e.nr_extents * sizeof(struct extent);
	uint64_t len = sizeof(e) + extents + e.name_len + e.shape_len;
	char *to;

	if (p->index_len + len > p->index_room) {
		uint64_t room = 2 * (p->index_len + len);
		void *more = realloc(p->index, room);

		if (!more) {
			p->index_failed = true;
			return -ENOMEM;
		}
		p->index = more;
		p->index_room = room;
	}
	to = (char *)p->index + p->index_len;
	memcpy(to, &e, sizeof(e));
	to += sizeof(e);
	if (extents)
		memcpy(to, extents_at(&o->where, 0), extents);
	to += extents;
	memcpy(to, o->name, e.name_len);
	if (e.shape_len)
		memcpy(to + e.name_len, o->shape, e.shape_len);
	p->index_len += len;
	p->index_nr++;
	return 0;
}

static char *copy_text(const char *from, uint32_t len)
{
	char *to = malloc((size_t)len + 1);

	if (to) {
		memcpy(to, from, len);
		to[len] = '\0';
	}
	return to;
}

/* One object of the index at *@at; -EINVAL when it does not add up. */
static int take_entry(struct place *p, const char **at, const char *end)
{
	struct slab_entry e;
	struct extent x;
	struct place_old *o;
	uint64_t units = 0;
	int r = 0;

	if ((uint64_t)(end - *at) < sizeof(e))
		return -EINVAL;
	memcpy(&e, *at, sizeof(e));
	*at += sizeof(e);
	if ((uint64_t)(end - *at) <
	    (uint64_t)e.nr_extents * sizeof(x) + e.name_len + (uint64_t)e.shape_len)
		return -EINVAL;
	o = place_old_add(p);
	if (!o)
		return -ENOMEM;
	o->size = e.size;
	o->content = e.content;
	o->element = (uint8_t)e.element;
	for (uint32_t i = 0; r == 0 && i < e.nr_extents; i++, *at += sizeof(x)) {
		memcpy(&x, *at, sizeof(x));
		r = extents_claim(&o->where, p->map, x);
		units += x.count;
	}
	if (r < 0 || units * p->unit < e.size)
		return r == -ENOMEM ? r : -EINVAL;
	o->name_len = e.name_len;
	o->name = copy_text(*at, e.name_len);
	o->shape = e.shape_len ? copy_text(*at + e.name_len, e.shape_len) : NULL;
	*at += e.name_len + e.shape_len;
	return o->name ? 0 : -ENOMEM;
}

static int load_index(struct place *p, const struct slab_head *h, struct sluice_err *err)
{
	CLEANUP_FREE char *index = malloc(h->index_len + 1);
	const char *at = index;
	int r = index ? read_at(p->slab_fd, index, h->index_len, index_offset(h->units, h->unit))
		      : -ENOMEM;

	if (r == 0 && content_id(index, h->index_len) != h->index_id)
		r = -EINVAL;
	for (uint64_t i = 0; r == 0 && i < h->objects; i++)
		r = take_entry(p, &at, index + h->index_len);
	if (r == -EINVAL)
		return sluice_fail(err, r, "%s: its index is damaged", p->slab);
	return r < 0 ? sluice_fail(err, r, "%s: cannot read its index: %s", p->slab, strerror(-r))
		     : 0;
}

static int write_head(const struct place *p, bool kept)
{
	struct slab_head h = {.magic = SLAB_MAGIC,
			      .owner = p->o.owner,
			      .units = extent_map_units(p->map),
			      .unit = p->unit,
			      .kept = kept};

	if (kept) {
		h.index_len = p->index_len;
		h.index_id = content_id(p->index ? p->index : "", p->index_len);
		h.objects = p->index_nr;
	}
	return write_at(p->slab_fd, &h, sizeof(h), 0);
}

/* ---------------------------------------------------------------- opening it */

static int open_file(struct place *p, const struct slab_look *l, struct sluice_err *err)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;

	if (l->device)
		flags = O_RDWR | O_CLOEXEC | O_EXCL; /* refused while it is mounted */
	else if (!l->exists)
		flags |= O_CREAT | O_EXCL;
	p->slab_fd = open(p->slab, flags, 0644);
	if (p->slab_fd < 0)
		return sluice_fail(err, -errno, "%s: %s", p->slab, strerror(errno));
	p->slab_device = l->device;
	if (flock(p->slab_fd, LOCK_EX | LOCK_NB) < 0)
		return sluice_fail(err, -EBUSY, "%s: is in use by another run", p->slab);
	p->slab_made = !l->exists;
	return 0;
}

static int reserve(struct place *p, uint64_t units, struct sluice_err *err)
{
	uint64_t bytes = index_offset(units, p->unit);
	char text[SLUICE_SIZE_TEXT];
	int r;

	if (p->slab_device)
		return 0;
	do {
		r = fallocate(p->slab_fd, 0, 0, (off_t)bytes);
	} while (r < 0 && errno == EINTR);
	if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		r = ftruncate(p->slab_fd, (off_t)bytes);
	return r < 0 ? sluice_fail(err, -errno, "%s: cannot reserve %s: %s", p->slab,
				   sluice_size_format(text, bytes), strerror(errno))
		     : 0;
}

static int make_map(struct place *p, uint64_t units, struct sluice_err *err)
{
	char text[SLUICE_SIZE_TEXT];

	if (!units)
		return sluice_fail(err, -EINVAL,
				   "%s: a capacity of at least one unit (%s) is needed", p->slab,
				   sluice_size_format(text, p->unit));
	p->map = extent_map_new(units, units, (uint32_t)max_u64(1, SLAB_HEAD / p->unit), false);
	return p->map ? 0 : sluice_fail(err, -ENOMEM, "%s: no memory for its map", p->slab);
}

/* Take over what an earlier run kept. */
static int reopen(struct place *p, const struct slab_look *l, struct sluice_err *err)
{
	const struct slab_head *h = &l->head;
	uint64_t units = max_u64(h->units, p->o.capacity / p->unit);
	int r;

	if (h->unit != p->unit)
		return sluice_fail(
			err, -EINVAL,
			"%s: has units of %u bytes, %u are needed; use the same capacity "
			"to take over its objects, or have them removed (--fresh)",
			p->slab, h->unit, p->unit);
	if (l->device && units > device_units(l->bytes, p->unit))
		return sluice_fail(err, -ENOSPC, "%s: has room for %" PRIu64 " bytes only", p->slab,
				   h->units * h->unit);
	r = make_map(p, units, err);
	if (r == 0)
		r = load_index(p, h, err);
	return r;
}

static int start_anew(struct place *p, const struct slab_look *l, struct sluice_err *err)
{
	uint64_t units = p->o.capacity / p->unit;
	int r;

	if (l->device) {
		uint64_t most = device_units(l->bytes, p->unit);

		if (units > most)
			return sluice_fail(err, -ENOSPC, "%s: has room for %" PRIu64 " bytes only",
					   p->slab, most * p->unit);
		units = units ? units : most;
	} else if (ftruncate(p->slab_fd, 0) < 0) {
		return sluice_fail(err, -errno, "%s: %s", p->slab, strerror(errno));
	}
	r = make_map(p, units, err);
	return r;
}

/* The slab in the folder, written down in its marker before it is made. */
static int open_in_folder(struct place *p, struct sluice_err *err)
{
	char path[PLACE_PATH];
	int r;

	r = dirs_open(p, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/%s", p->dirs[0].path, SLAB_FILE);
	free(p->slab);
	p->slab = strdup(path);
	if (!p->slab)
		return sluice_fail(err, -ENOMEM, "out of memory");
	if (faccessat(p->dirs[0].fd, SLAB_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	r = dir_note(&p->dirs[0], '+', SLAB_FILE, NULL, 0);
	if (r == 0)
		r = dir_note(&p->dirs[0], '=', SLAB_FILE, NULL, 0);
	return r < 0 ? sluice_fail(err, r, "%s: %s", p->slab, strerror(-r)) : 0;
}

int slab_open(struct place *p, struct sluice_err *err)
{
	struct slab_look l;
	int r;

	p->slab = strdup(p->paths[0]);
	if (!p->slab)
		return sluice_fail(err, -ENOMEM, "out of memory");
	r = look(&l, p->slab, err);
	if (r == 0 && l.folder) {
		r = open_in_folder(p, err);
		if (r == 0)
			r = look(&l, p->slab, err);
	}
	if (r == 0)
		r = open_file(p, &l, err);
	if (r < 0)
		return r;
	if (p->o.reuse && l.ours && l.head.kept)
		r = reopen(p, &l, err);
	else
		r = start_anew(p, &l, err);
	if (r == 0)
		r = reserve(p, extent_map_units(p->map), err);
	if (r < 0)
		return r;
	r = write_head(p, false); /* from here on there is no index */
	if (r < 0)
		return sluice_fail(err, r, "%s: %s", p->slab, strerror(-r));
	p->slab_made = !l.device; /* what an earlier run made is ours now */
	return 0;
}

int slab_stretch(struct place *p, uint64_t units)
{
	int r;

	if (!p->o.stretch || p->slab_device)
		return -ENOSPC;
	units += extent_map_units(p->map);
	r = reserve(p, units, NULL);
	return r < 0 ? r : extent_map_extend(p->map, units);
}

static int write_index(struct place *p)
{
	uint64_t at = index_offset(extent_map_units(p->map), p->unit);
	int r = 0;

	for (uint64_t i = 0; i < p->nr_old; i++) /* what nobody has asked for stays */
		if (!p->old[i].adopted)
			slab_keep(p, &p->old[i]);
	if (p->index_failed)
		return -ENOMEM;
	r = write_at(p->slab_fd, p->index, p->index_len, at);

	if (r == 0 && fsync(p->slab_fd) < 0)
		r = -errno;
	if (r == 0)
		r = write_head(p, true);
	if (r == 0 && fsync(p->slab_fd) < 0)
		r = -errno;
	return r;
}

/*
 * Give the space of a slab of our own back now: a ring that is being taken down holds the file
 * for a moment after it has been removed.
 */
static void give_back(const struct place *p)
{
	if (p->slab_made && ftruncate(p->slab_fd, 0) < 0)
		return; /* it goes with the file */
}

int slab_close(struct place *p, struct sluice_err *err)
{
	bool folder = p->dirs != NULL;
	int r = 0, first = 0;

	if (p->slab_fd >= 0 && p->o.keep && p->ready) {
		r = write_index(p);
	} else if (p->slab_fd >= 0) {
		give_back(p);
		if (p->slab_made && !folder && unlink(p->slab) < 0)
			r = -errno;
	}
	if (r < 0)
		first = sluice_fail(err, r, "%s: %s", p->slab, strerror(-r));
	if (p->slab_fd >= 0)
		close(p->slab_fd);
	if (folder) {
		r = dirs_close(p, first ? NULL : err);
		first = first ? first : r;
	}
	free(p->slab);
	free(p->index);
	return first;
}
