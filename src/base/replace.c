/* SPDX-License-Identifier: Apache-2.0 */
#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

enum {
	LINKS_MAX = 40,     /* as the kernel follows */
	TEMPS_CHECKED = 16, /* names that are always looked at for what the dead have left */
	TEMPS_MAX = 4096,
	ASYNC_CLOSE_MIN =
		64 << 20, /* bytes of an old file from which on it is given back behind us */
};

#define SUFFIX PENSTOCK_REPLACE_SUFFIX

/* ------------------------------------------------------------------- names */

/* The folder of @path, which is relative to @dir, and the last name in it. */
static int open_folder(int dir, const char *path, char **ret_name)
{
	const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
	CLEANUP_FREE char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	CLEANUP_FREE char *name = strdup(last);
	int fd;

	if (!folder || !name)
		return -ENOMEM;
	if (!*last)
		return *path ? -EISDIR : -ENOENT;
	if (!strcmp(last, ".") || !strcmp(last, ".."))
		return -EISDIR;
	fd = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_name = TAKE_PTR(name);
	return fd;
}

/* 1: it is there, 0: it is not, or -errno: nobody can tell. */
static int stat_if_exists(int dir, const char *name, struct stat *st)
{
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

/* May a link be followed?  The rule of fs.protected_symlinks, which a rename would get round. */
static bool may_follow(int dir, const struct stat *link)
{
	struct stat st;

	if (fstat(dir, &st) < 0)
		return false;
	if ((st.st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH))
		return true;
	return link->st_uid == geteuid() || link->st_uid == st.st_uid;
}

/* From (*@dir, *@name), which is a link, to what it points to.  Both are given back on failure. */
static int follow(int *dir, char **name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(*dir, *name, target, sizeof(target));
	char *next = NULL;
	int fd = -ENAMETOOLONG;

	if (n < 0)
		fd = -errno;
	if (n >= 0 && n < (ssize_t)sizeof(target)) {
		target[n] = '\0';
		fd = open_folder(*dir, target, &next);
	}
	close(*dir);
	free(*name);
	*dir = fd;
	*name = next;
	return fd < 0 ? fd : 0;
}

int penstock_replace_resolve_path(const char *path, int *ret_dir, char **ret_name)
{
	char *name = NULL;
	int dir = open_folder(AT_FDCWD, path, &name), r;

	if (dir < 0)
		return dir;
	for (unsigned i = 0;; i++) {
		struct stat st;

		r = stat_if_exists(dir, name, &st);
		if (r == 0 || (r > 0 && !S_ISLNK(st.st_mode))) {
			*ret_dir = dir;
			*ret_name = name;
			return 0;
		}
		if (r > 0 && i == LINKS_MAX)
			r = -ELOOP;
		else if (r > 0 && !may_follow(dir, &st))
			r = -EACCES;
		if (r < 0) {
			close(dir);
			free(name);
			return r;
		}
		r = follow(&dir, &name);
		if (r < 0)
			return r;
	}
}

/* ---------------------------------------------------------- temporary names */

static char *temp_name(const char *name, const char *suffix, unsigned k)
{
	int name_max = NAME_MAX - (int)strlen("..-0000") - (int)strlen(suffix);
	char *temp;

	return asprintf(&temp, ".%.*s.%s-%u", name_max, name, suffix, k) < 0 ? NULL : temp;
}

/* Does the name still stand for this file? */
static bool is_named(int dir, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Remove what nobody writes to any more.  Returns 0 when the name is free, else -EEXIST. */
static int remove_stale(int dir, const char *name, int (*before)(int dir, int fd))
{
	CLEANUP_CLOSE int fd =
		openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -EEXIST;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -EEXIST;
	if (!is_named(dir, name, fd) || (before && before(dir, fd) < 0))
		return -EEXIST;
	return unlinkat(dir, name, 0) == 0 ? 0 : -EEXIST;
}

void penstock_replace_remove_stale(int dir, const char *name, const char *suffix,
				   int (*before)(int dir, int fd))
{
	for (unsigned k = 0; k < TEMPS_CHECKED; k++) {
		CLEANUP_FREE char *temp = temp_name(name, suffix, k);

		if (temp)
			remove_stale(dir, temp, before);
	}
}

static void remove_all_stale(const struct penstock_replace *r)
{
	penstock_replace_remove_stale(r->dir, r->name, SUFFIX, NULL);
}

/* Give the open file a name that nobody has. */
static int link_temp(int fd, int dir, const char *temp)
{
	char path[32];

	if (linkat(fd, "", dir, temp, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno == EEXIST)
		return -EEXIST;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* needs no privilege */
	return linkat(AT_FDCWD, path, dir, temp, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static void close_new(struct penstock_replace *r)
{
	if (r->lock >= 0)
		close(r->lock);
	if (r->fd >= 0)
		close(r->fd);
	r->lock = r->fd = -1;
}

/*
 * Lock the new file, which is @path in @dir, so that nobody takes it for a dead one.  Through a
 * description of its own: that of ->fd may be held by the kernel for transfers, for a while after
 * the process is gone.  0, or -EWOULDBLOCK: somebody did.  Where there are no locks nobody can.
 */
static int lock_new(struct penstock_replace *r, int dir, const char *path)
{
	r->lock = openat(dir, path, O_RDWR | O_CLOEXEC);
	return flock(r->lock >= 0 ? r->lock : r->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK
		       ? -EWOULDBLOCK
		       : 0;
}

/* Make the file under a name that nobody has; -EEXIST where somebody was faster. */
static int create_temp(struct penstock_replace *r, const char *temp, mode_t mode)
{
	r->fd = openat(r->dir, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (r->fd < 0)
		return -errno;
	/* until it was locked it looked like a dead one */
	if (lock_new(r, r->dir, temp) == 0 && is_named(r->dir, temp, r->fd))
		return 0;
	close_new(r);
	return -EEXIST;
}

/* A name, for a new file or one that is there. */
static int name_temp(struct penstock_replace *r, mode_t mode)
{
	for (unsigned k = 0; k < TEMPS_MAX; k++) {
		CLEANUP_FREE char *temp = temp_name(r->name, SUFFIX, k);
		int e;

		if (!temp)
			return -ENOMEM;
		e = r->fd < 0 ? create_temp(r, temp, mode) : link_temp(r->fd, r->dir, temp);
		if (e == -EEXIST)
			continue;
		if (e == 0)
			r->temp = TAKE_PTR(temp);
		return e;
	}
	return -EEXIST;
}

int penstock_replace_link_temp(int fd, int dir, const char *name, const char *suffix, char **ret)
{
	for (unsigned k = 0; k < TEMPS_CHECKED; k++) {
		CLEANUP_FREE char *temp = temp_name(name, suffix, k);
		int e = temp ? link_temp(fd, dir, temp) : -ENOMEM;

		if (e == 0)
			*ret = TAKE_PTR(temp);
		if (e != -EEXIST)
			return e;
	}
	return -EEXIST;
}

/* ---------------------------------------------------------------- the file */

/* Without a name, if it can be given one later. */
static int open_unnamed(struct penstock_replace *r, mode_t mode)
{
	char path[32];

	r->fd = openat(r->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (r->fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	if (access(path, F_OK) == 0 && lock_new(r, AT_FDCWD, path) == 0)
		return 0;
	close_new(r);
	return -ENOTSUP;
}

static int open_new(struct penstock_replace *r, mode_t mode)
{
	mode_t first;
	int e;

	e = stat_if_exists(r->dir, r->name, &r->old);
	if (e < 0)
		return e;
	r->had_old = e;
	first = r->had_old ? 0600 : mode; /* not for others to read where the old one is not */
	if (r->had_old && S_ISDIR(r->old.st_mode))
		return -EISDIR;
	if (r->had_old && !S_ISREG(r->old.st_mode))
		return -EINVAL;
	/* A file that must not be written to must not be replaced either. */
	if (r->had_old && faccessat(r->dir, r->name, W_OK, AT_EACCESS) < 0)
		return -errno;
	remove_all_stale(r);
	e = open_unnamed(r, first);
	/* no such thing here, in the words of various file systems */
	if (e == -ENOTSUP || e == -EISDIR || e == -EINVAL || e == -ENOENT || e == -ENOSYS)
		e = name_temp(r, first);
	return e;
}

static int open_in(struct penstock_replace *r, int dir, char *name, mode_t mode)
{
	int e;

	*r = (struct penstock_replace)PENSTOCK_REPLACE_NONE;
	r->dir = dir;
	r->name = name;
	if (!name)
		e = -ENOMEM;
	else if (dir < 0)
		e = -EBADF;
	else
		e = open_new(r, mode);
	if (e < 0)
		penstock_replace_close(r, false);
	return e;
}

int penstock_replace_open(struct penstock_replace *r, const char *path, mode_t mode)
{
	char *name;
	int dir, e = penstock_replace_resolve_path(path, &dir, &name);

	return e < 0 ? e : open_in(r, dir, name, mode);
}

int penstock_replace_open_at(struct penstock_replace *r, int dir, const char *name, mode_t mode)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : open_in(r, fd, strdup(name), mode);
}

/* A file system without permissions has none to keep. */
static bool is_unsupported(int e)
{
	return e == ENOTSUP || e == ENOSYS;
}

int penstock_replace_set_mode(int fd, mode_t mode)
{
	return fchmod(fd, mode) == 0 || errno == EPERM || is_unsupported(errno) ? 0 : -errno;
}

int penstock_replace_copy_permissions(const struct penstock_replace *r)
{
	if (!r->had_old)
		return 0;
	if ((r->old.st_uid != geteuid() || r->old.st_gid != getegid()) &&
	    fchown(r->fd, r->old.st_uid, r->old.st_gid) < 0 && errno != EPERM && errno != EINVAL &&
	    !is_unsupported(errno))
		return -errno;
	return penstock_replace_set_mode(r->fd, r->old.st_mode & 07777);
}

int penstock_replace_publish(struct penstock_replace *r)
{
	int e;

	remove_all_stale(r);
	e = r->temp ? 0 : name_temp(r, 0);
	if (e < 0)
		return e;
	/* Giving back a GiB takes ext4 0.15 s: not while others wait for us, nor in what is flushed
	 * next. */
	r->old_fd = openat(r->dir, r->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (r->old_fd < 0)
		r->old_fd = openat(r->dir, r->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (renameat(r->dir, r->temp, r->dir, r->name) < 0)
		return -errno;
	free(TAKE_PTR(r->temp));
	/* It guarded the name that is gone; who replaces this file next may need it at once. */
	flock(r->lock >= 0 ? r->lock : r->fd, LOCK_UN);
	return 0;
}

/* Is there room for the next of its size and one more, without the space of this one? */
static bool has_space_without(int fd)
{
	struct statfs fs;
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size >= ASYNC_CLOSE_MIN &&
	       fstatfs(fd, &fs) == 0 && fs.f_bsize > 0 &&
	       fs.f_bavail / 2 >= (uint64_t)st.st_size / (uint64_t)fs.f_bsize;
}

/*
 * Close the old file.  Where its space is large and not needed at once, the kernel gives it back
 * behind us: a ring that holds a file lets go of it in a thread of the kernel's, so that there is
 * none of ours to wait for.  Where that does not work it is an ordinary close(2).
 */
void penstock_replace_close_async(int fd)
{
	struct io_uring_params p = {0};
	int ring = has_space_without(fd) ? (int)syscall(__NR_io_uring_setup, 1, &p) : -1;

	if (ring >= 0)
		syscall(__NR_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1);
	close(fd);
	if (ring >= 0)
		close(ring);
}

void penstock_replace_close(struct penstock_replace *r, bool forked)
{
	if (r->temp && !forked)
		unlinkat(r->dir, r->temp, 0);
	free(TAKE_PTR(r->temp));
	free(TAKE_PTR(r->name));
	close_new(r);
	if (r->old_fd >= 0)
		penstock_replace_close_async(r->old_fd);
	if (r->dir >= 0)
		close(r->dir);
	r->dir = r->old_fd = -1;
}

int penstock_replace_sync_folder(int dir)
{
	if (fsync(dir) == 0 || errno == EINVAL || errno == ENOTSUP)
		return 0;
	return -errno;
}
