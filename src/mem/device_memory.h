/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEM_DEVICE_MEMORY_H
#define PENSTOCK_MEM_DEVICE_MEMORY_H

/*
 * Memory of CUDA devices: where an address lives, the contexts to reach it, and
 * copy streams, private ones that copies are queued in.  No stream of the
 * user's is touched but for a marker where an operation asks for its order, and the
 * current context of a thread of the user's is as it was when we are done.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct penstock_cuda;

enum { PENSTOCK_GPUS_MAX = 64 };

/* Which CUDA call failed, and how; code 0: none did. */
struct penstock_cuda_failure {
	const char *call; /* "cuMemcpyHtoDAsync" */
	int code;         /* CUresult; above 5000 a CUfileOpError */
};

/* Remember the first failure; returns 0, -EIO or -ENOMEM for @code. */
int penstock_cuda_failure_set(struct penstock_cuda_failure *failure, const char *call, int code);

/* ---------------------------------------------------------------- locations */

struct penstock_mem_location {
	int16_t device; /* ordinal; -1: the CPU and the kernel can use the address as it is */
	bool managed;   /* the CPU could, too, at the price of moving pages about */
};

/* What the driver cannot say is the host's, and *@failure (may be NULL) tells why it could not. */
struct penstock_mem_location penstock_mem_locate(const struct penstock_cuda *cuda, const void *addr,
						 struct penstock_cuda_failure *failure);

/* ---------------------------------------------------------------- contexts */

/* The primary contexts a handle uses, each retained once. */
struct penstock_gpus {
	const struct penstock_cuda *cuda; /* NULL until there is device memory */
	pthread_mutex_t lock;
	void *ctx[PENSTOCK_GPUS_MAX];
	atomic_uint_fast64_t markers; /* made so far */
};

void penstock_gpus_init(struct penstock_gpus *g);
void penstock_gpus_fini(struct penstock_gpus *g);
int penstock_gpus_ctx(struct penstock_gpus *g, int device, void **ret_ctx,
		      struct penstock_cuda_failure *failure);

/* Make some context of the handle's current in this thread for a moment; false: there is none. */
bool penstock_gpus_enter(struct penstock_gpus *g);
void penstock_gpus_leave(struct penstock_gpus *g);

/* ---------------------------------------------------------------- stream markers */

/* A point in a stream of the user's; operations submitted together share one. */
struct penstock_stream_marker {
	const struct penstock_cuda *cuda;
	atomic_uint refs;
	uint64_t id; /* never 0 */
	void *stream;
	void *event;         /* NULL: the stream had nothing to do */
	atomic_bool reached; /* when somebody last looked */
};

/* Has the stream come that far? */
bool penstock_stream_marker_reached(struct penstock_stream_marker *o);

/* Mark where @stream stands now.  In the user's thread; the current context comes back. */
int penstock_stream_marker_new(struct penstock_stream_marker **out, struct penstock_gpus *g,
			       int device, void *stream, struct penstock_cuda_failure *failure);
void penstock_stream_marker_put(struct penstock_stream_marker *o);

/* ---------------------------------------------------------------- copy streams */

/* Things whose copies were queued before an event. */
struct penstock_copy_mark {
	struct penstock_copy_mark *next;
	void *event;
	void *items;
	struct penstock_cuda_failure
		failure; /* nobody will know when they are done: taken for done now */
};

/* A stream of our own, of one thread. */
struct penstock_copy_stream {
	struct penstock_copy_stream *next; /* the owner's list */
	const struct penstock_cuda *cuda;
	void *ctx;
	void *stream;
	unsigned failures;  /* to make its context current, in a row */
	uint64_t waited;    /* for this marker already */
	const void *behind; /* the owner's: the stream it last waited for */
	void *open;         /* items copied since the last mark, the owner's */
	struct penstock_copy_mark *first, **tail;
	struct penstock_copy_mark *spare;
};

/* With the copy stream's context current, all of these. */
int penstock_copy_stream_open(struct penstock_copy_stream *cs,
			      struct penstock_cuda_failure *failure);
void penstock_copy_stream_close(struct penstock_copy_stream *cs);
int penstock_copy_stream_wait(struct penstock_copy_stream *cs,
			      const struct penstock_stream_marker *o,
			      struct penstock_cuda_failure *failure);
/* Nothing of what is queued may touch host memory after this, whatever happens. */
void penstock_copy_stream_drain(struct penstock_copy_stream *cs);
/* Put an event behind what is open; -ENOMEM: it stays open, try again. */
int penstock_copy_stream_mark(struct penstock_copy_stream *cs);
/* The items of the oldest mark if it is reached, else NULL; *@failure says what went wrong. */
void *penstock_copy_stream_reached(struct penstock_copy_stream *cs,
				   struct penstock_cuda_failure *failure);

#endif
