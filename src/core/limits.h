/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_LIMITS_H
#define PENSTOCK_CORE_LIMITS_H

/* Numbers that several files of the core need. */
enum {
	FILE_SLOTS = 256, /* registered files of a handle */
	BUF_SLOTS = 1024, /* registered pieces of memory, of at most REGION_PIECE each */
	PATH_BUCKETS = 64,
	SUBMITTERS_MAX = 64,        /* threads beyond that share them */
	OP_CHUNK = 256,             /* operations allocated at a time */
	OP_INDEX_BITS = 26,         /* of one submitter, in a ticket */
	LINE = 128,                 /* cache lines come in pairs */
	STUCK_NS = 1000000,         /* an I/O thread that is away for so long is not waited for */
	SHARE_MIN_BYTES = 64 << 10, /* a smaller operation is not worth sharing with other queues */
	BLOCK_AUTO = 1 << 20,       /* split size where nothing speaks against it */
	DEPTH_AUTO = 128,           /* blocks in flight when the caller leaves it to us, */
	BYTES_AUTO = 32 << 20,   /* but no more bytes than this: deeper costs and gains nothing */
	MEMBER_BYTES = 16 << 20, /* so many bytes for each member of a striped file */
	PULL_MAX = 64,           /* blocks taken from the pending list under one lock */
	BOUNCE_SLOTS = 16,
	BOUNCE_BYTES = 1 << 20, /* data of one bounce slot */
	RETRIES_MAX = 50,       /* of a block that keeps saying EAGAIN, of an engine that fails */
	INTERRUPTS_MAX = 10000,
	REAP_FAILURES_MAX =
		2000,          /* failed reaps in a row, 1 ms apart, before an engine is given up */
	COPY_BLOCKS = 256,     /* that may be in copies to and from devices, of one queue, */
	COPY_BYTES = 32 << 20, /* and of how much: more waits in the pinned pool for nothing */
};
#define REGION_PIECE (1ull << 30)
#define PINNED_PIECE (4ull << 20)  /* the largest block of device memory */
#define COPY_BLOCK   (16ull << 20) /* the largest of a copy between memories */
#define CUFILE_BLOCK (16ull << 20) /* the same where the engine takes it as it is */

#endif
