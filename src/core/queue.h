/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_QUEUE_H
#define PENSTOCK_CORE_QUEUE_H

/* Queues: I/O threads, and where their blocks go besides the engine. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/block.h"
#include "core/core.h"
#include "core/op.h"
#include "core/sleep_state.h"
#include "mem/area.h"

struct thread_cache;

struct queue {
	_Alignas(LINE) struct inbox inbox; /* operations for this queue alone */
	atomic_bool has_cancelled;         /* some of them are cancelled */
	atomic_bool called;                /* there are calls */
	pthread_mutex_t idle_lock;         /* only for sleeping with THREAD_IDLE, with */
	pthread_cond_t idle_cond;

	_Alignas(LINE) struct penstock_io *io;
	unsigned index;
	pthread_t thread;
	bool started;
	void *engine; /* state */
	struct block *blocks;
	struct block *free; /* linked by req.next */
	unsigned nr_free;
	struct block *ready, **ready_tail; /* to be submitted, first or again */
	bool waits_for_overlap;            /* the first of them waits for an overlapping write */
	unsigned inflight;
	uint64_t inflight_bytes;
	atomic_uint busy_periods; /* how often the thread has been away */
	int broken;               /* -errno: the engine gave up, all blocks fail */
	unsigned reap_failures;
	struct op *local, **local_tail; /* operations for this queue alone, off the stack */
	unsigned nr_local;
	uint64_t pending_none;      /* after so many changes nothing was for it, see pending.c, */
	unsigned pending_none_can;  /* with this it could take */
	bool shared_first;          /* whose turn it is when there is capacity for one */
	bool fixed_lists;           /* its engine takes registered memory in lists, too */
	struct op *spare;           /* free operations for callbacks */
	unsigned spin_ns;           /* see spin.h */
	atomic_uint_fast64_t moved; /* bytes, by blocks, for thread_count.h, */
	atomic_uint_fast64_t blocked_ns; /* as the time that submitting held up the thread */
	atomic_uint_fast64_t finished;   /* operations, and of these */
	atomic_uint_fast64_t results;    /* those somebody has to collect */
	struct penstock_area bounce_area;
	void **bounce_free;
	unsigned nr_bounce_free;
	bool bounce_ready;
	struct file_member *files[FILE_SLOTS]; /* registered with this engine */
	struct counters count;

	/* device memory: see device_block.c */
	struct block *device_blocks;           /* the first device block brings them */
	struct block *starved, **starved_tail; /* that wait for a piece of the pinned pool */
	unsigned nr_starved;
	/* by device, direction and stream waited for, see device_block.c */
	struct penstock_copy_stream **copy_streams;
	struct penstock_copy_stream *open_copy_streams;
	void *ctx;           /* current in this thread, as far as we know */
	unsigned nr_copying; /* blocks in copy streams */
	uint64_t copy_bytes; /* of these */
	unsigned polls;      /* of copy streams, since something moved */
	bool pinned_tried;   /* the engine has been told of the pinned pool; */
	int pinned_slot;     /* -1: and refused */
	bool pinned_waits;   /* for a piece, under pinned_pool.lock */
	struct queue *pinned_next;

	/* objects: see remote_block.c */
	void *remote_blocks; /* the first file that is one brings them, under io->lock */
	struct block *remote_free;
	unsigned nr_remote;            /* blocks in flight at the S3 client */
	struct mpsc_stack remote_back; /* those that are back */
	atomic_bool remote_sleeps;     /* the queue has to be woken for one */
	atomic_uint remote_busy;       /* threads that hand one back */

	/* under io->lock */
	struct call *calls;
	bool has_opened; /* the thread has tried to open its engine: see open_result */
	int open_result;
	struct penstock_err open_err;
};

/* Something a queue's own thread must do: register memory, forget a file. */
struct call {
	struct call *next;
	int (*run)(struct queue *q, void *arg);
	void *arg;
	int result;
	bool done;
};

/* ---- device_block.c */
/* Ask where the memory of @op lives; sets op->locations. */
int device_find(const struct penstock_cuda *cuda, struct op *op, struct penstock_err *err);
bool device_any(const struct penstock_cuda *cuda, const struct penstock_op *u);
/* Device memory of @op waits for the stream it names; *@last is shared by operations in a row. */
int device_set_marker(struct penstock_io *io, struct op *op, void *stream,
		      struct penstock_stream_marker **last, struct penstock_err *err);
/* Make the context of @device current in the queue's thread, in which this is called. */
int device_enter(struct queue *q, int device);
/* May this queue take on another block of device memory? */
static inline bool device_has_capacity(const struct queue *q)
{
	return !q->nr_starved && q->nr_copying < COPY_BLOCKS && q->copy_bytes < COPY_BYTES;
}

/* Before a block is submitted.  0: go ahead; 1: it comes back by device_done(); or -errno. */
int device_prepare(struct queue *q, struct block *b);
/* A read's block is in the pinned pool: true when it comes back by device_done(). */
bool device_copy_out(struct queue *q, struct block *b);
/* One event for all copies since the last call. */
void device_flush(struct queue *q);
/* Blocks whose copies are done, linked by req.next. */
struct block *device_done(struct queue *q);
/* Blocks that waited for a piece and may be tried again, linked by req.next. */
struct block *device_retry(struct queue *q);
/* Is anything in copies, or waiting for the pinned pool? */
static inline bool device_busy(const struct queue *q)
{
	return q->nr_copying || q->nr_starved;
}
int64_t device_poll_ns(struct queue *q); /* how long to sleep before looking again, ns */
void device_close(struct queue *q);      /* by the queue's thread */
void device_free(struct queue *q);       /* the memory alone */

/* ---- remote_block.c */
/* @f has its name.  By path nothing is asked of the store before the first transfer. */
int remote_open(struct penstock_io *io, struct penstock_file *f, int oflags, bool by_path,
		struct penstock_err *err);
int remote_blocks_alloc(struct penstock_io *io); /* under io->lock */
/* Make it the object, or nothing; before its backing is closed.  Waits for the network. */
int remote_close(struct penstock_file *f, bool commit, struct penstock_err *err);
bool remote_is_stale(const struct penstock_file *f);
uint64_t remote_part(const struct penstock_file *f);
int remote_prepare(struct op *op, const struct penstock_op *u, struct penstock_err *err);
bool remote_is_next(const struct op *op);     /* of writes; under io->lock */
void remote_give_up(struct op *op, int code); /* it will not write all that it promised */
struct block *remote_get(struct queue *q);    /* there is one */
void remote_put(struct queue *q, struct block *b);
void remote_start(struct queue *q, struct block *b); /* comes back by remote_done() */
struct block *remote_done(struct queue *q);          /* linked by req.next */
bool remote_may_sleep(struct queue *q);              /* from now on it is woken for them */
void remote_leave(struct queue *q);                  /* before its engine is closed */

/* ---- pinned_pool.c */
void pinned_pool_setup(struct pinned_pool *pool);
int pinned_pool_make(struct penstock_io *io, struct penstock_cuda_failure *failure);
int pinned_pool_get(struct queue *q, uint64_t len, void **out); /* -EBUSY: the queue has to wait */
void pinned_pool_put(struct queue *q, void *piece);
void pinned_pool_stop_waiting(struct queue *q); /* it does not wait any more */
int pinned_pool_slot(struct queue *q); /* the pinned pool's slot in this queue's engine, -1: none */
void pinned_pool_free(struct penstock_io *io);
void pinned_pool_abandon(struct penstock_io *io);

/* ---- pending.c, under io->lock */
void pending_add(struct penstock_io *io, struct op *op);
void pending_del(struct penstock_io *io, struct op *op);
/* Whose block is handed out next to a queue that can take these kinds; NULL: nobody's yet. */
struct op *pending_choose(struct queue *q, unsigned can);
static inline struct op *pending_next(struct queue *q, unsigned can)
{
	struct penstock_io *io = q->io;
	struct op *op = io->pending.next;

	/* Of one that is alone, and for any queue, there is nothing to choose. */
	return op->next == &io->pending && op != &io->pending && !op->locations &&
			       !op->remote_or_striped
		       ? op
		       : pending_choose(q, can);
}

/* Of a striped file, not begun: is it to let others of its queue by? */
bool pending_must_yield(const struct queue *q, const struct op *op);
/* A block of one is back: its member may have capacity.  Before it is counted; by the queue's
 * thread.
 */
void pending_block_done(struct queue *q, const struct block *b);

/* Is there something for a queue that can take these kinds? */
static inline bool pending_any(const struct penstock_io *io, unsigned can)
{
	bool any = false;

	for (unsigned kind = 0; kind < KINDS; kind++)
		any |= !(kind & ~can) && io->pending_kinds[kind];
	return any;
}

/* The same as far as can be seen without the lock. */
static inline bool pending_seen(struct penstock_io *io)
{
	return atomic_load(&io->pending_ops);
}

/* And for this queue to see to. */
static inline bool pending_for(struct queue *q)
{
	return (pending_seen(q->io) && q->index < atomic_load(&q->io->nr_active)) ||
	       (!q->index && atomic_load(&q->io->pending_remote));
}

/* Under io->lock. */
static inline unsigned queue_can(const struct queue *q)
{
	return (device_has_capacity(q) ? KIND_DEVICE : 0) | (q->remote_free ? KIND_REMOTE : 0);
}

/* ---- queue.c */
unsigned queue_capacity(const struct queue *q); /* blocks it can take now */
void queue_pull(struct queue *q);
void queue_submit(struct queue *q);
void queue_harvest(struct queue *q, struct penstock_req *list);
void queue_collect_copied(struct queue *q);           /* look after blocks of device memory */
void queue_collect_remote(struct queue *q);           /* and of objects */
bool queue_add_local(struct queue *q, struct op *op); /* false: others have time, share it */
struct op *queue_get_free_op(struct queue *q);        /* NULL: no memory */
void queue_end_cancelled(struct queue *q);            /* finish what was cancelled here */
/* Share what waits in this queue with the others, by its own thread. */
void queue_share(struct queue *q);
/* Finish operations of which all blocks are back; @q NULL: not in an I/O thread. */
void ops_finish(struct penstock_io *io, struct queue *q, struct op *list);

/* ---- io_thread.c */
int queue_start(struct queue *q, struct penstock_err *err);
void queue_free(struct queue *q);
/* By the first queue's thread: so many take part from now on, as far as that is possible. */
void queues_resize(struct penstock_io *io, unsigned n);
/* By the first queue's thread: how far all of them have come. */
struct thread_count_sample queues_sample(struct queue *q);
uint64_t queues_cpu_ns(struct penstock_io *io); /* processor time of I/O threads and engines */
void queues_stop(struct penstock_io *io); /* tell all threads to end when they have nothing to do */
void queues_wake(struct penstock_io *io); /* under io->lock: somebody sees to what is pending */
void queue_wake(struct queue *q);         /* make its thread look around, wherever it is */
void queue_step_aside(struct queue *q);   /* before what may take long: others see to the list */
void queue_step_back(struct queue *q);
/*
 * Hand it operations, newest first, which are for this queue alone.  True: it was awake and had
 * nothing to do.
 */
bool queue_push_ops(struct queue *q, struct thread_cache *cache, struct op *newest,
		    struct op *oldest);
/* Somebody has to wait: what lies before a queue that has no time is for all. */
void queue_rescue(struct penstock_io *io, struct queue *q);

int queue_call(struct queue *q, int (*run)(struct queue *q, void *arg), void *arg);
/* Of the calling I/O thread, or NULL. */
static inline struct queue *queue_current(const struct penstock_io *io)
{
	return current_queue && current_queue->io == io ? current_queue : NULL;
}

#endif
