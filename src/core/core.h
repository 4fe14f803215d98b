/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CORE_CORE_H
#define SLUICE_CORE_CORE_H

/*
 * The inside of a handle.  Who touches what:
 *
 *  - struct sluice_io: io->lock guards the list of pending operations, the table
 *    of operations, files, memory regions and waiters.  It is held for list work
 *    only, never across a system call that does I/O.
 *  - struct queue: belongs to its I/O thread; the few fields others look at are
 *    guarded by io->lock or atomic.
 *  - struct op: while pending or in flight, io->lock guards it.  A *local*
 *    operation (submitted by a completion callback, one block) belongs to its
 *    I/O thread alone and needs no lock.
 *  - struct block: belongs to the thread that runs it.
 *
 * Life of an operation: op_prepare() checks it and resolves the file; it becomes
 * pending; queues take blocks from it (plan_block()); each finished block goes
 * through block_finish(), which resubmits what is short; when the last one is
 * back op_conclude() does what remains (truncate, give space back, directory) and
 * op_publish() hands the result to who waits.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "base/util.h"
#include "engine/engine.h"
#include "mem/arena.h"
#include "mem/device.h"
#include "store/path.h"

enum {
	FILE_SLOTS = 256, /* registered files of a handle */
	BUF_SLOTS = 1024, /* registered pieces of memory, of at most REGION_PIECE each */
	PATH_BUCKETS = 64,
	OP_CHUNK = 256,        /* operations allocated at a time */
	BLOCK_AUTO = 1 << 20,  /* split size where nothing speaks against it */
	DEPTH_AUTO = 128,      /* blocks in flight when the caller leaves it to us, */
	BYTES_AUTO = 32 << 20, /* but no more bytes than this: deeper costs and gains nothing */
	PULL_MAX = 64,         /* blocks taken from the pending list under one lock */
	BOUNCE_SLOTS = 16,
	BOUNCE_BYTES = 1 << 20, /* data of one bounce slot */
	RETRIES_MAX = 50,       /* of a block that keeps saying EAGAIN, of an engine that fails */
	INTERRUPTS_MAX = 10000,
	REAP_PATIENCE = 2000,  /* milliseconds an engine may fail before it is given up */
	COPY_BLOCKS = 256,     /* that may be in copies to and from devices, of one queue, */
	COPY_BYTES = 32 << 20, /* and of how much: more waits in the ring for nothing */
};
#define REGION_PIECE (1ull << 30)
#define RING_PIECE   (4ull << 20)  /* the largest block of device memory */
#define COPY_BLOCK   (16ull << 20) /* the largest of a copy between memories */
#define CUFILE_BLOCK (16ull << 20) /* the same where the engine takes it as it is */

struct op;
struct queue;

/* What is worth remembering of a block device: reading it from sysfs takes long. */
struct device {
	dev_t dev;
	uint32_t max_segments; /* of one request, 0: unknown */
	bool virtual;          /* a hypervisor gets each segment by itself */
};

enum file_attach { ATTACH_UNTRIED, ATTACH_DONE, ATTACH_REFUSED };

struct sluice_file {
	struct sluice_io *io;
	struct sluice_file *next; /* in its bucket */
	struct sluice_backing store;
	char *name;
	atomic_uint refs; /* operations, plus one while open */
	int slot;         /* for registration with engines, -1: none */
	struct device device;
	atomic_int attach;               /* to an engine that takes device memory: */
	struct sluice_attached attached; /* with ATTACH_DONE */
	bool by_path;                    /* closed with the last operation that uses it */
};

/* Registered or allocated memory. */
struct region {
	uint64_t addr;
	uint64_t len;
	unsigned slot;           /* of its first piece */
	unsigned nr_slots;       /* 0: not registered with the engine */
	struct sluice_area area; /* area.addr NULL: the caller's memory */
	bool huge;
	bool locked_here; /* mlocked by sluice_buf_register() */
	int device;       /* whose memory it is, -1: the host's */
};

/* OP_NEW: being prepared, or a callback's own: no ticket leads to it. */
enum op_state { OP_FREE, OP_NEW, OP_PENDING, OP_ISSUED, OP_DONE };

struct op {
	struct op *next; /* free, pending, done, or a queue's own list */
	struct op *prev; /* pending and done */
	/* where collecting stands, under io->lock; the rest is zeroed for each use */
	enum op_state state;
	uint32_t index;
	uint32_t gen;
	unsigned waiters; /* threads in sluice_wait() for this one */

	struct sluice_file *file;
	const struct sluice_iov *iov; /* memory; points to one or to an allocated copy */
	struct sluice_iov one;
	unsigned nr_iov;
	const struct sluice_place *places; /* of each segment; NULL: all in host memory */
	struct sluice_place one_place;
	struct sluice_order *order; /* device memory: not before this; NULL: any time */
	uint32_t opcode;
	uint32_t flags;
	uint64_t offset;
	uint64_t len;
	uint64_t tag;
	void (*on_done)(void *arg, const struct sluice_done *done);
	void *arg;

	/* where planning stands */
	uint64_t cursor; /* bytes handed out */
	unsigned seg;    /* segment of the cursor */
	uint64_t seg_off;
	uint64_t block;                   /* split size */
	uint64_t est;                     /* share in io->pend_blocks */
	uint64_t region_addr, region_len; /* registered memory that holds @one, len 0: none */
	unsigned region_slot;

	/* where doing stands */
	unsigned inflight;
	uint64_t stop;             /* bytes without a gap: everything before it is moved */
	int code;                  /* 0 or the first failure, -errno */
	struct sluice_fault fault; /* of CUDA, what made it fail */
	uint64_t fail_off;
	uint64_t fail_len;
	uint32_t done_flags;
	bool extends; /* sluice_extend_end() is owed */
	bool sync_done;
	bool cancelled;
	bool direct; /* the file, when the operation was over */
	bool local;
	bool small_pages; /* goes through bounce buffers, see plan.c */

	char *msg;
};

enum block_mode {
	BLOCK_STRAIGHT, /* file <-> caller's memory */
	BLOCK_BOUNCE,   /* file <-> aligned bounce <-> caller's memory */
	BLOCK_DEVICE,   /* file <-> piece of the ring <-> device memory, see device.c */
	BLOCK_CUFILE,   /* file <-> device memory, by an engine that takes it */
	BLOCK_COPY,     /* device memory <-> memory, without a file */
	BLOCK_SYNC,     /* fsync, fdatasync */
};

struct block {
	struct sluice_req req; /* first: the engine hands it back */
	struct op *op;
	enum block_mode mode;
	bool plain;    /* through the page cache, by plain_fd */
	bool started;  /* block_start() has been here */
	bool inflight; /* the engine has it */
	bool lost;     /* and may keep it: the engine is broken */
	bool ranged;   /* @range is on its file's list */
	struct sluice_range range;
	bool eof;
	uint64_t pos;   /* in the operation */
	uint64_t len;   /* bytes of the operation it stands for */
	uint64_t moved; /* of these, done */
	unsigned seg;   /* where its memory starts */
	uint64_t seg_off;
	uint32_t skip; /* bounce, ring: bytes before the wanted ones */
	void *bounce;  /* or a piece of the ring */
	char *data;    /* device: where in there the wanted bytes start */
	bool staged;   /* device: a write's bytes are there; cuFile: its turn has come */
	struct sluice_fault fault;
	unsigned tries;
	uint32_t flags; /* SLUICE_DONE_* */
	int code;       /* 0 or -errno */
};

struct counters {
	atomic_uint_fast64_t ops, ops_failed, bytes_read, bytes_written;
	atomic_uint_fast64_t blocks, direct, buffered, bounced, inlined, fixed, ring, cufile;
	atomic_uint_fast64_t resubmissions, preallocations, submit_calls, wakeups;
};

/* Counters of a queue have one writer; those of the handle have many. */
#define COUNT(c, n) atomic_fetch_add_explicit(&(c), (uint64_t)(n), memory_order_relaxed)

enum queue_state { QUEUE_RUNS, QUEUE_IDLE, QUEUE_REAPS };

struct queue {
	struct sluice_io *io;
	unsigned index;
	pthread_t thread;
	bool started;
	void *engine; /* state */
	struct block *blocks;
	struct block *free; /* linked by req.next */
	unsigned nr_free;
	struct block *ready, **ready_tail; /* to be submitted, first or again */
	unsigned inflight;
	uint64_t inflight_bytes;
	int broken; /* -errno: the engine gave up, all blocks fail */
	unsigned reap_failures;
	struct op *local, **local_tail; /* one-block operations of callbacks */
	unsigned nr_local;
	struct op *spare; /* free operations for these */
	struct sluice_area bounce_area;
	void **bounce_free;
	unsigned nr_bounce_free;
	bool bounce_ready;
	struct sluice_file *files[FILE_SLOTS]; /* registered with this engine */
	struct counters count;

	/* device memory: see device.c */
	struct block *more_blocks;             /* the first device block brings them */
	struct block *starved, **starved_tail; /* that wait for a piece of the ring */
	unsigned nr_starved;
	struct sluice_lane **lanes; /* by device, direction and order, see device.c */
	struct sluice_lane *open_lanes;
	void *ctx;           /* current in this thread, as far as we know */
	unsigned nr_copying; /* blocks in lanes */
	uint64_t copy_bytes; /* of these */
	unsigned polls;      /* of lanes, since something moved */
	bool ring_tried;     /* the engine has been told of the ring; */
	int ring_slot;       /* -1: and refused */
	bool ring_waits;     /* for a piece, under ring->lock */
	struct queue *ring_next;

	atomic_bool aside; /* may not look at the pending list for long: others should */

	/* under io->lock */
	enum queue_state state;
	bool woken;
	pthread_cond_t work;
	struct call *calls;
	atomic_bool called; /* there are calls */
	bool ready_to_go;   /* the thread has tried to open its engine: see open_result */
	int open_result;
	struct sluice_err open_err;
};

/* Something a queue's own thread must do: register memory, forget a file. */
struct call {
	struct call *next;
	int (*run)(struct queue *q, void *arg);
	void *arg;
	int result;
	bool done;
};

/* A thread in a wait function. */
struct waiter {
	struct waiter *next;
	pthread_cond_t cond;
	const struct op *op; /* this one; NULL: see need */
	unsigned need;       /* so many on the done list; 0: all */
};

/* Pinned memory for transfers of device memory, see ring.c. */
struct ring {
	pthread_mutex_t making;     /* it takes long: once, and not under the other one */
	pthread_mutex_t lock;       /* pieces and waiters; may be taken under io->lock */
	atomic_uint_fast64_t bytes; /* 0: not made yet */
	struct sluice_area area;
	struct ring_page *pages;
	uint32_t *lists; /* of free pieces, by order */
	int slot;        /* with the engines, -1: none */
	struct queue *waiters, **waiters_tail;
};

struct sluice_io {
	struct sluice_opts opts; /* with defaults filled in */
	const struct sluice_engine *engine;
	char *settings;  /* of the engine */
	uint32_t *guard; /* 1 in the process that opened it, 0 after fork() */
	pthread_mutex_t lock;

	struct op pending;    /* head of the list of those with blocks to hand out */
	uint64_t pend_blocks; /* about how many */
	uint64_t pend_host;   /* pending operations without device memory */
	struct op done;       /* head of the list of finished ones nobody has collected */
	unsigned nr_done;
	atomic_uint_fast64_t active; /* operations not finished */
	struct op **chunks;
	unsigned nr_chunks;
	struct op *free_ops;
	struct waiter *waiters;
	pthread_cond_t called; /* a call is done, a file has lost an operation, a thread is ready */

	struct queue *queues;
	unsigned nr_queues;
	atomic_uint nr_idle; /* queues that sleep with nothing to do */
	bool stop;
	bool auto_depth;
	bool huge_by_default; /* ordinary memory is on huge pages */

	struct sluice_file *files[PATH_BUCKETS];
	atomic_uint closers; /* threads that wait to close a file */
	struct sluice_file *slots[FILE_SLOTS];
	struct sluice_extend *extends; /* files that are being written */
	struct device devices[8];      /* the last few met */
	unsigned nr_devices;
	struct region *regions;
	atomic_uint nr_regions;
	bool buf_slots[BUF_SLOTS];
	pthread_mutex_t region_lock; /* one registration at a time */
	struct sluice_gpus gpus;
	struct ring ring;

	struct counters count; /* of blocking one-block transfers, and of operations */
	atomic_uint fallbacks;
	char fallback_why[256];
};

/*
 * pthread_cancel() must not leave locks held and operations half taken: every public
 * function starts with this.
 */
static inline void cancel_restore(const int *state)
{
	pthread_setcancelstate(*state, NULL);
}

static inline int cancel_disable(void)
{
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return old;
}

#define NO_CANCEL \
	__attribute__((cleanup(cancel_restore), unused)) int cancel_state_ = cancel_disable()

/* ---- opts.c */
/* The fields that the caller knows, with defaults filled in. */
int opts_load(struct sluice_opts *o, const struct sluice_opts *user, struct sluice_err *err);

/* ---- handle.c */
int io_check(const struct sluice_io *io, struct sluice_err *err); /* -ECHILD after fork() */
void io_fell(struct sluice_io *io, uint32_t bit, const char *file, const char *why);
void io_trace(const struct sluice_io *io, enum sluice_trace what, int code, const char *file,
	      uint64_t offset, uint64_t len, const char *text);

/* A blocking transfer of one block takes no queue; 0: an engine that all must go through. */
static inline uint64_t io_inline_bytes(const struct sluice_io *io)
{
	return io->engine->bypass ? io->opts.block ? io->opts.block : BLOCK_AUTO : 0;
}

/* ---- file.c */
int file_for_op(struct sluice_io *io, const struct sluice_op *u, struct sluice_file **out,
		struct sluice_err *err);
int file_put(struct sluice_file *f);   /* what close(2) said if that was the last use, else 0 */
void files_free(struct sluice_io *io); /* when the handle is closed */
/* Can the engine move device memory of this file?  Tried once; why not is told as a fallback. */
bool file_attach(struct sluice_file *f);

/* ---- op.c */
static inline void op_list_init(struct op *head)
{
	head->next = head->prev = head;
}

static inline void op_list_add(struct op *head, struct op *op)
{
	op->prev = head->prev;
	op->next = head;
	head->prev->next = op;
	head->prev = op;
}

static inline void op_list_del(struct op *op)
{
	op->prev->next = op->next;
	op->next->prev = op->prev;
}

/*
 * Fill @op, which is zeroed but for its place in the table; takes what op_drop() gives back.
 * @cuda is what sluice_cuda_present() says, asked once for many.
 */
int op_prepare(struct sluice_io *io, const struct sluice_cuda *cuda, struct op *op,
	       const struct sluice_op *u, struct sluice_err *err);
void op_drop(struct op *op);
bool op_is_over(const struct op *op); /* nothing left to hand out or in flight */
/*
 * All blocks are back: truncate, give back space, write the message.  Without io->lock.
 * A file of the user's stays referenced until the result can be seen.
 */
void op_conclude(struct sluice_io *io, struct op *op);
void op_result(const struct op *op, struct sluice_done *done);
struct op *op_alloc(struct sluice_io *io);                 /* under io->lock; NULL: no memory */
void op_free(struct sluice_io *io, struct op *op);         /* under io->lock */
struct op *op_find(struct sluice_io *io, uint64_t ticket); /* under io->lock */
uint64_t op_ticket(const struct op *op);
bool op_needs_sync(const struct op *op);

/* ---- message.c */
const char *op_word(const struct op *op); /* "read", ... */
/* One line: which operation, where, by what, and how it went; NULL: no memory. */
char *op_message(const struct sluice_io *io, const struct op *op, const char *name);

/* ---- plan.c */
/* Fill @b with the next block of @op and move the cursor; false when there is none left. */
bool plan_block(struct op *op, struct block *b);
uint64_t plan_split(const struct sluice_file *f, bool huge);
bool plan_small_pages(const struct op *op, bool huge);

/* ---- block.c */
/* Set up the request of a planned block: descriptor, slots, bounce copy. */
int block_start(struct sluice_io *io, struct queue *q, struct block *b); /* q NULL: inline */
/* The kernel said "later": give it time, a little more after each try. */
bool block_wants_pause(const struct block *b);
void block_pause(const struct block *b);
/* May the block be submitted now?  Not while an overlapping write takes the other way. */
bool block_may_start(struct block *b);
/* Look at a finished request.  True: over, see b->moved and b->code; false: submit it again. */
bool block_finish(struct sluice_io *io, struct block *b, struct counters *count);
/* Account for a finished block in its operation; true when that was the last one. */
bool block_account(struct op *op, struct block *b);

/* ---- device.c */
/* Ask where the memory of @op lives; sets op->places. */
int device_find(const struct sluice_cuda *cuda, struct op *op, struct sluice_err *err);
bool device_any(const struct sluice_cuda *cuda, const struct sluice_op *u);
/* Device memory of @op waits for the stream it names; *@last is shared by operations in a row. */
int device_order(struct sluice_io *io, struct op *op, void *stream, struct sluice_order **last,
		 struct sluice_err *err);
/* Make the context of @device current in the queue's thread, in which this is called. */
int device_enter(struct queue *q, int device);
/* May this queue take on another block of device memory? */
static inline bool device_room(const struct queue *q)
{
	return !q->nr_starved && q->nr_copying < COPY_BLOCKS && q->copy_bytes < COPY_BYTES;
}

/* Before a block is submitted.  0: go ahead; 1: it comes back by device_done(); or -errno. */
int device_stage(struct queue *q, struct block *b);
/* A read's block is in the ring: true when it comes back by device_done(). */
bool device_unload(struct queue *q, struct block *b);
/* One event for all copies since the last call. */
void device_flush(struct queue *q);
/* Blocks whose copies are done, linked by req.next. */
struct block *device_done(struct queue *q);
/* Blocks that waited for a piece and may be tried again, linked by req.next. */
struct block *device_fed(struct queue *q);
/* Is anything in copies, or waiting for the ring? */
static inline bool device_busy(const struct queue *q)
{
	return q->nr_copying || q->nr_starved;
}
int64_t device_patience(struct queue *q); /* how long to sleep before looking again, ns */
void device_close(struct queue *q);       /* by the queue's thread */
void device_free(struct queue *q);        /* the memory alone */

/* ---- ring.c */
void ring_setup(struct ring *ring);
int ring_make(struct sluice_io *io, struct sluice_fault *fault);
int ring_get(struct queue *q, uint64_t len, void **out); /* -EBUSY: the queue has to wait */
void ring_put(struct queue *q, void *piece);
void ring_leave(struct queue *q); /* it does not wait any more */
int ring_slot(struct queue *q);   /* the ring's slot in this queue's engine, -1: none */
void ring_free(struct sluice_io *io);
void ring_abandon(struct sluice_io *io);

/* ---- pend.c, under io->lock */
void pend_add(struct sluice_io *io, struct op *op);
void pend_del(struct sluice_io *io, struct op *op);
struct op *pend_first_host(const struct sluice_io *io); /* without device memory; there is one */

/* Is there something for a queue that has @room for device memory, or has not? */
static inline bool pend_any(const struct sluice_io *io, bool room)
{
	return io->pending.next != &io->pending && (room || io->pend_host);
}

/* ---- queue.c */
unsigned queue_room(const struct queue *q); /* blocks it can take now */
void queue_pull(struct queue *q);
void queue_submit(struct queue *q);
void queue_harvest(struct queue *q, struct sluice_req *list);
void queue_copied(struct queue *q);                   /* look after blocks of device memory */
bool queue_add_local(struct queue *q, struct op *op); /* false: others have time, share it */
struct op *queue_spare(struct queue *q);              /* NULL: no memory */

/* ---- thread.c */
int queue_start(struct queue *q, struct sluice_err *err);
void queue_free(struct queue *q);
void queue_stop(struct sluice_io *io);  /* tell all threads to end when they have nothing to do */
void queue_wake(struct sluice_io *io);  /* under io->lock: somebody sees to what is pending */
void queue_step_aside(struct queue *q); /* before what may take long: others see to the list */

static inline void queue_step_back(struct queue *q)
{
	atomic_store_explicit(&q->aside, false, memory_order_release);
}

int queue_call(struct queue *q, int (*run)(struct queue *q, void *arg), void *arg);
struct queue *queue_current(const struct sluice_io *io); /* of the calling I/O thread, or NULL */

/* ---- wait.c */
void op_publish(struct sluice_io *io, struct op *op); /* under io->lock, as the next */
void waiters_notify(struct sluice_io *io);
void op_finished(struct sluice_io *io); /* io->active less one; not under io->lock */

/* ---- buf.c */
bool region_find(struct sluice_io *io, uint64_t addr, uint64_t len, struct region *out);
void regions_free(struct sluice_io *io);
int buf_slots_take(struct sluice_io *io, uint64_t n); /* neighbours; the first, or -ENOSPC */

#endif
