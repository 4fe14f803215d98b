/* SPDX-License-Identifier: Apache-2.0 */
/* What is at the path of a slab: opened once, and what is said of it is true of what is open. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/place_inspection.h"
#include "load/object/place_journal.h"
#include "load/object/place_slab.h"

static int inspect_device(struct slab_inspection *l, const char *path, struct penstock_err *err)
{
	if (ioctl(l->fd, BLKGETSIZE64, &l->bytes) < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	return device_check_empty(l->fd, l->bytes, l->ours, path, err);
}

/* Where others may write, a head says nothing. */
static int inspect_file(struct slab_inspection *l, const struct stat *st, const char *path,
			bool known, struct penstock_err *err)
{
	int r = l->ours ? 0 : refuse_striped_file(path, err);

	l->bytes = (uint64_t)st->st_size;
	if (r < 0)
		return r;
	if (!l->ours && !known)
		return penstock_fail(
			err, -EEXIST,
			"%s: is not a slab of penstock's; remove it, or use another name", path);
	if (!file_is_private(st))
		return penstock_fail(
			err, -EPERM,
			"%s: belongs to somebody else (user %u), or others may write to "
			"it; remove it, or use another name",
			path, st->st_uid);
	return 0;
}

static int inspect_open_file(struct slab_inspection *l, const char *path, bool write, bool known,
			     struct penstock_err *err)
{
	struct stat st;
	int r;

	if (fstat(l->fd, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	if (S_ISBLK(st.st_mode) != l->device || S_ISREG(st.st_mode) == l->device)
		return penstock_fail(err, -EAGAIN, "%s: has been replaced", path);
	if (write && flock(l->fd, LOCK_EX | LOCK_NB) < 0)
		return penstock_fail(err, -EBUSY, "%s: is in use by another run", path);
	r = slab_head_read(&l->head, l->fd);
	if (r < 0)
		return penstock_fail(err, r, "%s: %s", path, strerror(-r));
	l->ours = r > 0;
	return l->device ? inspect_device(l, path, err) : inspect_file(l, &st, path, known, err);
}

static int open_slab(const struct slab_inspection *l, int dir, const char *name, bool write)
{
	int flags = (write ? O_RDWR : O_RDONLY) | O_CLOEXEC;

	if (!l->device)
		flags |= O_NOFOLLOW;
	else if (write)
		flags |= O_EXCL; /* refused while it is mounted */
	return openat(dir, name, flags);
}

int slab_inspect(struct slab_inspection *l, int dir, const char *name, const char *path, bool write,
		 bool known, struct penstock_err *err)
{
	size_t n = strlen(name);
	struct stat st;
	int r;

	*l = (struct slab_inspection){.fd = -1, .folder = n && name[n - 1] == '/'};
	if (fstatat(dir, name, &st, 0) < 0)
		return errno == ENOENT
			       ? refuse_striped_folder(path, err)
			       : penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	l->exists = true;
	l->folder = S_ISDIR(st.st_mode);
	l->device = S_ISBLK(st.st_mode);
	if (l->folder)
		return 0;
	if (!l->device && !S_ISREG(st.st_mode))
		return penstock_fail(err, -EEXIST,
				     "%s: is neither a file, a block device nor a folder", path);
	l->fd = open_slab(l, dir, name, write);
	if (l->fd < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	r = inspect_open_file(l, path, write, known, err);
	if (r < 0)
		close(l->fd);
	return r;
}

/* One that is not to be used now. */
static int slab_inspect_readonly(struct slab_inspection *l, int dir, const char *name,
				 const char *path, struct penstock_err *err)
{
	int r = slab_inspect(l, dir, name, path, false, false, err);

	if (r == 0 && l->fd >= 0)
		close(l->fd);
	return r;
}

bool slab_is_kept(const char *path)
{
	struct slab_inspection l;
	char inside[PLACE_PATH];

	if (slab_inspect_readonly(&l, AT_FDCWD, path, path, NULL) < 0)
		return false;
	if (l.folder && journal_is_kept(path))
		return true;
	snprintf(inside, sizeof(inside), "%s/" SLAB_FILE, path);
	if (l.folder && slab_inspect_readonly(&l, AT_FDCWD, inside, inside, NULL) < 0)
		return false;
	return l.ours && l.head.kept;
}

int slab_check(const struct place_opts *o, uint64_t *ret_free_bytes, struct penstock_err *err)
{
	uint32_t unit = o->unit ? o->unit : PLACE_UNIT;
	struct slab_inspection l;
	uint64_t freed = 0;
	struct stat st;
	dev_t dev;
	int r = slab_inspect_readonly(&l, AT_FDCWD, o->paths[0], o->paths[0], err);

	if (r < 0)
		return r;
	if (l.device) {
		*ret_free_bytes = device_units(l.bytes, unit) * unit;
		return 0;
	}
	if (l.folder)
		r = dir_check(o->paths[0], o, &freed, err);
	else if (l.exists && stat(o->paths[0], &st) == 0)
		freed = (uint64_t)st.st_blocks * 512;
	if (r == 0)
		r = dir_free_bytes(o->paths[0], ret_free_bytes, &dev, err);
	*ret_free_bytes += freed;
	*ret_free_bytes -= min_u64(*ret_free_bytes, SLAB_HEAD);
	return r;
}
