/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Striped folders: a folder with a folder manifest, in which files that are made become striped
 * ones.  It happens when an empty file is opened for writing, whoever made it: the manifest is
 * written into the file itself, which stays the inode it was.  Members are called by that inode's
 * number, so that those of a file that was removed by somebody who knows nothing of them are found
 * by the next file with this number.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/full_io.h"
#include "base/util.h"
#include "file/stripe.h"

enum { LEVELS = 8 }; /* folders below that of a folder manifest, for which it goes, too */

/* ------------------------------------------------------------------ the folder manifest */

/* Somebody else's folder manifest would lead our bytes to folders of his. */
static bool is_trusted(int fd, dev_t dev)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == dev && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
	       (st.st_uid == geteuid() || st.st_uid == 0);
}

/* The folder manifest of the folder of @path, which is spoilt, or of one above it; 0: there is
 * none. */
static int find_folder_manifest(char *path, dev_t dev, struct penstock_manifest **out)
{
	char *slash = strrchr(path, '/');
	int fd, r = 0;

	if (!slash || slash[1] == '.')
		return 0;
	for (unsigned n = 0; n <= LEVELS && slash && !r; n++, slash = strrchr(path, '/')) {
		if ((size_t)(slash - path) + sizeof("/" FOLDER_MANIFEST_NAME) > PATH_MAX)
			return 0;
		memcpy(slash + 1, FOLDER_MANIFEST_NAME, sizeof(FOLDER_MANIFEST_NAME));
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		*slash = '\0';
		if (fd < 0)
			continue;
		r = is_trusted(fd, dev) ? penstock_manifest_read(out, fd) : 0;
		close(fd);
		if (r == 1 && !(*out)->folder) {
			penstock_manifest_free(*out);
			r = 0;
		}
	}
	return r;
}

int penstock_stripe_find_folder_manifest(int dir, const char *name, char *full, size_t size,
					 struct penstock_manifest **out)
{
	char link[32], path[PATH_MAX + NAME_MAX + 2 + sizeof(FOLDER_MANIFEST_NAME)];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	n = readlink(link, path, PATH_MAX - 1);
	if (n <= 0 || path[0] != '/' || fstat(dir, &st) < 0) {
		snprintf(full, size, "%s", name);
		return 0;
	}
	snprintf(path + n, sizeof(path) - (size_t)n, "%s%s", n > 1 ? "/" : "", name);
	snprintf(full, size, "%s", path);
	return out ? find_folder_manifest(path, st.st_dev, out) : 0;
}

/* ------------------------------------------------------------- one new file */

/* The folder's manifest becomes that of a file in it. */
static int name_members(struct penstock_manifest *m, ino_t ino)
{
	char *path;

	for (unsigned i = 0; i < m->nr; i++) {
		if (asprintf(&path, "%s/%" PRIu64 ".%u", m->members[i], (uint64_t)ino, i) < 0)
			return -ENOMEM;
		free(m->members[i]);
		m->members[i] = path;
	}
	m->folder = false;
	return penstock_stripe_generate_id(m->id);
}

/* One of that number has no file any more. */
static int make_member(const struct penstock_manifest *m, unsigned i, const char *name,
		       const struct stat *like)
{
	if (unlink(m->members[i]) < 0 && errno != ENOENT)
		return -errno;
	return penstock_member_create(m, i, name, like, 0, false);
}

/* Under a lock on @fd, which is empty. */
static int make_striped(int fd, const struct penstock_manifest *m, const char *name,
			const struct stat *like)
{
	size_t len = 0;
	CLEANUP_FREE char *text = penstock_manifest_format(m, &len);
	unsigned made = 0;
	int r = text ? 0 : -ENAMETOOLONG;

	for (; made < m->nr && !r; made++)
		r = make_member(m, made, name, like);
	if (!r) {
		r = penstock_full_pwrite(fd, text, len, 0);
		if (r < 0 && ftruncate(fd, 0) < 0)
			return r; /* the next open reports a damaged manifest */
	}
	while (r < 0 && made--)
		unlink(m->members[made]);
	return r;
}

static int convert_locked(int fd, struct penstock_manifest **m, const char *name)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	struct penstock_manifest *other;
	struct stat st;
	int r;

	while (fcntl(fd, F_OFD_SETLKW, &lock) < 0 && errno == EINTR)
		;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size) { /* somebody was faster */
		r = penstock_manifest_read(&other, fd);
		if (r == 1) {
			penstock_manifest_free(*m);
			*m = other;
		}
		return r;
	}
	r = name_members(*m, st.st_ino);
	if (!r)
		r = make_striped(fd, *m, name, &st);
	return r < 0 ? r : 1;
}

int penstock_stripe_convert(const struct penstock_backing *s, struct penstock_manifest **out,
			    struct penstock_err *err)
{
	char link[32], path[PATH_MAX + sizeof(FOLDER_MANIFEST_NAME)], name[PATH_MAX];
	CLEANUP_CLOSE int fd = -1;
	ssize_t n;
	int r;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", s->fd);
	n = readlink(link, name, sizeof(name) - 1);
	if (n <= 0 || name[0] != '/')
		return 0;
	name[n] = '\0';
	memcpy(path, name, (size_t)n + 1);
	r = find_folder_manifest(path, s->dev, out);
	if (r == 0)
		return 0;
	if (r == 1) {
		fd = penstock_backing_reopen(s, O_RDWR);
		r = fd < 0 ? fd : convert_locked(fd, out, name);
		if (r != 1)
			penstock_manifest_free(*out);
	}
	if (r < 0)
		return penstock_fail(err, r, "%s: cannot be made a striped file: %s", name,
				     strerror(-r));
	return r;
}

/* --------------------------------------------------------------- the folder */

static bool is_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		     strcmp(e->d_name, FOLDER_MANIFEST_NAME);
	if (d)
		closedir(d);
	return d && !n;
}

static int write_folder_manifest(const struct penstock_manifest *m, const char *name)
{
	struct penstock_replace file = PENSTOCK_REPLACE_NONE;
	CLEANUP_FREE char *path = NULL;
	size_t len = 0;
	CLEANUP_FREE char *text = penstock_manifest_format(m, &len);
	int r = text && asprintf(&path, "%s/" FOLDER_MANIFEST_NAME, name) >= 0 ? 0 : -ENOMEM;

	if (!r)
		r = penstock_replace_open(&file, path, 0644);
	if (!r && file.had_old)
		r = -EEXIST;
	if (!r)
		r = penstock_full_pwrite(file.fd, text, len, 0);
	if (!r)
		r = fchmod(file.fd, 0644) < 0 || fsync(file.fd) < 0 ? -errno : 0;
	if (!r)
		r = penstock_replace_publish(&file);
	if (!r)
		r = penstock_replace_sync_folder(file.dir);
	penstock_replace_close(&file, false);
	return r;
}

int penstock_stripe_make_folder(const struct penstock_manifest *m, const char *name,
				struct penstock_err *err)
{
	int r = mkdir(name, 0777) < 0 && errno != EEXIST ? -errno : 0;
	bool was_there = r == 0 && errno == EEXIST && !is_empty(name);
	unsigned made = 0;

	if (was_there)
		return penstock_fail(err, -ENOTEMPTY, "%s: is not empty", name);
	for (; made < m->nr && !r; made++)
		r = mkdir(m->members[made], 0777) < 0 && errno != EEXIST ? -errno : 0;
	if (!r)
		r = write_folder_manifest(m, name);
	if (!r)
		return 0;
	while (made--)
		rmdir(m->members[made]);
	return penstock_fail(err, r, "%s: %s", name, strerror(-r));
}

/* Is it called as members are, INODE.N or NAME.ID.N? */
static bool is_member_name(const char *name)
{
	const char *dot = strrchr(name, '.');
	size_t head = dot ? (size_t)(dot - name) : 0;

	if (!head || !dot[1] || dot[1 + strspn(dot + 1, "0123456789")])
		return false;
	return strspn(name, "0123456789") == head ||
	       (head > 33 && dot[-33] == '.' && strspn(dot - 32, "0123456789abcdef") == 32);
}

/* Members without a file; whatever else is there stays. */
static void remove_orphans(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_member_name(e->d_name))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(path);
}

int penstock_stripe_remove_folder(const struct penstock_manifest *m, const char *name,
				  struct penstock_err *err)
{
	CLEANUP_FREE char *manifest_path = NULL;

	if (!is_empty(name))
		return penstock_fail(err, -ENOTEMPTY, "%s: is not empty; remove its files first",
				     name);
	if (asprintf(&manifest_path, "%s/" FOLDER_MANIFEST_NAME, name) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (unlink(manifest_path) < 0)
		return penstock_fail(err, -errno, "%s: %s", manifest_path, strerror(errno));
	for (unsigned i = 0; i < m->nr; i++)
		remove_orphans(m->members[i]);
	rmdir(name);
	return 0;
}

/* Is it of a file in @folder, "/a/b/", that has this number no more? */
static bool is_orphan(const char *path, const char *folder, uint64_t ino)
{
	struct penstock_member_header head = {.id = ""};
	struct penstock_backing b;
	struct stat st;

	if (penstock_backing_open_member(&b, path, O_RDONLY | O_NOFOLLOW, PENSTOCK_DIRECT_NEVER,
					 NULL) < 0)
		return false;
	penstock_member_header_read(&b, &head);
	penstock_backing_close(&b);
	return !strncmp(head.name, folder, strlen(folder)) &&
	       (lstat(head.name, &st) < 0 ? errno == ENOENT : st.st_ino != ino);
}

void penstock_stripe_remove_orphans(const char *folder, uint64_t ino)
{
	CLEANUP_CLOSE int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct penstock_manifest *m;
	char path[PATH_MAX], real[PATH_MAX];

	if (dir < 0 || penstock_stripe_find_folder_manifest(dir, "", real, sizeof(real), &m) != 1)
		return;
	for (unsigned i = 0; i < m->nr; i++)
		if (snprintf(path, sizeof(path), "%s/%" PRIu64 ".%u", m->members[i], ino, i) <
			    (int)sizeof(path) &&
		    is_orphan(path, real, ino))
			unlink(path);
	penstock_manifest_free(m);
}

int penstock_stripe_unlink(int dir, const char *name)
{
	struct penstock_manifest *m = NULL;
	CLEANUP_CLOSE int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	int r = 0, r2;

	if (fd >= 0 && penstock_manifest_read(&m, fd) != 1)
		m = NULL;
	if (unlinkat(dir, name, 0) < 0) {
		r = -errno;
		penstock_manifest_free(m);
		return r;
	}
	for (unsigned i = 0; m && !m->folder && i < m->nr; i++) {
		r2 = penstock_member_remove(m, i, NULL);
		r = r < 0 ? r : r2;
	}
	penstock_manifest_free(m);
	return r;
}
