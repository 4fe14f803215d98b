/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a path and this machine can do.  Asks the kernel first (statx, mountinfo,
 * sysfs), then tries: file systems that accept O_DIRECT at open and refuse it at
 * the first transfer are common enough that only moving a block counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <penstock/probe.h>
#include <penstock/s3.h>

#include "base/err.h"
#include "base/util.h"
#include "file/blockdev.h"
#include "file/direct_align.h"
#include "file/mount.h"
#include "file/statx.h"

/* -------------------------------------------------------------- page cache */

#define SYS_CACHESTAT 451 /* kernel 6.5; newer than our headers */

struct cachestat_range {
	uint64_t off, len;
};

struct cachestat {
	uint64_t nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted;
};

/* Pages of the range in the cache, or -errno. */
static int64_t cachestat_pages(int fd, uint64_t offset, uint64_t len)
{
	struct cachestat_range range = {offset, len};
	struct cachestat cs = {0};

	if (syscall(SYS_CACHESTAT, fd, &range, &cs, 0) < 0)
		return -errno;
	return (int64_t)cs.nr_cache;
}

/* Of a file that is neither ours nor writable mincore(2) says "all resident": do not ask. */
static bool mincore_is_honest(int fd)
{
	struct stat st;
	uid_t uid = geteuid();

	return uid == 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY ||
	       (fstat(fd, &st) == 0 && st.st_uid == uid);
}

static int64_t mincore_pages(int fd, uint64_t offset, uint64_t len, uint64_t page)
{
	const uint64_t window = 256u << 20;
	uint64_t end = offset + len, pages = 0;
	CLEANUP_FREE unsigned char *vec = NULL;

	if (!mincore_is_honest(fd))
		return -EPERM;
	vec = malloc(window / page);
	if (!vec)
		return -ENOMEM;
	for (offset = align_down(offset, page); offset < end; offset += window) {
		uint64_t n = min_u64(end - offset, window);
		void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, (off_t)offset);
		int r;

		if (map == MAP_FAILED)
			return -errno;
		r = mincore(map, n, vec) < 0 ? -errno : 0;
		munmap(map, n);
		if (r < 0)
			return r;
		for (uint64_t i = 0; i < align_up(n, page) / page; i++)
			pages += vec[i] & 1;
	}
	return (int64_t)pages;
}

/* Not by lseek(2): the offset belongs to whoever shares the descriptor. */
static int size_of(int fd, uint64_t *ret_size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_size = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, ret_size) < 0)
		return -errno;
	return 0;
}

int64_t penstock_probe_resident(int fd, uint64_t offset, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size;
	int64_t pages;
	int r = size_of(fd, &size);

	if (r < 0)
		return r;
	if (offset >= size || !len)
		return 0;
	len = min_u64(len, size - offset);
	pages = cachestat_pages(fd, offset, len);
	if (pages == -ENOSYS || pages == -EPERM)
		pages = mincore_pages(fd, offset, len, page);
	return pages < 0 ? pages : (int64_t)min_u64((uint64_t)pages * page, len);
}

/* -------------------------------------------------------------------- path */

/* Move one block with O_DIRECT; 0 or -errno. */
static int move_one(int fd, bool write, uint32_t mem, uint32_t off)
{
	void *buf;
	ssize_t n;

	if (posix_memalign(&buf, max_u64(mem, sizeof(void *)), off))
		return -ENOMEM;
	memset(buf, 0, off);
	n = write ? pwrite(fd, buf, off, 0) : pread(fd, buf, off, 0);
	if (n < 0)
		n = -errno;
	free(buf);
	/* A full disk says nothing about O_DIRECT. */
	return n >= 0 || n == -ENOSPC || n == -EDQUOT ? 0 : (int)n;
}

static void direct_refused(struct penstock_path_info *p, const char *what, int code)
{
	snprintf(p->direct_why, sizeof(p->direct_why), "%s: %s", what, penstock_strerror(code));
}

/* A new file in @dir that is gone when closed; @flags may add O_DIRECT.  fd or -errno. */
static int open_nameless(const char *dir, int flags)
{
	char name[4096];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600), r;

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd >= 0 ? fd : -errno;
	r = snprintf(name, sizeof(name), "%s/.penstock-probe-%d-%llu", dir, (int)getpid(),
		     (unsigned long long)clock_ns());
	if (r >= (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
	r = fd >= 0 ? fd : -errno;
	/* Also after a failure: O_DIRECT may be refused when the name is there already. */
	if (r != -EEXIST)
		unlink(name);
	return r;
}

/* Open something to try O_DIRECT on; -errno with the reason in @p. */
static int probe_open_direct(struct penstock_path_info *p, const char *path)
{
	int plain, fd;

	if (p->is_dir) {
		fd = open_nameless(path, O_DIRECT);
		plain = fd < 0 ? open_nameless(path, 0) : -1;
	} else {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
		fd = fd < 0 ? -errno : fd;
		plain = fd < 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	}
	/* Which was refused, O_DIRECT or any file at all? */
	if (fd < 0 && plain < 0)
		direct_refused(p, p->is_dir ? "not tried, no file can be made here" : "not tried",
			       fd);
	else if (fd < 0)
		direct_refused(p, "refused at open", fd);
	if (plain >= 0)
		close(plain);
	return fd;
}

static void probe_direct(struct penstock_path_info *p, const char *path)
{
	CLEANUP_CLOSE int fd = probe_open_direct(p, path);
	const char *from;
	int r;

	if (fd < 0)
		return;
	r = penstock_direct_align_find(fd, &p->mem_align, &p->offset_align, &from);
	if (r == -EOPNOTSUPP) {
		snprintf(p->direct_why, sizeof(p->direct_why),
			 "accepted at open, but statx says this file cannot do it");
		return;
	}
	if (r < 0) {
		direct_refused(p, "statx", r);
		return;
	}
	snprintf(p->align_from, sizeof(p->align_from), "%s", from);
	r = move_one(fd, p->is_dir, p->mem_align, p->offset_align);
	if (r < 0)
		direct_refused(p, p->is_dir ? "the first write failed" : "the first read failed",
			       r);
	else
		p->direct = 1;
}

static void probe_cache(struct penstock_path_info *p, const char *path)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	int64_t n = fd < 0 ? -errno : penstock_probe_resident(fd, 0, UINT64_MAX);

	if (n >= 0)
		p->resident_bytes = (uint64_t)n;
	else
		snprintf(p->resident_why, sizeof(p->resident_why), "%s", penstock_strerror((int)n));
}

static void probe_fs(struct penstock_path_info *p, const struct penstock_statx *x, const char *path)
{
	struct penstock_mount m = {.fs = ""};
	struct statvfs vfs;
	struct stat source;

	if (x->st.stx_mask & PENSTOCK_STATX_MNT_ID)
		penstock_mount_find(&m, x->mnt_id);
	snprintf(p->fs, sizeof(p->fs), "%s", m.fs);
	snprintf(p->mount, sizeof(p->mount), "%s", m.point);
	if (statvfs(path, &vfs) == 0) {
		p->fs_bytes = (uint64_t)vfs.f_frsize * vfs.f_blocks;
		p->free_bytes = (uint64_t)vfs.f_frsize * vfs.f_bavail;
	}
	/* btrfs gives files a number of its own; the mount still names the device. */
	if (p->dev_major == 0 && m.source[0] == '/' && stat(m.source, &source) == 0 &&
	    S_ISBLK(source.st_mode)) {
		p->dev_major = major(source.st_rdev);
		p->dev_minor = minor(source.st_rdev);
	}
	penstock_blockdev_udev(p->gds_why, sizeof(p->gds_why), p->dev_major, p->dev_minor,
			       p->fs[0] ? p->fs : "the file system");
}

static const char *kind_name(mode_t mode)
{
	return S_ISFIFO(mode)   ? "a pipe"
	       : S_ISSOCK(mode) ? "a socket"
	       : S_ISCHR(mode)  ? "a character device"
				: "something else";
}

int penstock_probe_path(const char *path, struct penstock_path_info *info, struct penstock_err *err)
{
	struct penstock_path_info p = {.size = info->size};
	struct penstock_statx x;
	mode_t mode;
	int r;

	if (info->size < sizeof(p.size))
		return penstock_fail(err, -EINVAL, "size: %u is not the size of the struct",
				     info->size);
	if (penstock_s3_is_uri(path, NULL) > 0) { /* what is behind it is not ours to see */
		snprintf(p.fs, sizeof(p.fs), "s3");
		snprintf(p.direct_why, sizeof(p.direct_why), "an object");
		memcpy(info, &p, min_u64(info->size, sizeof(p)));
		return 0;
	}
	r = penstock_statx(AT_FDCWD, path, 0, &x);
	if (r < 0)
		return penstock_fail(err, r, "%s: %s", path, penstock_strerror(r));
	mode = x.st.stx_mode;
	p.is_dir = S_ISDIR(mode);
	p.is_device = S_ISBLK(mode);
	if (!p.is_dir && !p.is_device && !S_ISREG(mode))
		return penstock_fail(err, -EINVAL,
				     "%s: is %s; a file, a directory or a block device is needed",
				     path, kind_name(mode));

	p.dev_major = p.is_device ? x.st.stx_rdev_major : x.st.stx_dev_major;
	p.dev_minor = p.is_device ? x.st.stx_rdev_minor : x.st.stx_dev_minor;
	if (!p.is_device)
		probe_fs(&p, &x, path);
	p.has_device = penstock_blockdev_load(&p.device, p.dev_major, p.dev_minor) == 0;
	if (!p.is_dir) {
		p.file_bytes = p.is_device ? p.device.bytes : x.st.stx_size;
		probe_cache(&p, path);
	}
	probe_direct(&p, path);

	if (info->size > sizeof(p))
		memset((char *)info + sizeof(p), 0, info->size - sizeof(p));
	memcpy(info, &p, min_u64(info->size, sizeof(p)));
	return 0;
}
