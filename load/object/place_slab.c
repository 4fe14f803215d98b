/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slab: one file or block device, opened, stretched, kept and removed.  A file has its head
 * before it has its name, so that a run that is killed leaves nothing that is not known again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/full_io.h"
#include "base/size.h"
#include "base/util.h"
#include "load/object/place_slab.h"

/* ---------------------------------------------------------------- its space */

static int slab_reserve(struct place *p, uint64_t units, struct penstock_err *err)
{
	uint64_t bytes = slab_index_offset(units, p->unit);
	char text[PENSTOCK_SIZE_TEXT];
	int r;

	if (p->slab_device)
		return 0;
	do {
		r = fallocate(p->slab_fd, 0, 0, (off_t)bytes);
	} while (r < 0 && errno == EINTR);
	if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		r = ftruncate(p->slab_fd, (off_t)bytes);
	return r < 0 ? penstock_fail(err, -errno, "%s: cannot reserve %s: %s", p->slab,
				     penstock_size_format(text, bytes), strerror(errno))
		     : 0;
}

static int slab_map(struct place *p, uint64_t units, struct penstock_err *err)
{
	p->map = extent_map_new(units, units, (uint32_t)max_u64(1, SLAB_HEAD / p->unit), false);
	return p->map ? 0 : penstock_fail(err, -ENOMEM, "%s: no memory for its map", p->slab);
}

int slab_stretch(struct place *p, uint64_t units)
{
	int r;

	if (!p->o.stretch || p->slab_device)
		return -ENOSPC;
	units += extent_map_units(p->map);
	r = units > UINT32_MAX ? -ENOSPC : slab_reserve(p, units, NULL);
	return r < 0 ? r : extent_map_extend(p->map, units);
}

/* How many units there are to be. */
static int slab_units(const struct place *p, const struct slab_inspection *l, bool reopen,
		      uint64_t *ret, struct penstock_err *err)
{
	uint64_t units = p->o.capacity / p->unit, max_units = UINT32_MAX;
	char text[PENSTOCK_SIZE_TEXT];

	if (l->device)
		max_units = device_units(l->bytes, p->unit);
	if (reopen)
		units = max_u64(units, l->head.units);
	else if (l->device && !units)
		units = max_units;
	if (units > max_units)
		return penstock_fail(err, -ENOSPC, "%s: has room for %" PRIu64 " bytes only",
				     p->slab, max_units * p->unit);
	if (!units)
		return penstock_fail(err, -EINVAL,
				     "%s: a capacity of at least one unit (%s) is needed", p->slab,
				     penstock_size_format(text, p->unit));
	*ret = units;
	return 0;
}

/* --------------------------------------------------------------- making it */

/* A file without a name where the file system has such, else one of that name: -EEXIST. */
static int make_unnamed(const struct place *p, bool *ret_named)
{
	int fd = openat(p->slab_dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0644);

	*ret_named = fd < 0;
	if (fd < 0)
		fd = openat(p->slab_dir, p->slab_name,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : fd;
}

/* By its number only for who may, else by way of /proc. */
static int name_it(const struct place *p, int fd)
{
	char link[32];

	if (linkat(fd, "", p->slab_dir, p->slab_name, AT_EMPTY_PATH) == 0)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, link, p->slab_dir, p->slab_name, AT_SYMLINK_FOLLOW) < 0 ? -errno
											: 0;
}

/* Into the marker of the folder, before it has its name. */
static int note_slab(struct place *p)
{
	int r = p->dirs ? dir_file_claim(&p->dirs[0], SLAB_FILE, NULL, 0) : 0;

	return r == 0 && p->dirs ? dir_file_made(&p->dirs[0], SLAB_FILE, p->slab_fd) : r;
}

static int slab_make(struct place *p, uint64_t units, struct penstock_err *err)
{
	bool named;
	int r;

	p->slab_fd = make_unnamed(p, &named);
	r = p->slab_fd < 0 ? p->slab_fd : 0;
	p->slab_made = r == 0 && named;
	if (r == 0 && flock(p->slab_fd, LOCK_EX | LOCK_NB) < 0)
		r = -errno;
	if (r == 0)
		r = note_slab(p);
	if (r == 0)
		r = slab_head_write(p, p->slab_fd, units, false);
	if (r == 0 && !named) {
		r = name_it(p, p->slab_fd);
		p->slab_made = r == 0;
	}
	if (r == 0 && p->dirs)
		r = dir_file_complete(&p->dirs[0], SLAB_FILE);
	return r < 0 ? penstock_fail(err, r, "%s: %s", p->slab, strerror(-r)) : 0;
}

/* ---------------------------------------------------------------- opening it */

/* Take over what an earlier run kept. */
static int slab_reopen(struct place *p, const struct slab_inspection *l, uint64_t units,
		       struct penstock_err *err)
{
	const struct slab_head *h = &l->head;
	int r;

	if (!slab_head_fits(h, l->bytes)) /* before there is a map of what it says */
		return slab_damaged(p, err);
	if (h->unit != p->unit)
		return penstock_fail(
			err, -EINVAL,
			"%s: has units of %u bytes, %u are needed; use the same capacity "
			"to take over its objects, or have them removed (--fresh)",
			p->slab, h->unit, p->unit);
	r = slab_map(p, units, err);
	return r < 0 ? r : slab_index_load(p, h, err);
}

/* The head first: whatever happens then, it is ours. */
static int slab_restart(struct place *p, uint64_t units, struct penstock_err *err)
{
	int r = slab_head_write(p, p->slab_fd, units, false);

	if (r == 0 && !p->slab_device && ftruncate(p->slab_fd, SLAB_HEAD) < 0)
		r = -errno;
	if (r < 0)
		return penstock_fail(err, r, "%s: %s", p->slab, strerror(-r));
	return slab_map(p, units, err);
}

static int slab_ready(struct place *p, const struct slab_inspection *l, struct penstock_err *err)
{
	bool reopen = p->o.reuse && l->ours && l->head.kept;
	uint64_t units = 0;
	int r;

	p->slab_fd = l->fd;
	p->slab_device = l->device;
	p->slab_bytes = l->bytes;
	r = slab_units(p, l, reopen, &units, err);
	if (r == 0 && !l->exists)
		r = slab_make(p, units, err);
	if (r < 0)
		return r;
	r = reopen ? slab_reopen(p, l, units, err) : slab_restart(p, units, err);
	if (r == 0)
		r = slab_reserve(p, units, err);
	if (r < 0)
		return r;
	r = slab_head_write(p, p->slab_fd, units, false); /* from here on there is no index */
	if (r < 0)
		return penstock_fail(err, r, "%s: %s", p->slab, strerror(-r));
	p->slab_made = !l->device; /* what an earlier run made is ours now */
	return 0;
}

/* Which folder it is in, and under which name: the folder stays the same whatever is renamed. */
static int slab_find(struct place *p, bool inside, struct penstock_err *err)
{
	CLEANUP_FREE char *path = strdup(p->paths[0]), *copy = strdup(p->paths[0]);
	int r;

	p->slab = malloc(PLACE_PATH);
	if (!p->slab || !path || !copy)
		return penstock_fail(err, -ENOMEM, "out of memory");
	snprintf(p->slab, PLACE_PATH, inside ? "%s/" SLAB_FILE : "%s", path);
	if (!inside) {
		p->slab_dir = open(dirname(path), O_PATH | O_DIRECTORY | O_CLOEXEC);
		snprintf(p->slab_name, sizeof(p->slab_name), "%s", basename(copy));
		return p->slab_dir < 0
			       ? penstock_fail(err, -errno, "%s: %s", p->slab, strerror(errno))
			       : 0;
	}
	r = dirs_open(p, err);
	if (r == 0)
		p->slab_dir = p->dirs[0].fd;
	snprintf(p->slab_name, sizeof(p->slab_name), SLAB_FILE);
	return r;
}

int slab_open(struct place *p, struct penstock_err *err)
{
	size_t n = strlen(p->paths[0]);
	struct slab_inspection l;
	struct stat st;
	bool inside;
	int r;

	inside = stat(p->paths[0], &st) == 0 ? S_ISDIR(st.st_mode) : p->paths[0][n - 1] == '/';
	r = slab_find(p, inside, err);
	if (r == 0)
		r = slab_inspect(&l, p->slab_dir, p->slab_name, p->slab, true, inside, err);
	if (r == 0 && l.folder)
		r = penstock_fail(err, -EEXIST, "%s: is a folder", p->slab);
	return r < 0 ? r : slab_ready(p, &l, err);
}

/* Is what has the name now what is open? */
static bool slab_is_there(const struct place *p, int fd)
{
	struct stat is, was;

	return (fd < 0 ? fstatat(p->slab_dir, p->slab_name, &is, AT_SYMLINK_NOFOLLOW)
		       : fstat(fd, &is)) == 0 &&
	       fstat(p->slab_fd, &was) == 0 && is.st_dev == was.st_dev && is.st_ino == was.st_ino;
}

int slab_open_again(const struct place *p)
{
	int fd = openat(p->slab_dir, p->slab_name,
			O_RDWR | O_CLOEXEC | (p->slab_device ? 0 : O_NOFOLLOW));

	if (fd < 0)
		return -errno;
	if (slab_is_there(p, fd))
		return fd;
	close(fd);
	return -ESTALE;
}

/* ------------------------------------------------------------------ the end */

static int write_index(struct place *p)
{
	uint64_t units = extent_map_units(p->map);
	int r;

	for (uint64_t i = 0; i < p->nr_old; i++) /* what nobody has asked for stays */
		if (!p->old[i].adopted)
			slab_keep(p, &p->old[i]);
	if (p->index_failed)
		return -ENOMEM;
	r = penstock_full_pwrite(p->slab_fd, p->index, p->index_len,
				 slab_index_offset(units, p->unit));
	if (r == 0 && fsync(p->slab_fd) < 0)
		r = -errno;
	if (r == 0)
		r = slab_head_write(p, p->slab_fd, units, true);
	if (r == 0 && fsync(p->slab_fd) < 0)
		r = -errno;
	return r;
}

/*
 * The space of a slab of our own is given back now: an io_uring that is being taken down holds
 * the file for a moment after it has been removed.  One in a folder goes with the other files
 * there.
 */
static int slab_remove(const struct place *p)
{
	if (p->slab_device)
		return p->ready ? device_clear(p->slab_fd, p->slab_bytes) : 0;
	if (!p->slab_made)
		return 0;
	if (!p->dirs && slab_is_there(p, -1) && unlinkat(p->slab_dir, p->slab_name, 0) < 0)
		return -errno;
	return ftruncate(p->slab_fd, p->dirs ? SLAB_HEAD : 0) < 0 ? -errno : 0;
}

int slab_close(struct place *p, struct penstock_err *err)
{
	int r = 0, first = 0;

	if (p->slab_fd >= 0)
		r = p->o.keep && p->ready ? write_index(p) : slab_remove(p);
	if (r < 0)
		first = penstock_fail(err, r, "%s: %s", p->slab, strerror(-r));
	if (p->slab_fd >= 0)
		close(p->slab_fd);
	if (p->dirs) {
		r = dirs_close(p, first ? NULL : err);
		first = first ? first : r;
	} else if (p->slab_dir >= 0) {
		close(p->slab_dir);
	}
	free(p->slab);
	free(p->index);
	return first;
}
