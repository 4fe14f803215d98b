/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_ENGINE_KERNEL_H
#define PENSTOCK_ENGINE_KERNEL_H

/* What kernels have had since the headers we build with, by its number in the kernel's interface.
 */
#include <stdint.h>

enum {
	KERNEL_SETUP_IOPOLL = 1 << 0,
	KERNEL_SETUP_HYBRID_IOPOLL = 1 << 17, /* 6.13 */
	KERNEL_FEAT_MIN_TIMEOUT = 1 << 15,    /* 6.12: the pad of io_uring_getevents_arg */
	KERNEL_FEAT_NO_IOWAIT = 1 << 17,      /* 6.15 */
	KERNEL_REGISTER_CLONE_BUFFERS = 30,   /* 6.12 */
	KERNEL_CLONE_DST_REPLACE = 1 << 1,    /* 6.13: into a table that is there */
	KERNEL_OP_READV_FIXED = 60,           /* 6.15, as the next */
	KERNEL_OP_WRITEV_FIXED = 61,
	KERNEL_RWF_DONTCACHE = 0x80,         /* 6.14 */
	KERNEL_STATX_WRITE_ATOMIC = 0x10000, /* 6.11 */
};

/* Of KERNEL_REGISTER_CLONE_BUFFERS. */
struct kernel_clone {
	uint32_t src_fd, flags, src_off, dst_off, nr, pad[3];
};

#endif
