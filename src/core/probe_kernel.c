/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What newer kernels offer, each tried and never taken from a version number: distributions bring
 * features to old kernels, and containers take them away.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <penstock/probe.h>

#include "base/textfile.h"
#include "base/util.h"
#include "engine/kernel.h"
#include "file/statx.h"

static int probe_uring(unsigned flags, unsigned *features)
{
	struct io_uring_params p = {.flags = flags};
	int fd = (int)syscall(SYS_io_uring_setup, 2, &p);

	*features = p.features;
	return fd < 0 ? -errno : fd;
}

static bool ring_has(unsigned feature)
{
	unsigned features;
	int fd = probe_uring(0, &features);

	if (fd < 0)
		return false;
	close(fd);
	return features & feature;
}

static bool has_min_wait(const char *path)
{
	(void)path;
	return ring_has(KERNEL_FEAT_MIN_TIMEOUT);
}

static bool has_no_iowait(const char *path)
{
	(void)path;
	return ring_has(KERNEL_FEAT_NO_IOWAIT);
}

static bool has_hybrid_poll(const char *path)
{
	unsigned features;
	int fd = probe_uring(KERNEL_SETUP_IOPOLL | KERNEL_SETUP_HYBRID_IOPOLL, &features);

	(void)path;
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Two rings, one page registered with the first. */
static bool has_clone_buffers(const char *path)
{
	struct kernel_clone clone = {0};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	CLEANUP_FREE void *memory = aligned_alloc(page, page);
	struct iovec iov = {memory, page};
	unsigned features;
	int a = probe_uring(0, &features), b = probe_uring(0, &features);
	bool found = false;

	(void)path;
	if (a >= 0 && b >= 0 && memory &&
	    syscall(SYS_io_uring_register, a, IORING_REGISTER_BUFFERS, &iov, 1) == 0) {
		clone.src_fd = (uint32_t)a;
		clone.flags =
			KERNEL_CLONE_DST_REPLACE; /* of single ones, a release after all at once */
		clone.nr = 1;
		found = syscall(SYS_io_uring_register, b, KERNEL_REGISTER_CLONE_BUFFERS, &clone,
				1) == 0;
	}
	if (a >= 0)
		close(a);
	if (b >= 0)
		close(b);
	return found;
}

static bool has_readv_fixed(const char *path)
{
	enum { OPS = 256 };
	CLEANUP_FREE struct io_uring_probe *p =
		calloc(1, sizeof(*p) + OPS * sizeof(struct io_uring_probe_op));
	unsigned features;
	int fd = probe_uring(0, &features);
	bool found;

	(void)path;
	found = fd >= 0 && p &&
		syscall(SYS_io_uring_register, fd, IORING_REGISTER_PROBE, p, OPS) == 0 &&
		p->last_op >= KERNEL_OP_READV_FIXED &&
		p->ops[KERNEL_OP_READV_FIXED].flags & IO_URING_OP_SUPPORTED;
	if (fd >= 0)
		close(fd);
	return found;
}

/* A file of that file system, which in a directory has no name. */
static int open_there(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		close(fd);
		fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	}
	return fd;
}

static bool has_dontcache(const char *path)
{
	char byte;
	struct iovec iov = {&byte, 1};
	int fd = open_there(path);
	bool found;

	if (fd < 0)
		return false;
	/* Behind the end, where there is nothing to read. */
	found = preadv2(fd, &iov, 1, lseek(fd, 0, SEEK_END), KERNEL_RWF_DONTCACHE) >= 0;
	close(fd);
	return found;
}

/* The largest write that is done whole or not at all, of a file opened for direct I/O. */
static bool has_atomic_writes(const char *path)
{
	struct {
		struct statx st;
		uint8_t storage[64];
	} x = {0};
	int fd = open_there(path);
	uint32_t max = 0;

	if (fd < 0)
		return false;
	if (statx(fd, "", AT_EMPTY_PATH, KERNEL_STATX_WRITE_ATOMIC, &x.st) == 0 &&
	    x.st.stx_mask & KERNEL_STATX_WRITE_ATOMIC)
		memcpy(&max, (const char *)&x.st + 0xac, sizeof(max));
	close(fd);
	return max > 0;
}

static bool has_write_streams(const char *path)
{
	struct stat st;
	uint64_t n = 0;
	unsigned ma, mi;

	if (stat(path, &st) < 0)
		return false;
	ma = S_ISBLK(st.st_mode) ? major(st.st_rdev) : major(st.st_dev);
	mi = S_ISBLK(st.st_mode) ? minor(st.st_rdev) : minor(st.st_dev);
	if (penstock_textfile_read_u64(&n, "/sys/dev/block/%u:%u/queue/max_write_streams", ma, mi) <
		    0 &&
	    penstock_textfile_read_u64(&n, "/sys/dev/block/%u:%u/../queue/max_write_streams", ma,
				       mi) < 0)
		return false;
	return n > 0;
}

static const struct {
	const char *name, *since;
	bool of_path, used;
	bool (*has)(const char *path);
} offers[] = {
	{"min-timeout", "6.12", false, true, has_min_wait},
	{"cloned buffers", "6.13", false, true, has_clone_buffers},
	{"READV_FIXED", "6.15", false, true, has_readv_fixed},
	{"hybrid polling", "6.13", false, false, has_hybrid_poll},
	{"NO_IOWAIT", "6.15", false, false, has_no_iowait},
	{"RWF_DONTCACHE", "6.14", true, false, has_dontcache},
	{"atomic writes", "6.11", true, false, has_atomic_writes},
	{"write streams", "6.16", true, false, has_write_streams},
};

int penstock_probe_kernel(unsigned index, const char *path, struct penstock_kernel_offer *offer)
{
	uint32_t size = offer->size;

	if (size < sizeof(*offer))
		return -EINVAL;
	if (index >= ARRAY_SIZE(offers))
		return -ENOENT;
	*offer = (struct penstock_kernel_offer){.size = size};
	offer->of_path = offers[index].of_path;
	offer->used = offers[index].used;
	offer->found = offers[index].has(path ? path : ".");
	snprintf(offer->name, sizeof(offer->name), "%s", offers[index].name);
	snprintf(offer->since, sizeof(offer->since), "%s", offers[index].since);
	return 0;
}
