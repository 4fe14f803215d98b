/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEM_DEVICE_H
#define SLUICE_MEM_DEVICE_H

/*
 * Memory of CUDA devices: where an address lives, the contexts to reach it, and
 * lanes, which are private streams that copies are queued in.  No stream of the
 * user's is touched but for a marker where an operation asks for its order, and the
 * current context of a thread of the user's is as it was when we are done.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sluice_cuda;

enum { SLUICE_GPUS_MAX = 64 };

/* Which CUDA call failed, and how; code 0: none did. */
struct sluice_fault {
	const char *call; /* "cuMemcpyHtoDAsync" */
	int code;         /* CUresult; above 5000 a CUfileOpError */
};

/* Remember the first failure; returns 0, -EIO or -ENOMEM for @code. */
int sluice_fault_set(struct sluice_fault *fault, const char *call, int code);

/* ------------------------------------------------------------------ places */

struct sluice_place {
	int16_t device; /* ordinal; -1: the CPU and the kernel can use the address as it is */
	bool managed;   /* the CPU could, too, at the price of moving pages about */
};

/* What the driver cannot say is the host's, and *@fault (may be NULL) tells why it could not. */
struct sluice_place sluice_place_of(const struct sluice_cuda *cuda, const void *addr,
				    struct sluice_fault *fault);

/* ---------------------------------------------------------------- contexts */

/* The primary contexts a handle uses, each retained once. */
struct sluice_gpus {
	const struct sluice_cuda *cuda; /* NULL until there is device memory */
	pthread_mutex_t lock;
	void *ctx[SLUICE_GPUS_MAX];
	atomic_uint_fast64_t orders; /* made so far */
};

void sluice_gpus_init(struct sluice_gpus *g);
void sluice_gpus_fini(struct sluice_gpus *g);
int sluice_gpus_ctx(struct sluice_gpus *g, int device, void **ret_ctx, struct sluice_fault *fault);

/* Make some context of the handle's current in this thread for a moment; false: there is none. */
bool sluice_gpus_enter(struct sluice_gpus *g);
void sluice_gpus_leave(struct sluice_gpus *g);

/* ------------------------------------------------------------------ orders */

/* A point in a stream of the user's; operations submitted together share one. */
struct sluice_order {
	const struct sluice_cuda *cuda;
	atomic_uint refs;
	uint64_t id; /* never 0 */
	void *stream;
	void *event;         /* NULL: the stream had nothing to do */
	atomic_bool reached; /* when somebody last looked */
};

/* Has the stream come that far? */
bool sluice_order_reached(struct sluice_order *o);

/* Mark where @stream stands now.  In the user's thread; the current context comes back. */
int sluice_order_new(struct sluice_order **out, struct sluice_gpus *g, int device, void *stream,
		     struct sluice_fault *fault);
void sluice_order_put(struct sluice_order *o);

/* ------------------------------------------------------------------- lanes */

/* Things whose copies were queued before an event. */
struct sluice_mark {
	struct sluice_mark *next;
	void *event;
	void *items;
	struct sluice_fault fault; /* nobody will know when they are done: taken for done now */
};

/* A stream of our own, of one thread. */
struct sluice_lane {
	struct sluice_lane *next; /* the owner's list */
	const struct sluice_cuda *cuda;
	void *ctx;
	void *stream;
	unsigned failures;  /* to make its context current, in a row */
	uint64_t waited;    /* for this order already */
	const void *behind; /* the owner's: the stream it last waited for */
	void *open;         /* items copied since the last mark, the owner's */
	struct sluice_mark *first, **tail;
	struct sluice_mark *spare;
};

/* With the lane's context current, all of these. */
int sluice_lane_open(struct sluice_lane *lane, struct sluice_fault *fault);
void sluice_lane_close(struct sluice_lane *lane);
int sluice_lane_wait(struct sluice_lane *lane, const struct sluice_order *o,
		     struct sluice_fault *fault);
/* Nothing of what is queued may touch host memory after this, whatever happens. */
void sluice_lane_drain(struct sluice_lane *lane);
/* Put an event behind what is open; -ENOMEM: it stays open, try again. */
int sluice_lane_mark(struct sluice_lane *lane);
/* The items of the oldest mark if it is reached, else NULL; *@fault says what went wrong. */
void *sluice_lane_reached(struct sluice_lane *lane, struct sluice_fault *fault);

#endif
