/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openat2(2), which Linux has since 5.6 and which some containers refuse; without it the names are
 * opened one by one, each in the folder before it, which is as safe and takes more calls.
 */
#include "base/openat_safe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* One name, in the folder itself. */
static int open_one_name(int dir, const char *name, int flags, mode_t mode)
{
	int fd;

	if (!name[0])
		return -ENOENT;
	if (!strcmp(name, ".."))
		return -EXDEV;
	fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

static int open_name_by_name(int dir, const char *name, int flags, mode_t mode)
{
	char part[NAME_MAX + 1];
	int at = dir, next;

	for (;;) {
		size_t len = strcspn(name, "/");
		const char *rest = name + len + strspn(name + len, "/");

		if (len > NAME_MAX) {
			next = -ENAMETOOLONG;
			break;
		}
		memcpy(part, name, len);
		part[len] = '\0';
		if (!*rest) {
			next = open_one_name(at, part, flags | (name[len] ? O_DIRECTORY : 0), mode);
			break;
		}
		next = open_one_name(at, part, FOLDER_FLAGS, 0);
		if (next < 0)
			break;
		penstock_openat_parent_close(dir, at);
		at = next;
		name = rest;
	}
	penstock_openat_parent_close(dir, at);
	return next;
}

int penstock_openat_safe(int dir, const char *name, int flags, mode_t mode)
{
	struct open_how how = {.flags = (unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
			       .mode = flags & O_CREAT ? mode : 0,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	long fd;

	if (name[0] == '/')
		return -EXDEV;
	fd = syscall(SYS_openat2, dir, name, &how, sizeof(how));
	if (fd >= 0)
		return (int)fd;
	/* not there, refused, or a folder was moved meanwhile and the kernel cannot tell */
	if (errno == ENOSYS || errno == EPERM || errno == EAGAIN)
		return open_name_by_name(dir, name, flags, mode);
	return -errno;
}

int penstock_openat_parent(int dir, const char *name, const char **ret_last)
{
	const char *slash = strrchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : 0;
	char folder[PATH_MAX];

	*ret_last = slash ? slash + 1 : name;
	if (!slash)
		return dir;
	if (len >= sizeof(folder))
		return -ENAMETOOLONG;
	memcpy(folder, name, len);
	folder[len] = '\0';
	return len ? penstock_openat_safe(dir, folder, FOLDER_FLAGS, 0) : -EXDEV;
}

void penstock_openat_parent_close(int dir, int parent)
{
	if (parent >= 0 && parent != dir)
		close(parent);
}

int penstock_unlinkat_safe(int dir, const char *name, int flags)
{
	const char *last;
	int parent = penstock_openat_parent(dir, name, &last), r = 0;

	if (parent < 0)
		return parent;
	if (unlinkat(parent, last, flags) < 0)
		r = -errno;
	penstock_openat_parent_close(dir, parent);
	return r;
}

static bool is_unsupported(int error)
{
	return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EPERM;
}

static int rename_new(int a, const char *old, int b, const char *new)
{
	struct stat st;

	if (renameat2(a, old, b, new, RENAME_NOREPLACE) == 0)
		return 0;
	if (is_unsupported(errno) && linkat(a, old, b, new, 0) == 0)
		return unlinkat(a, old, 0) < 0 ? -errno : 0;
	if (!is_unsupported(errno))
		return -errno;
	if (fstatat(b, new, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	if (renameat(a, old, b, new) == 0)
		return 0;
	return is_unsupported(errno) ? -ENOSYS : -errno;
}

int penstock_renameat_new(int dir, const char *from, const char *to)
{
	const char *old, *new;
	int a = penstock_openat_parent(dir, from, &old), r;
	int b = a < 0 ? a : penstock_openat_parent(dir, to, &new);

	r = b < 0 ? b : rename_new(a, old, b, new);
	penstock_openat_parent_close(dir, a);
	penstock_openat_parent_close(dir, b);
	return r;
}
