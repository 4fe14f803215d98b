/* SPDX-License-Identifier: Apache-2.0 */
#include "file/direct_align.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/util.h"
#include "file/blockdev.h"
#include "file/statx.h"

/* 0 when the device does not say. */
static uint32_t device_block(int fd, const struct statx *st)
{
	struct penstock_blockdev b;
	int size;

	if (S_ISBLK(st->stx_mode))
		return ioctl(fd, BLKSSZGET, &size) == 0 && size > 0 ? (uint32_t)size : 0;
	if (penstock_blockdev_load(&b, st->stx_dev_major, st->stx_dev_minor) == 0)
		return b.logical_block;
	return 0;
}

int penstock_direct_align_find(int fd, uint32_t *mem, uint32_t *off, const char **from)
{
	struct penstock_statx x;
	const char *who = "statx";
	uint32_t m = 0, o = 0;
	int r = penstock_statx(fd, "", AT_EMPTY_PATH, &x);

	if (r < 0)
		return r;
	if (x.st.stx_mask & PENSTOCK_STATX_DIOALIGN) {
		m = x.dio_mem_align;
		o = x.dio_offset_align;
		if (!m || !o)
			return -EOPNOTSUPP;
	}
	if (!is_pow2(m) || !is_pow2(o)) {
		who = "block device";
		m = o = device_block(fd, &x.st);
	}
	if (!is_pow2(o)) {
		who = "page size";
		m = o = (uint32_t)sysconf(_SC_PAGESIZE);
	}
	*mem = m;
	*off = o;
	if (from)
		*from = who;
	return 0;
}
