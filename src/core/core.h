/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CORE_CORE_H
#define SLUICE_CORE_CORE_H

/*
 * The inside of a handle.  Who touches what:
 *
 *  - struct sluice_io: io->lock guards the list of operations that all queues share,
 *    files, memory regions and those who wait for the handle as a whole.  It is held
 *    for list work only, never across a system call that does I/O, and no small
 *    operation needs it.
 *  - struct port: where a thread of the user's meets the handle.  port->lock guards
 *    operations that are free or finished; only threads of this port take it, those that
 *    wait for a ticket of it, and an I/O thread that has to wake one of these.
 *  - struct queue: belongs to its I/O thread; what others look at is in queue->hand,
 *    guarded by io->lock, or atomic.
 *  - struct op: belongs to who has it.  The submitting thread prepares it; then, with a
 *    home, the I/O thread of that queue has it alone, without one io->lock guards it;
 *    finished, it is on the pile or the list of its port.
 *  - struct block: belongs to the thread that runs it.
 *
 * Locks are taken in this order: a port's (of several ports, by index), io->lock, the ring's.
 *
 * Life of an operation: op_prepare() checks it and resolves the file; it is put on the
 * pile of a queue, or, when it is large, on the list that all share; queues take blocks from
 * it (plan_block()); each finished block goes through block_finish(), which resubmits
 * what is short; when the last one is back op_conclude() does what remains (truncate,
 * give space back, directory) and port_return() hands the result to who waits.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <sluice/sluice.h>

#include "base/util.h"
#include "core/hand.h"
#include "core/pace.h"
#include "core/stage.h"
#include "engine/engine.h"
#include "mem/arena.h"
#include "mem/device.h"
#include "store/path.h"
#include "store/stripe.h"

enum {
	FILE_SLOTS = 256, /* registered files of a handle */
	BUF_SLOTS = 1024, /* registered pieces of memory, of at most REGION_PIECE each */
	PATH_BUCKETS = 64,
	PORTS_MAX = 64,         /* threads beyond that share them */
	OP_CHUNK = 256,         /* operations allocated at a time */
	OP_INDEX_BITS = 26,     /* of one port, in a ticket */
	LINE = 128,             /* cache lines come in pairs */
	STUCK_NS = 1000000,     /* an I/O thread that is away for so long is not waited for */
	ALONE_BYTES = 64 << 10, /* a smaller operation is not worth sharing with other queues */
	BLOCK_AUTO = 1 << 20,   /* split size where nothing speaks against it */
	DEPTH_AUTO = 128,       /* blocks in flight when the caller leaves it to us, */
	BYTES_AUTO = 32 << 20,  /* but no more bytes than this: deeper costs and gains nothing */
	PART_BYTES = 16 << 20,  /* so many for each member of a striped file */
	PULL_MAX = 64,          /* blocks taken from the pending list under one lock */
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

/* What an operation asks of a queue that is to take its blocks: bits. */
enum op_kind { KIND_DEVICE = 1, KIND_REMOTE = 2, KINDS = 4 };

/* What is worth remembering of a block device: reading it from sysfs takes long. */
struct device {
	dev_t dev;
	uint32_t max_segments; /* of one request, 0: unknown */
	bool virtual;          /* a hypervisor gets each segment by itself */
};

/* What was found out about a device; by direction and kind of pages. */
struct device_stages {
	dev_t dev;
	bool used;
	struct stage of[2][2];
};

enum file_attach { ATTACH_UNTRIED, ATTACH_DONE, ATTACH_REFUSED };

/* What engines are told of: a file, or a member of a striped one. */
struct part {
	struct sluice_backing *store;
	int slot; /* for registration with engines, -1: none */
	struct device device;
	struct sluice_attached attached; /* with ATTACH_DONE */
};

/* What blocks of one queue have for one member of a striped file. */
struct held {
	uint64_t bytes;
	unsigned blocks;
	unsigned bounced; /* of these, in need of a bounce buffer */
};

struct sluice_file {
	struct sluice_io *io;
	struct sluice_file *next; /* in its bucket */
	struct sluice_backing store;
	char *name;
	struct device device; /* of a striped file: what suits all members */
	struct part whole;    /* with one part this is it */
	struct part *parts;
	unsigned nr_parts;
	struct held *held; /* with several: of each queue, for each of them */
	union {
		struct {
			bool remote;  /* an object, */
			bool striped; /* or several parts */
		};
		uint16_t apart; /* either; operations have it, too */
	};
	atomic_int attach;               /* of all parts to an engine that takes device memory */
	bool by_path;                    /* closed with the last operation that uses it */
	uint64_t split[2];               /* on small pages, on huge ones; not of an object */
	uint64_t issued;                 /* an object: bytes whose writing was handed out */
	_Alignas(LINE) atomic_uint refs; /* operations, plus one while open */
};

/* References to a file that are taken together, for operations to come. */
struct file_refs {
	struct sluice_file *file;
	unsigned left;
	unsigned ahead; /* operations to come, the next one included */
};

/* Registered or allocated memory. */
struct region {
	uint64_t addr;
	uint64_t len;
	unsigned slot;           /* of its first piece */
	unsigned nr_slots;       /* 0: not registered with the engine */
	unsigned known;          /* the engines of so many queues have it */
	struct sluice_area area; /* area.addr NULL: the caller's memory */
	bool huge;
	bool locked_here; /* mlocked by sluice_buf_register() */
	int device;       /* whose memory it is, -1: the host's */
};

/*
 * OP_NEW: being prepared, or a callback's own: no ticket leads to it.  OP_CANCELLED: it had a
 * home and nothing of it was issued; its queue will find it.
 */
enum op_state { OP_FREE, OP_NEW, OP_PENDING, OP_ISSUED, OP_CANCELLED, OP_DONE };

/*
 * It goes from one processor to another and back, line by line of memory.  So what goes both
 * ways is together, and what is asked for, which nobody writes to once it is submitted; where
 * planning stands is on a line of its own, that stays with the I/O thread, and what few need
 * is behind it.
 */
struct op {
	union {
		struct {
			struct op *next; /* free, pending, done, or a queue's own list */
			struct op *prev; /* pending and done */
		};
		struct hand_item item;
	};
	struct port *port;
	atomic_uint state; /* enum op_state */
	uint32_t index;    /* in its port */
	uint32_t gen;      /* under port->lock, as the next */
	unsigned waiters;  /* threads in sluice_wait() for this one */
	uint64_t stop;     /* bytes without a gap: everything before it is moved */
	int code;          /* 0 or the first failure, -errno */
	uint32_t done_flags;
	char *msg; /* NULL but for finished ones */

	/* what is asked for */
	struct sluice_file *file;
	struct queue *home; /* has it alone; NULL: io->lock guards it; changes under io->lock */
	uint32_t opcode;
	uint32_t flags;
	uint64_t offset;
	uint64_t len;
	uint64_t tag;
	void (*on_done)(void *arg, const struct sluice_done *done);
	void *arg;

	const struct sluice_iov *iov; /* memory; points to one or to an allocated copy */
	struct sluice_iov one;
	const struct sluice_place *places; /* of each segment; NULL: all in host memory */
	uint64_t block;                    /* split size */
	uint64_t region_at;                /* where in registered memory @one begins; of a list 0 */
	uint16_t region_slot;  /* of its first piece; of a list the piece with all of it */
	uint16_t region_known; /* to so many queues; 0: it is not in any */
	unsigned nr_iov;
	union {
		struct {
			union {
				struct {
					bool remote;
					bool striped;
				};
				uint16_t apart; /* of the file */
			};
			bool extends;     /* sluice_extend_end() is owed, or bytes to one */
			bool small_pages; /* goes through bounce buffers, see plan.c */
			bool staged;      /* @stage learns from it */
			bool spare;       /* goes back to its queue's spare ones */
		};
		uint64_t bits; /* all of them */
	};

	/* where planning and doing stand, from op_begin() on */
	unsigned seg;    /* segment of the cursor */
	unsigned syncs;  /* parts that were synced, or are being */
	uint64_t cursor; /* bytes handed out */
	uint64_t seg_off;
	unsigned inflight;
	bool cancelled;
	bool direct;       /* the file, when the operation was over */
	char *why;         /* with code < 0: in words of a store's */
	uint64_t finished; /* when, in nanoseconds, where there are several ports */

	struct sluice_fault fault; /* with code < 0: of CUDA, what made it fail */
	uint64_t fail_off;         /* with code < 0 */
	uint64_t fail_len;
	uint64_t est;               /* pending: share in io->pend_blocks */
	struct sluice_order *order; /* with places: not before this; NULL: any time */
	struct stage *stage;        /* with @staged */
	uint64_t stage_ns;          /* when it began, */
	unsigned stage_turn;        /* as which; 0: not alone */
	struct sluice_place one_place;
} __attribute__((aligned(LINE / 2)));

/* Nothing of it is handed out yet.  By who is the first to do so. */
static inline void op_begin(struct op *op)
{
	memset((char *)op + offsetof(struct op, seg), 0,
	       offsetof(struct op, fault) - offsetof(struct op, seg));
}

/* What is asked for: to be looked at, or written anew. */
#define op_prefetch(op, rw)                          \
	do {                                         \
		__builtin_prefetch(&(op)->file, rw); \
		__builtin_prefetch(&(op)->iov, rw);  \
	} while (0)

enum block_mode {
	BLOCK_STRAIGHT, /* file <-> caller's memory */
	BLOCK_LIST,     /* file <-> several segments of it, whole ones */
	BLOCK_BOUNCE,   /* file <-> aligned bounce <-> caller's memory */
	BLOCK_DEVICE,   /* file <-> piece of the ring <-> device memory, see device.c */
	BLOCK_CUFILE,   /* file <-> device memory, by an engine that takes it */
	BLOCK_COPY,     /* device memory <-> memory, without a file */
	BLOCK_SYNC,     /* fsync, fdatasync */
};

struct block {
	struct sluice_req req; /* first: the engine hands it back */
	struct op *op;
	struct part *part; /* of the file, that has its bytes, */
	uint64_t at;       /* from here on */
	uint64_t pos;      /* in the operation */
	uint64_t len;      /* bytes of the operation it stands for */
	uint64_t seg_off;
	unsigned seg;  /* where its memory starts */
	unsigned segs; /* of a list: how many */
	enum block_mode mode;

	/* zero when it is planned, up to @data */
	uint64_t moved;    /* of @len, done */
	struct held *held; /* where it is counted; NULL: not of a striped file */
	void *bounce;      /* or a piece of the ring */
	uint32_t skip;     /* bounce, ring: bytes before the wanted ones */
	unsigned tries;
	uint32_t flags; /* SLUICE_DONE_* */
	int code;       /* 0 or -errno */
	bool plain;     /* through the page cache, by plain_fd */
	bool started;   /* block_start() has been here */
	bool inflight;  /* the engine has it */
	bool lost;      /* and may keep it: the engine is broken */
	bool remote;    /* of an object, see remote.c */
	bool ranged;    /* @range is on its file's list */
	bool eof;
	bool staged; /* device: a write's bytes are there; cuFile: its turn has come */
	struct sluice_fault fault;

	char *data; /* device: where in the piece the wanted bytes start */
	struct sluice_range range;
};

struct counters {
	atomic_uint_fast64_t ops, ops_failed, bytes_read, bytes_written;
	/* of blocks: each is one of the first three */
	atomic_uint_fast64_t direct, buffered, objects, bounced, inlined, fixed, ring, cufile;
	atomic_uint_fast64_t resubmissions, preallocations, submit_calls, wakeups;
	bool many; /* writers */
};

/* Counters of a queue have one writer and need no locked instruction; those of a port may. */
#define COUNT(c, field, n)                                                                         \
	((c)->many                                                                                 \
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

struct queue {
	_Alignas(LINE) struct hand hand; /* operations for this queue alone */
	atomic_bool purge;               /* some of them are cancelled */
	atomic_bool called;              /* there are calls */
	atomic_uint turn;                /* how often it has been away */
	pthread_mutex_t nap;             /* only for sleeping with HAND_IDLE, with */
	pthread_cond_t work;

	_Alignas(LINE) struct sluice_io *io;
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
	struct op *local, **local_tail; /* operations that have their home here, off the pile */
	unsigned nr_local;
	uint64_t pend_none;            /* after so many changes nothing was for it, see pend.c, */
	unsigned pend_none_can;        /* with this it could take */
	bool shared_first;             /* whose turn it is when there is room for one */
	bool fixed_lists;              /* its engine takes registered memory in lists, too */
	struct op *spare;              /* free operations for callbacks */
	unsigned spin_ns;              /* see spin.h */
	atomic_uint_fast64_t moved;    /* bytes, by blocks, for pace.h */
	atomic_uint_fast64_t finished; /* operations, and of these */
	atomic_uint_fast64_t results;  /* those somebody has to collect */
	struct sluice_area bounce_area;
	void **bounce_free;
	unsigned nr_bounce_free;
	bool bounce_ready;
	struct part *files[FILE_SLOTS]; /* registered with this engine */
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

	/* objects: see remote.c */
	void *remote_blocks; /* the first file that is one brings them, under io->lock */
	struct block *remote_free;
	unsigned nr_remote;        /* blocks that a store has */
	struct pile remote_back;   /* those that are back */
	atomic_bool remote_sleeps; /* the queue has to be woken for one */
	atomic_uint remote_busy;   /* threads that hand one back */

	/* under io->lock */
	struct call *calls;
	bool ready_to_go; /* the thread has tried to open its engine: see open_result */
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

/* A thread in a wait function: for an operation of a port, or for the handle as a whole. */
struct waiter {
	struct waiter *next;
	pthread_cond_t cond;
	const struct op *op; /* this one; NULL: see need */
	unsigned need;       /* so many results, whichever they are; 0: until all is quiet */
	bool told;           /* that it may have come about */
	bool stuck;          /* it has slept for a while */
};

/*
 * Where threads of the user's meet the handle, each at its own as long as there are enough:
 * the operations they submit come from here, and come back here when they are finished.
 */
struct port {
	_Alignas(LINE) struct pile back; /* finished operations, from I/O threads */
	atomic_uint sleepers;            /* on the list of waiters */

	_Alignas(LINE) pthread_mutex_t lock;
	unsigned index;
	struct op *free;
	struct op done;               /* head of the list of finished ones nobody has collected */
	unsigned offered;             /* of these, nobody waits for by ticket */
	uint64_t drained;             /* operations that came back, ever */
	atomic_uint_fast64_t claimed; /* results that are not for sluice_wait_any(), ever */
	struct op **chunks;
	unsigned nr_chunks;
	struct waiter *waiters;
	_Atomic(struct queue *) home; /* that its operations go to */
	atomic_uint spin_ns;          /* see spin.h */

	/* by its threads, without the lock */
	atomic_uint_fast64_t submitted;
	atomic_uint_fast64_t finished; /* by cancelling; others count with their queue, */
	atomic_uint_fast64_t results;  /* as do these */
	struct counters count;
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
	void *bank;      /* that has it in this slot, or NULL */
	struct queue *waiters, **waiters_tail;
};

struct sluice_io {
	struct sluice_opts opts; /* with defaults filled in */
	const struct sluice_engine *engine;
	char *settings;  /* of the engine */
	uint32_t *guard; /* 1 in the process that opened it, 0 after fork() */
	uint64_t opened; /* when: tells it from an earlier one at the same address */
	struct queue *queues;
	atomic_uint nr_queues; /* grows where the number is left to us, */
	atomic_uint nr_active; /* of these, take part in what is shared: the first ones, */
	unsigned max_queues;   /* up to this */
	_Atomic(struct sluice_object *) objects; /* NULL: none yet */
	bool auto_depth;
	bool huge_by_default; /* ordinary memory is on huge pages */
	struct port *ports[PORTS_MAX];
	atomic_uint nr_ports;
	atomic_uint nr_regions;
	atomic_uint regions_version; /* changes whenever they do */

	/* seldom written, looked at often */
	_Alignas(LINE) atomic_uint nr_waiters;
	atomic_uint nr_idle; /* queues that sleep with nothing to do */
	atomic_uint closers; /* threads that wait to close a file */
	atomic_bool stop;
	atomic_uint_fast64_t pend_blocks; /* about how many are pending, and */
	atomic_uint_fast64_t pend_ops;    /* operations, but for */
	atomic_uint_fast64_t pend_remote; /* those on objects */

	_Alignas(LINE) pthread_mutex_t lock;
	struct op pending; /* head of the list of those with blocks to hand out to any queue */
	uint64_t pend_kinds[KINDS]; /* how many of each */
	uint64_t pend_changes;      /* of the list, ever */
	unsigned pend_row;          /* blocks of a huge one since another was let by */
	struct waiter *waiters;
	pthread_cond_t called; /* a call is done, a file has lost an operation, a thread is ready */
	unsigned next_port, next_home;

	struct sluice_file *files[PATH_BUCKETS];
	atomic_uint nr_by_path; /* of them, opened for operations */
	struct part *slots[FILE_SLOTS];
	atomic_uint_fast64_t flight_bytes; /* in flight of a queue whose depth is left to us */
	struct sluice_extend *extends;     /* files that are being written */
	struct device devices[8];          /* the last few met */
	unsigned nr_devices;
	struct device_stages stages[8];
	struct region *regions;
	bool buf_slots[BUF_SLOTS];
	pthread_mutex_t region_lock; /* one registration at a time */
	pthread_mutex_t bank_lock;   /* no other is taken under it */
	void *bank;                  /* the engine's, where it pins memory once for all queues */
	bool bank_tried;
	struct sluice_gpus gpus;
	struct ring ring;

	/* by the first queue's thread: how many it takes, see pace.h */
	struct pace pace;
	struct pace_seen pace_seen; /* when the window began: time, CPU time, bytes */

	atomic_uint fallbacks;
	char fallback_why[256];
};

/*
 * pthread_cancel() must not leave locks held and operations half taken: every public
 * function starts with this.
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

/* More than this of a queue's blocks need not be in flight where the depth is left to us. */
static inline uint64_t io_flight_bytes(struct sluice_io *io)
{
	return atomic_load_explicit(&io->flight_bytes, memory_order_relaxed);
}

/* ---- file.c */
int file_for_op(struct sluice_io *io, const struct sluice_op *u, struct file_refs *refs,
		struct sluice_file **out, struct sluice_err *err);
int file_put(struct sluice_file *f); /* what close(2) said if that was the last use, else 0 */
void file_put_many(struct sluice_file *f, unsigned n); /* of the user's; NULL: nothing */
void files_free(struct sluice_io *io);                 /* when the handle is closed */
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

/* What a thread remembers of a handle, see port.c. */
struct here {
	const struct sluice_io *io;
	uint64_t opened;
	struct port *port;
	unsigned regions_version;
	struct region region; /* that memory was last found in; len 0: none */
	unsigned seen_turn;   /* of the queue, when it was last found to be away, */
	uint64_t seen_at;     /* and since when it is known */
	unsigned looks;       /* for results, */
	uint64_t looked_at;   /* and when for those of others */
	unsigned whole;       /* batches to be handed over as a whole, */
	unsigned missed;      /* after so many that had better been */
};

/* What operations that are made together have in common. */
struct maker {
	const struct sluice_cuda *cuda; /* as sluice_cuda_present() says */
	struct here *here;
	struct file_refs refs;
};

/* Fill @op, which has its place already; takes what op_drop() gives back. */
int op_prepare(struct sluice_io *io, struct maker *m, struct op *op, const struct sluice_op *u,
	       struct sluice_err *err);
void op_drop(struct op *op);
/* Nothing left to hand out or in flight? */
static inline bool op_is_over(const struct op *op)
{
	return op->cursor == op->len && !op->inflight &&
	       atomic_load_explicit(&op->state, memory_order_relaxed) != OP_PENDING;
}

/*
 * All blocks are back: truncate, give back space, write the message.  Without io->lock.
 * A file of the user's stays referenced until the result can be seen.
 */
void op_conclude(struct sluice_io *io, struct op *op, struct counters *count);
void op_result(const struct op *op, struct sluice_done *done);
bool op_needs_sync(const struct op *op); /* or whatever ends it, see op_ends() */
/* Of an object by path: it becomes one, or is given up, when all is written. */
static inline bool op_ends(const struct op *op)
{
	return op->opcode == SLUICE_WRITE && op->file && op->file->by_path &&
	       op->file->store.remote;
}
static inline bool op_synced(const struct op *op)
{
	return op->syncs == op->file->nr_parts;
}
void op_cancel(struct op *op); /* nothing more of it is to be issued */

/* ---- port.c */
struct here *here_of(struct sluice_io *io); /* NULL: no memory */
uint64_t op_ticket(const struct op *op);
struct port *port_of_ticket(struct sluice_io *io, uint64_t ticket); /* NULL: nobody's */
/* Under port->lock. */
struct op *port_find(struct port *port, uint64_t ticket);
void port_drain(struct port *port); /* look at what came back */
void port_claim(struct port *port); /* one that was offered is not any more */
void port_collect(struct port *port, struct op *op);
/* Up to @n free operations, linked by next; NULL: no memory.  Takes the lock, as the next. */
struct op *port_take(struct port *port, unsigned n);
void port_put(struct op *list); /* operations that came to nothing */
/*
 * All of them, and look at what came back; returns how many, for the others.  *@quiet: at one
 * moment since they are locked nothing was under way, and all results there were are here.
 */
unsigned ports_lock(struct sluice_io *io, bool *quiet);
void ports_unlock(struct sluice_io *io, unsigned n);
unsigned ports_offered(struct sluice_io *io, unsigned n);
/* The result that came about first, of those nobody waits for by ticket; NULL: none. */
struct op *ports_oldest(struct sluice_io *io, unsigned n);
bool ports_quiet(struct sluice_io *io); /* no operation is under way */
/* Results for sluice_wait_any(); without a lock, so who changes it has to tell waiters after that.
 */
uint64_t ports_available(struct sluice_io *io);
void ports_free(struct sluice_io *io);

/* Operations on the way back; those of one port and one file together. */
struct returns {
	struct op *newest, *oldest;
	struct port *port;
	struct sluice_file *file;
	unsigned refs;
	struct hand_far far;
};
void returns_add(struct returns *r, struct op *op);
void returns_file(struct returns *r, struct op *op); /* only its file goes */
void returns_send(struct returns *r);

/* ---- message.c */
const char *op_word(const struct op *op); /* "read", ... */
/* One line: which operation, where, by what, and how it went; NULL: no memory. */
char *op_message(const struct sluice_io *io, const struct op *op, const char *name, bool remote);

/* ---- plan.c */
/* Fill @b with the next block of @op and move the cursor; false when there is none left. */
bool plan_block(struct op *op, struct block *b);
uint64_t plan_split(const struct sluice_file *f, bool huge);
bool plan_small_pages(const struct op *op); /* memory on these, on such a disk: is it copied? */
/* The same where it is found out; under no lock.  plan_staged() when it is over, or came to
 * nothing. */
void plan_stage(struct sluice_io *io, struct op *op, bool huge);
void plan_staged(struct sluice_io *io, struct op *op);

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
/* Account for a finished block in its operation. */
void block_account(struct op *op, struct block *b);

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

/* ---- remote.c */
/* @f has its name.  By path nothing is asked of the store before the first transfer. */
int remote_open(struct sluice_io *io, struct sluice_file *f, int oflags, bool by_path,
		struct sluice_err *err);
int remote_settle(struct sluice_io *io); /* under io->lock */
/* Make it the object, or nothing; before its store is closed.  Waits for the network. */
int remote_close(struct sluice_file *f, bool commit, struct sluice_err *err);
bool remote_is_stale(const struct sluice_file *f);
uint64_t remote_part(const struct sluice_file *f);
int remote_prepare(struct op *op, const struct sluice_op *u, struct sluice_err *err);
bool remote_is_next(const struct op *op);     /* of writes; under io->lock */
void remote_give_up(struct op *op, int code); /* it will not write all that it promised */
struct block *remote_get(struct queue *q);    /* there is one */
void remote_put(struct queue *q, struct block *b);
void remote_start(struct queue *q, struct block *b); /* comes back by remote_done() */
struct block *remote_done(struct queue *q);          /* linked by req.next */
bool remote_may_sleep(struct queue *q);              /* from now on it is woken for them */
void remote_leave(struct queue *q);                  /* before its engine is closed */

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
/* Whose block is handed out next to a queue that can take these kinds; NULL: nobody's yet. */
struct op *pend_choose(struct queue *q, unsigned can);
static inline struct op *pend_next(struct queue *q, unsigned can)
{
	struct sluice_io *io = q->io;
	struct op *op = io->pending.next;

	/* Of one that is alone, and for any queue, there is nothing to choose. */
	return op->next == &io->pending && op != &io->pending && !op->places && !op->apart
		       ? op
		       : pend_choose(q, can);
}

/* Of a striped file, not begun: is it to let others of its queue by? */
bool pend_lets_by(const struct queue *q, const struct op *op);
/* A block of one is back: its member may have room.  Before it is counted; by the queue's thread.
 */
void pend_returned(struct queue *q, const struct block *b);

/* Is there something for a queue that can take these kinds? */
static inline bool pend_any(const struct sluice_io *io, unsigned can)
{
	bool any = false;

	for (unsigned kind = 0; kind < KINDS; kind++)
		any |= !(kind & ~can) && io->pend_kinds[kind];
	return any;
}

/* The same as far as can be seen without the lock. */
static inline bool pend_seen(struct sluice_io *io)
{
	return atomic_load(&io->pend_ops);
}

/* And for this queue to see to. */
static inline bool pend_for(struct queue *q)
{
	return (pend_seen(q->io) && q->index < atomic_load(&q->io->nr_active)) ||
	       (!q->index && atomic_load(&q->io->pend_remote));
}

/* Under io->lock. */
static inline unsigned queue_can(const struct queue *q)
{
	return (device_room(q) ? KIND_DEVICE : 0) | (q->remote_free ? KIND_REMOTE : 0);
}

/* ---- queue.c */
unsigned queue_room(const struct queue *q); /* blocks it can take now */
void queue_pull(struct queue *q);
void queue_submit(struct queue *q);
void queue_harvest(struct queue *q, struct sluice_req *list);
void queue_copied(struct queue *q);                   /* look after blocks of device memory */
void queue_remote(struct queue *q);                   /* and of objects */
bool queue_add_local(struct queue *q, struct op *op); /* false: others have time, share it */
struct op *queue_spare(struct queue *q);              /* NULL: no memory */
void queue_purge(struct queue *q);                    /* finish what was cancelled here */
/* Share what waits in this queue with the others, by its own thread. */
void queue_share(struct queue *q);
/* Finish operations of which all blocks are back; @q NULL: not in an I/O thread. */
void ops_finish(struct sluice_io *io, struct queue *q, struct op *list);

/* ---- thread.c */
int queue_start(struct queue *q, struct sluice_err *err);
void queue_free(struct queue *q);
/* By the first queue's thread: so many take part from now on, as far as that is possible. */
void queues_resize(struct sluice_io *io, unsigned n);
void queue_stop(struct sluice_io *io);  /* tell all threads to end when they have nothing to do */
void queue_wake(struct sluice_io *io);  /* under io->lock: somebody sees to what is pending */
void queue_kick(struct queue *q);       /* make its thread look around, wherever it is */
void queue_step_aside(struct queue *q); /* before what may take long: others see to the list */
void queue_step_back(struct queue *q);
/*
 * Hand it operations, newest first, which have their home there.  True: it was awake and had
 * nothing to do.
 */
bool queue_give(struct queue *q, struct here *here, struct op *newest, struct op *oldest);
/* Somebody has to wait: what lies before a queue that has no time is for all. */
void queue_rescue(struct sluice_io *io, struct queue *q);

int queue_call(struct queue *q, int (*run)(struct queue *q, void *arg), void *arg);
/* Of the calling I/O thread, or NULL. */
static inline struct queue *queue_current(const struct sluice_io *io)
{
	return current_queue && current_queue->io == io ? current_queue : NULL;
}

void ports_rehome(struct sluice_io *io); /* port.c: among the queues that are active now */

/* ---- wait.c */
void waiters_tell(struct sluice_io *io); /* operations are over */
void waiters_tell_port(struct port *port);

/* ---- buf.c */
/* What holds it, until this thread asks again; NULL: nothing. */
const struct region *region_find(struct sluice_io *io, struct here *here, uint64_t addr,
				 uint64_t len);
void regions_free(struct sluice_io *io);
int buf_slots_take(struct sluice_io *io, uint64_t n); /* neighbours; the first, or -ENOSPC */
/* Pin memory for all queues; returns the bank for set_buf(), or NULL: each pins for itself. */
void *bank_put(struct sluice_io *io, unsigned slot, void *addr, uint64_t len);
void bank_free(struct sluice_io *io);

#endif
