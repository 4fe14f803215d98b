/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_STATX_H
#define PENSTOCK_FILE_STATX_H

/*
 * The fields of statx(2) that glibc 2.36's struct statx does not name yet: the
 * mount (kernel 5.8) and the alignment of O_DIRECT (kernel 6.1).  The kernel's
 * own <linux/stat.h> has them but cannot be included together with
 * <sys/stat.h>.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define PENSTOCK_STATX_MNT_ID   0x1000u
#define PENSTOCK_STATX_DIOALIGN 0x2000u

struct penstock_statx {
	union {
		struct statx st;
		struct {
			uint8_t before[0x90];
			uint64_t mnt_id;
			uint32_t dio_mem_align;
			uint32_t dio_offset_align;
		};
	};
};

_Static_assert(offsetof(struct statx, stx_dev_minor) + 4 == 0x90, "struct statx has moved");

/* As statx(2), with -errno. */
static inline int penstock_statx(int dirfd, const char *path, int flags, struct penstock_statx *out)
{
	*out = (struct penstock_statx){0};
	if (statx(dirfd, path, flags,
		  STATX_BASIC_STATS | PENSTOCK_STATX_MNT_ID | PENSTOCK_STATX_DIOALIGN,
		  &out->st) < 0)
		return -errno;
	/* Emulators (qemu-user) hand on the mask as it is, and only the fields they know. */
	if (!out->mnt_id)
		out->st.stx_mask &= ~(PENSTOCK_STATX_MNT_ID | PENSTOCK_STATX_DIOALIGN);
	return 0;
}

#endif
