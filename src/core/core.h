/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_CORE_H
#define PENSTOCK_CORE_CORE_H

/*
 * The inside of a handle.  Who touches what:
 *
 *  - struct penstock_io: io->lock guards the list of operations that all queues share,
 *    files, memory regions and those who wait for the handle as a whole.  It is held
 *    for list work only, never across a system call that does I/O, and no small
 *    operation needs it.
 *  - struct submitter: where a thread of the user's meets the handle.  submitter->lock guards
 *    operations that are free or finished; only threads of this submitter take it, those that
 *    wait for a ticket of it, and an I/O thread that has to wake one of these.
 *  - struct queue: belongs to its I/O thread; what others look at is in queue->inbox,
 *    guarded by io->lock, or atomic.
 *  - struct op: belongs to who has it.  The submitting thread prepares it; then, with a
 *    queue, the I/O thread of that queue has it alone, without one io->lock guards it;
 *    finished, it is on the stack or the list of its submitter.
 *  - struct block: belongs to the thread that runs it.
 *
 * Locks are taken in this order: a submitter's (of several submitters, by index), io->lock, the
 * pinned pool's.
 *
 * Life of an operation: op_prepare() checks it and resolves the file; it is put on the
 * stack of a queue, or, when it is large, on the list that all share; queues take blocks from
 * it (plan_block()); each finished block goes through block_finish(), which resubmits
 * what is short; when the last one is back op_conclude() does what remains (truncate,
 * give space back, directory) and done_batch_send() hands the result to who waits.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "base/util.h"
#include "core/limits.h"
#include "core/op.h"
#include "core/open_file.h"
#include "core/thread_count.h"
#include "engine/engine.h"
#include "mem/area.h"
#include "mem/device_memory.h"

struct thread_cache;
struct queue;
struct result_waiter;

/* Registered or allocated memory. */
struct region {
	uint64_t addr;
	uint64_t len;
	unsigned slot;             /* of its first piece */
	unsigned nr_slots;         /* 0: not registered with the engine */
	unsigned nr_queues;        /* queues whose engines have registered it */
	struct penstock_area area; /* area.addr NULL: the caller's memory */
	bool huge;
	bool mlocked; /* mlocked by penstock_buf_register() */
	int device;   /* whose memory it is, -1: the host's */
};

struct counters {
	atomic_uint_fast64_t ops, ops_failed, bytes_read, bytes_written;
	/* of blocks: each is one of the first three */
	atomic_uint_fast64_t direct, buffered, objects, bounced, inlined, fixed, pinned, cufile;
	atomic_uint_fast64_t resubmissions, preallocations, submit_calls, wakeups;
	bool many_writers;
};

/* Counters of a queue have one writer and need no locked instruction; those of a submitter may. */
#define COUNT(c, field, n)                                                                         \
	((c)->many_writers                                                                         \
		 ? (void)atomic_fetch_add_explicit(&(c)->field, (uint64_t)(n),                     \
						   memory_order_relaxed)                           \
		 : atomic_store_explicit(&(c)->field,                                              \
					 atomic_load_explicit(&(c)->field, memory_order_relaxed) + \
						 (uint64_t)(n),                                    \
					 memory_order_relaxed))

/* Of one writer. */
static inline void count_own(atomic_uint_fast64_t *count, uint64_t n)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* Pinned memory for transfers of device memory, see pinned_pool.c. */
struct pinned_pool {
	pthread_mutex_t make_lock;  /* it takes long: once, and not under the other one */
	pthread_mutex_t lock;       /* pieces and waiting queues; may be taken under io->lock */
	atomic_uint_fast64_t bytes; /* 0: not made yet */
	struct penstock_area area;
	struct pinned_page *pages;
	uint32_t *lists;   /* of free pieces, by order */
	int slot;          /* with the engines, -1: none */
	void *shared_bufs; /* that has it in this slot, or NULL */
	struct queue *waiting, **waiting_tail;
};

struct penstock_io {
	struct penstock_opts opts; /* with defaults filled in */
	const struct penstock_engine *engine;
	char *settings;       /* of the engine */
	uint32_t *fork_guard; /* 1 in the process that opened it, 0 after fork() */
	uint64_t serial;      /* tells it from an earlier handle at the same address */
	struct queue *queues;
	atomic_uint nr_queues;  /* grows where the number is left to us, */
	atomic_uint nr_active;  /* of these, take part in what is shared: the first ones, */
	atomic_uint max_queues; /* up to this, or less where the machine has no more */
	_Atomic(struct penstock_s3 *) s3; /* NULL: none yet */
	bool auto_depth;
	bool huge_by_default; /* ordinary memory is on huge pages */
	struct submitter *submitters[SUBMITTERS_MAX];
	const void
		*submitter_owners[SUBMITTERS_MAX]; /* who has it: see submitter.c; under io->lock */
	atomic_uint nr_submitters;
	atomic_uint nr_regions;
	atomic_uint regions_version; /* changes whenever they do */

	/* seldom written, looked at often */
	_Alignas(LINE) atomic_uint nr_waiters;
	atomic_uint nr_idle; /* queues that sleep with nothing to do */
	atomic_uint closers; /* threads that wait to close a file */
	atomic_bool stop;
	atomic_uint_fast64_t pending_blocks; /* about how many are pending, and */
	atomic_uint_fast64_t pending_ops;    /* operations, but for */
	atomic_uint_fast64_t pending_remote; /* those on objects */

	_Alignas(LINE) pthread_mutex_t lock;
	struct op pending; /* head of the list of those with blocks to hand out to any queue */
	uint64_t pending_kinds[KINDS]; /* how many of each */
	uint64_t pending_changes;      /* of the list, ever */
	unsigned blocks_in_row;        /* blocks of a huge one since another was let by */
	struct result_waiter *waiters;
	pthread_cond_t
		changed; /* a call is done, a file has lost an operation, a thread is ready */
	unsigned next_submitter, next_queue;

	struct penstock_file *files[PATH_BUCKETS];
	atomic_uint nr_by_path; /* of them, opened for operations */
	struct file_member *slots[FILE_SLOTS];
	atomic_uint_fast64_t flight_bytes; /* in flight of a queue whose depth is left to us */
	struct penstock_growth *extends;   /* files that are being written */
	struct device devices[8];          /* the last few met */
	unsigned nr_devices;
	struct device_trials trials[8];
	struct region *regions;
	bool buf_slots[BUF_SLOTS];
	pthread_mutex_t region_lock;      /* one registration at a time */
	pthread_mutex_t shared_bufs_lock; /* no other is taken under it */
	void *shared_bufs; /* the engine's, where it pins memory once for all queues */
	bool shared_bufs_tried;
	struct penstock_gpus gpus;
	struct pinned_pool pinned_pool;

	/* by the first queue's thread: how many it takes, see thread_count.h */
	struct thread_count thread_count;
	struct thread_count_sample window_start; /* when the window began: time, busy time, bytes */

	atomic_uint fallbacks;
	char fallback_why[256];
};

/*
 * pthread_cancel() must not leave locks held and operations half taken: every public
 * function starts with this, or what it calls where it may sleep (wait.c).
 */
static inline void cancel_restore(const int *state)
{
	if (*state != PTHREAD_CANCEL_DISABLE)
		pthread_setcancelstate(*state, NULL);
}

extern __thread struct queue *current_queue; /* of an I/O thread: it cannot be cancelled at all */

static inline int cancel_disable(void)
{
	int old = PTHREAD_CANCEL_DISABLE;

	if (!current_queue)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return old;
}

#define NO_CANCEL \
	__attribute__((cleanup(cancel_restore), unused)) int cancel_state_ = cancel_disable()

/* Zeroed memory that shares no cache line with other; NULL: none.  @len is a multiple of LINE. */
static inline void *zalloc_lines(size_t len)
{
	void *p = aligned_alloc(LINE, len);

	return p ? memset(p, 0, len) : NULL;
}

/* ---- opts.c */
/* The fields that the caller knows, with defaults filled in. */
int opts_load(struct penstock_opts *o, const struct penstock_opts *user, struct penstock_err *err);

/* ---- handle.c */
int io_check(const struct penstock_io *io, struct penstock_err *err); /* -ECHILD after fork() */
void report_fallback(struct penstock_io *io, uint32_t bit, const char *file, const char *why);
void io_trace(const struct penstock_io *io, enum penstock_trace what, int code, const char *file,
	      uint64_t offset, uint64_t len, const char *text);

/* A blocking transfer of one block takes no queue; 0: an engine that all must go through. */
static inline uint64_t io_inline_bytes(const struct penstock_io *io)
{
	return io->engine->bypass ? io->opts.block ? io->opts.block : BLOCK_AUTO : 0;
}

/* More than this of a queue's blocks need not be in flight where the depth is left to us. */
static inline uint64_t io_flight_bytes(struct penstock_io *io)
{
	return atomic_load_explicit(&io->flight_bytes, memory_order_relaxed);
}

/* ---- buf.c */
/* What holds it, until this thread asks again; NULL: nothing. */
const struct region *region_find(struct penstock_io *io, struct thread_cache *cache, uint64_t addr,
				 uint64_t len);
void regions_free(struct penstock_io *io);
int buf_slots_take(struct penstock_io *io, uint64_t n); /* neighbours; the first, or -ENOSPC */
/* Pin memory for all queues; returns the shared buffers for set_buf(), or NULL: each pins for
 * itself. */
void *shared_bufs_set(struct penstock_io *io, unsigned slot, void *addr, uint64_t len);
void shared_bufs_free(struct penstock_io *io);

#endif
