/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files: with O_DIRECT where it is taken, without where it is not, and saying which. */
#include "file/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <linux/fs.h>
#include <linux/magic.h>

#include "base/err.h"
#include "base/util.h"
#include "file/direct_align.h"
#include "file/object_file.h"
#include "file/stripe.h"

enum { OPEN_TRIES = 16 };

/* Open @fd's file once more with other flags; works for renamed and deleted files too. */
static int reopen_fd(int fd, int flags)
{
	char link[32];
	int r;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	r = open(link, flags | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

static void set_why(struct penstock_backing *s, const char *why)
{
	pthread_mutex_lock(&s->lock);
	if (!s->why[0])
		snprintf(s->why, sizeof(s->why), "%s", why);
	pthread_mutex_unlock(&s->lock);
}

/*
 * Regular files and block devices have offsets; pipes, sockets and directories do not.  1: it
 * may be a manifest.  2: it may become one.
 */
static int check_kind(struct penstock_backing *s, const char *name, struct penstock_err *err)
{
	struct statfs fs;
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return penstock_fail(err, -errno, "%s: fstat: %s", name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return penstock_fail(err, -EISDIR, "%s: is a directory; a file is needed", name);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return penstock_fail(err, -ESPIPE,
				     "%s: is neither a regular file nor a block device", name);
	s->device = S_ISBLK(st.st_mode);
	s->dev = s->device ? st.st_rdev : st.st_dev;
	s->ino = st.st_ino;
	if (fstatfs(s->fd, &fs) < 0)
		fs.f_type = 0;
	s->fuse = fs.f_type == FUSE_SUPER_MAGIC;
	s->tmpfs = fs.f_type == TMPFS_MAGIC;
	if (!s->device && !st.st_size && st.st_nlink && s->access != O_RDONLY)
		return 2;
	return !s->device && penstock_manifest_fits_size(st.st_size);
}

/* The manifest of a striped file?  0: no. */
static int read_manifest(int file, struct penstock_manifest **out, const char *name,
			 struct penstock_err *err)
{
	CLEANUP_CLOSE int fd = reopen_fd(file, O_RDONLY);
	int r = fd < 0 ? 0 : penstock_manifest_read(out, fd);

	if (r < 0)
		return penstock_fail(err, r, "%s: %s", name,
				     r == -EBADMSG ? "is the damaged manifest of a striped file"
						   : strerror(-r));
	return r;
}

/* What O_DIRECT asks for.  A file system may take the flag and give no alignment. */
static void find_alignment(struct penstock_backing *s)
{
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	const char *from;

	s->mem_align = s->off_align = 1;
	if (!s->direct)
		return;
	if (penstock_direct_align_find(s->fd, &s->mem_align, &s->off_align, &from) < 0) {
		set_why(s, "the file system does not do direct I/O on this file");
		s->direct = false;
		s->mem_align = s->off_align = 1;
		return;
	}
	/*
	 * Whole pages only for direct writes: a page that is partly written
	 * through the page cache and partly past it would lose one of the two.
	 */
	s->write_align = s->off_align > page ? s->off_align : page;
}

static void backing_init(struct penstock_backing *s, int fd)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->buffered_fd = -1;
	s->borrowed = -1;
	s->write_align = 1;
	pthread_mutex_init(&s->lock, NULL);
}

/* O_NONBLOCK: a FIFO must not hold us up before it can be refused. */
static int open_at(const char *path, int flags, unsigned mode)
{
	int fd;

	do {
		fd = open(path, flags | O_NONBLOCK, mode);
	} while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

/* Switch flags of an open file description that is ours alone; 0 or -errno. */
static int set_flags(int fd, int on, int off)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, (flags | on) & ~off) < 0)
		return -errno;
	return 0;
}

/* The caller or the alignment query said no: go on without O_DIRECT. */
static int drop_direct(struct penstock_backing *s)
{
	int flags, fd;

	if (s->fd != s->borrowed)
		return set_flags(s->fd, 0, O_DIRECT);

	flags = fcntl(s->fd, F_GETFL);
	if (flags < 0)
		return -errno;
	if (!(flags & O_DIRECT))
		return 0;
	fd = reopen_fd(s->fd, s->access | (flags & (O_SYNC | O_DSYNC)));
	if (fd < 0)
		return fd;
	s->fd = fd;
	return 0;
}

/* 1: it is a striped file, and open. */
static int open_if_striped(struct penstock_backing *s, const char *name, uint32_t direct,
			   bool fresh, struct penstock_err *err)
{
	struct penstock_manifest *m;
	int r = fresh ? penstock_stripe_convert(s, &m, err) : read_manifest(s->fd, &m, name, err);

	if (r != 1)
		return r;
	if (m->folder) { /* its folder manifest is a file like others */
		penstock_manifest_free(m);
		return 0;
	}
	r = penstock_stripe_open(s, m, name, direct, err);
	if (r < 0)
		return r;
	s->stripe->manifest_unsynced = fresh;
	return 1;
}

static int finish_open(struct penstock_backing *s, const char *name, uint32_t direct, bool member,
		       struct penstock_err *err)
{
	int r = check_kind(s, name, err);

	if (r > 0)
		r = member ? 0 : open_if_striped(s, name, direct, r == 2, err);
	if (r)
		return r < 0 ? r : 0;
	find_alignment(s);
	if (direct == PENSTOCK_DIRECT_ALWAYS && !s->direct)
		return penstock_fail(err, -EINVAL, "%s: O_DIRECT was asked for: %s", name, s->why);
	if (!s->direct) {
		r = drop_direct(s);
		if (r < 0)
			return penstock_fail(err, r, "%s: cannot reopen without O_DIRECT: %s", name,
					     strerror(-r));
		s->buffered_fd = s->fd;
	}
	return 0;
}

/*
 * Open with O_DIRECT, or without where it is refused (*ret_direct).  O_EXCL succeeds
 * once, even when the flag is refused after the file was made: set the flag later.
 */
static int open_try_direct(const char *path, int flags, unsigned mode, bool *ret_direct)
{
	int fd = -EINVAL;

	if (!(flags & O_EXCL))
		fd = open_at(path, flags | O_DIRECT, mode);
	*ret_direct = fd >= 0;
	if (fd != -EINVAL && fd != -EOPNOTSUPP)
		return fd;
	fd = open_at(path, flags, mode);
	if (fd >= 0 && (flags & O_EXCL))
		*ret_direct = set_flags(fd, O_DIRECT, 0) == 0;
	return fd;
}

/* @fd is ours from here on; @direct_now: O_DIRECT is set. */
static int open_new_fd(struct penstock_backing *s, int fd, int oflags, bool direct_now,
		       const char *name, uint32_t direct, bool member, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	int r;

	backing_init(s, fd);
	set_flags(fd, 0, O_NONBLOCK);
	s->access = oflags & O_ACCMODE;
	s->synced = oflags & (O_SYNC | O_DSYNC);
	s->direct_only = direct == PENSTOCK_DIRECT_ALWAYS;
	s->direct = direct_now;
	if (!direct_now)
		set_why(s, direct == PENSTOCK_DIRECT_NEVER
				   ? "O_DIRECT was not asked for"
				   : "the file system refuses O_DIRECT at open");
	r = finish_open(s, penstock_shorten_name(&short_name, name), direct, member, err);
	if (r < 0)
		penstock_backing_close(s);
	return r;
}

static int open_path(struct penstock_backing *s, const char *path, int oflags, unsigned mode,
		     uint32_t direct, bool member, struct penstock_err *err)
{
	int flags = (oflags & ~(O_DIRECT | O_APPEND)) | O_CLOEXEC | O_NOCTTY;
	struct penstock_short_name short_name;
	bool got = false;
	int fd;

	if (direct == PENSTOCK_DIRECT_NEVER)
		fd = open_at(path, flags, mode);
	else
		fd = open_try_direct(path, flags, mode, &got);
	if (fd < 0)
		return penstock_fail(err, fd, "%s: cannot open for %s: %s",
				     penstock_shorten_name(&short_name, path),
				     (oflags & O_ACCMODE) == O_RDONLY ? "reading" : "writing",
				     strerror(-fd));
	return open_new_fd(s, fd, oflags, got, path, direct, member, err);
}

/* O_TRUNC would make a manifest nothing before anybody has seen what it was. */
static bool is_manifest_at(const char *path)
{
	struct penstock_manifest *m = NULL;
	CLEANUP_CLOSE int fd = open_at(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);

	if (fd < 0 || penstock_manifest_read(&m, fd) == 0)
		return false;
	penstock_manifest_free(m);
	return true; /* a damaged one, too */
}

/* Another file has come to its name, and the members of a striped one are gone. */
static bool was_replaced(const struct penstock_backing *s, const char *path)
{
	struct stat st;

	return s->ino && !s->device && stat(path, &st) == 0 &&
	       (st.st_ino != s->ino || st.st_dev != s->dev);
}

int penstock_backing_open(struct penstock_backing *s, const char *path, int oflags, unsigned mode,
			  uint32_t direct, struct penstock_err *err)
{
	bool truncates =
		(oflags & O_TRUNC) && (oflags & O_ACCMODE) != O_RDONLY && is_manifest_at(path);
	int flags = truncates ? oflags & ~O_TRUNC : oflags, r;

	s->ino = 0;
	r = open_path(s, path, flags, mode, direct, false, err);
	for (unsigned n = 0; n < OPEN_TRIES && r < 0 && was_replaced(s, path); n++)
		r = open_path(s, path, flags, mode, direct, false, err);
	if (r < 0 || !truncates || !s->stripe)
		return r;
	r = penstock_stripe_truncate(s->stripe, 0);
	if (r < 0) {
		penstock_backing_close(s);
		return penstock_fail(err, r, "%s: cannot be made empty: %s", path, strerror(-r));
	}
	return 0;
}

int penstock_backing_open_member(struct penstock_backing *s, const char *path, int oflags,
				 uint32_t direct, struct penstock_err *err)
{
	return open_path(s, path, oflags, 0, direct, true, err);
}

int penstock_backing_open_owned_fd(struct penstock_backing *s, int fd, const char *name,
				   uint32_t direct, struct penstock_err *err)
{
	bool never = direct == PENSTOCK_DIRECT_NEVER;
	int flags = fcntl(fd, F_GETFL), r;

	if (flags < 0) {
		r = -errno;
		close(fd);
		return penstock_fail(err, r, "%s: %s", name, strerror(-r));
	}
	r = set_flags(fd, never ? 0 : O_DIRECT, O_APPEND | (never ? O_DIRECT : 0));
	return open_new_fd(s, fd, flags, !never && r == 0, name, direct, false, err);
}

int penstock_backing_open_borrowed_fd(struct penstock_backing *s, int fd, uint32_t direct,
				      struct penstock_err *err)
{
	int flags = fcntl(fd, F_GETFL);
	char name[32];
	int r;

	snprintf(name, sizeof(name), "fd %d", fd);
	if (flags < 0)
		return penstock_fail(err, -errno, "%s: %s", name, strerror(errno));
	if ((flags & O_APPEND) && (flags & O_ACCMODE) != O_RDONLY)
		return penstock_fail(
			err, -EINVAL,
			"%s: was opened with O_APPEND, where writes ignore their offset", name);
	backing_init(s, fd);
	s->borrowed = fd;
	s->access = flags & O_ACCMODE;
	s->synced = flags & (O_SYNC | O_DSYNC);
	s->direct = flags & O_DIRECT;
	s->direct_only = direct == PENSTOCK_DIRECT_ALWAYS;
	/* With O_NONBLOCK io_uring answers EAGAIN instead of waiting for the disk. */
	if (flags & O_NONBLOCK) {
		r = reopen_fd(fd, s->access | (flags & (O_DIRECT | O_SYNC | O_DSYNC)));
		if (r >= 0)
			s->fd = r;
	}
	if (direct == PENSTOCK_DIRECT_NEVER) {
		s->direct = false;
	} else if (direct == PENSTOCK_DIRECT_ALWAYS && !s->direct) {
		r = reopen_fd(fd, s->access | O_DIRECT | (flags & (O_SYNC | O_DSYNC)));
		if (r >= 0) {
			s->buffered_fd = s->fd;
			s->fd = r;
			s->direct = true;
		}
	}
	if (!s->direct)
		set_why(s, "the descriptor was opened without O_DIRECT");
	r = finish_open(s, name, direct, false, err);
	if (r < 0)
		penstock_backing_close(s);
	return r;
}

void penstock_backing_open_object(struct penstock_backing *s, struct penstock_object_file *object,
				  int oflags)
{
	backing_init(s, -1);
	s->access = oflags & O_ACCMODE;
	s->object = object;
	s->mem_align = s->off_align = s->write_align = 1;
	s->ino = (ino_t)(uintptr_t)object; /* no two of them are the same file */
	set_why(s, "an object");
}

int penstock_backing_close(struct penstock_backing *s)
{
	int buffered = s->buffered_fd;
	int r = s->stripe ? penstock_stripe_close(s) : 0;

	if (buffered >= 0 && buffered != s->fd && buffered != s->borrowed && close(buffered) < 0)
		r = -errno;
	if (s->fd != s->borrowed && close(s->fd) < 0)
		r = -errno;
	pthread_mutex_destroy(&s->lock);
	return r;
}

int penstock_backing_reopen(const struct penstock_backing *s, int flags)
{
	return reopen_fd(s->fd, flags);
}

/*
 * There is no second descriptor to be had: the file may not be opened again (mode
 * 0444, privileges dropped), /proc is not mounted, or there are too many open files.
 * The first one is ours and can do without O_DIRECT.  Under s->lock.
 */
static int share_descriptor(struct penstock_backing *s, int why)
{
	if (s->fd == s->borrowed || s->direct_only || set_flags(s->fd, 0, O_DIRECT) < 0)
		return why;
	if (!s->why[0])
		snprintf(s->why, sizeof(s->why), "it cannot be opened a second time: %s",
			 strerror(-why));
	s->direct = false;
	return s->fd;
}

int penstock_backing_buffered_fd(struct penstock_backing *s)
{
	int fd = s->buffered_fd;

	if (fd >= 0)
		return fd;
	pthread_mutex_lock(&s->lock);
	fd = s->buffered_fd;
	if (fd < 0) {
		fd = reopen_fd(s->fd, s->access | (s->synced ? O_DSYNC : 0));
		if (fd < 0)
			fd = share_descriptor(s, fd);
		if (fd >= 0)
			s->buffered_fd = fd;
	}
	pthread_mutex_unlock(&s->lock);
	return fd;
}

int penstock_backing_give_up_direct(struct penstock_backing *s, const char *why)
{
	int fd = penstock_backing_buffered_fd(s);

	if (fd < 0)
		return fd;
	set_why(s, why);
	s->direct = false;
	return 0;
}

int64_t penstock_backing_size(const struct penstock_backing *s)
{
	struct stat st;
	uint64_t bytes;

	if (s->stripe)
		return penstock_stripe_size(s->stripe);
	if (s->object)
		return penstock_object_file_size(s->object);
	if (s->device)
		return ioctl(s->fd, BLKGETSIZE64, &bytes) < 0 ? -errno : (int64_t)bytes;
	return fstat(s->fd, &st) < 0 ? -errno : (int64_t)st.st_size;
}

int penstock_backing_truncate(struct penstock_backing *s, uint64_t size)
{
	int r;

	if (s->stripe)
		return penstock_stripe_truncate(s->stripe, size);
	if (s->device)
		return 0;
	do {
		r = ftruncate(s->fd, (off_t)size);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}
