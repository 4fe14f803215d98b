/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_FLOW_INTERNAL_H
#define PENSTOCK_OBJECT_FLOW_INTERNAL_H

/*
 * The inside of a flow.  All of it belongs to the flow's own thread, but for operations and slots
 * while a thread of a pool or the library has them.
 *
 * An operation waits for these in this order: its turn in the chain, a permit, the object,
 * space.  Permits and space are granted by quotas (see below), so that waits always point to
 * chains that were started earlier.  Then a file thread opens the files, the bytes move in
 * chunks, and a file thread closes the files: the thread that moved the last chunk passes the
 * operation on, unless a chunk failed.
 *
 *	flow.c		the flow as a whole, the loop
 *	flow_chain.c	chains: started, ended
 *	flow_admission.c	what an operation waits for
 *	flow_object.c	objects by number, the order of operations on one
 *	flow_op.c	what an operation does, step by step
 *	flow_slot_queue.c	slots, and the operations that wait for them
 *	flow_chunk.c	chunks: submitted, completed
 *	flow_copy.c	where bytes are; copies and checks
 *	flow_file.c	files: open, close, remove
 *	flow_store.c	operations on a store, which have neither files nor chunks
 *	flow_bucket.c	operations on objects of an object store, which neither have
 *	flow_util.c	spans of time, pools, attributes
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"
#include "base/heap.h"
#include "base/table.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/object/flow.h"
#include "load/object/place.h"
#include "load/object/thread_pool.h"

enum {
	FLOW_PLACES = 8,
	FLOW_SMALL = 64 << 10, /* a chunk that takes one of the small buffers */
	FLOW_BATCH = 64,       /* operations handed to the library at once */
	FLOW_SPANS = 4,
	FLOW_FILE_THREADS = 16, /* so many files are made durable or closed at once */
	FLOW_SERVED = 16, /* large objects that share the device; others wait for their turn */
	FLOW_NAME_MAX = 65535,
	FLOW_SHAPE_MAX = 1000,
	BUCKET_POOLS = 3,
};

/* ---- flow_util.c */

/* How long anything of several things went on: the union of their intervals. */
struct span {
	uint64_t sum;  /* of those that are over for good */
	uint64_t past; /* up to here all is in the sum: what comes late is counted from here on */
	unsigned n;
	struct {
		uint64_t from, to;
	} v[FLOW_SPANS];
};
void span_add(struct span *s, uint64_t from, uint64_t to);
uint64_t span_total(const struct span *s);

struct op;
/* Operations that wait, by what they wait for. */
static inline int op_heap_put(struct penstock_heap *h, uint64_t key, struct op *op)
{
	return penstock_heap_push(h, key, (uintptr_t)op);
}
static inline struct op *op_heap_take(struct penstock_heap *h)
{
	return (struct op *)(uintptr_t)penstock_heap_pop(h).value;
}

/*
 * A limited amount of something (bytes of a place, permits), granted in the order of the
 * reservations.  A reservation returns a ticket: all that was reserved up to and including this
 * one.  It is granted when all but the limit of that has been returned.  So no operation takes what
 * an earlier reservation needs, and none waits for earlier ones while there is enough for all.
 */
struct quota {
	uint64_t limit; /* UINT64_MAX: none */
	uint64_t reserved, returned;
	struct penstock_heap waiting;
};
static inline uint64_t quota_reserve(struct quota *l, uint64_t amount)
{
	return l->reserved += amount;
}
static inline bool quota_is_granted(const struct quota *l, uint64_t ticket)
{
	return l->limit == UINT64_MAX || ticket - l->returned <= l->limit || ticket <= l->returned;
}

/* Structs of one size, never given back before the end. */
struct arena {
	size_t size;
	void *unused;
	void **slabs;
	unsigned nr_slabs;
};
void *arena_get(struct arena *a); /* zeroed; NULL: no memory */
void arena_put(struct arena *a, void *p);
void arena_fini(struct arena *a);

/* Name and shape of an object; from a pool. */
struct attrs {
	uint32_t name_len;
	uint16_t shape_len;
	uint8_t class;
	char text[]; /* the name, the shape, 0 */
};
enum { ATTRS_CLASSES = 3 }; /* of sizes; a larger one is allocated by itself */
struct attrs_pool {
	struct arena of[ATTRS_CLASSES];
};
struct attrs *attrs_new(struct attrs_pool *l, const char *name, uint32_t name_len,
			const char *shape);
void attrs_free(struct attrs_pool *l, struct attrs *attrs);
void attrs_pool_fini(struct attrs_pool *l);
static inline const char *attrs_shape(const struct attrs *l)
{
	return l->shape_len ? l->text + l->name_len : NULL;
}
/* The name for messages: printable and short. */
#define NAME_TEXT 260
const char *attrs_print_name(char out[NAME_TEXT], const struct attrs *l);

/* ---- objects */

/* An open file that operations on an object share. */
struct shared_file {
	struct penstock_file *file;
	uint32_t users;
	bool rw;
};

struct object {
	struct penstock_table_node node; /* its hash is the number of the object */
	struct op *first, *last;         /* operations that have not ended, in order */
	struct attrs *attrs;             /* of what exists */
	struct shared_file *shared_file; /* left open for those that follow */
	uint32_t nr_ops, nr_exclusive;   /* of these operations, and those that are no reads */
	uint32_t closing;                /* files of it that file threads are closing */
	struct place_ref ref;
	uint64_t size, content;
	struct extents where;
	uint8_t place, element;
	bool exists;
	bool range_written; /* ranges are written: open its file for that, too */
};

/* ---- operations */

enum { FLOW_WRITE_RANGE = FLOW_PAUSE + 1 }; /* a write of a range */

enum op_state {
	OP_WAIT_CHAIN, /* others of its chain come first */
	OP_PERMIT,     /* waits for a permit, */
	OP_OBJECT,     /* for operations on its object, */
	OP_SPACE,      /* for space */
	OP_RUNS,
};

/* Conditions that it has passed, however often it was sent back. */
enum op_passed { PASSED_NONE, PASSED_PERMIT, PASSED_OBJECT };

/* What it has at its destination; from SPACE_RESERVED on the quota of the place counts it. */
enum op_space { SPACE_NONE, SPACE_RESERVED, SPACE_TAKEN, SPACE_FILE };

/* Where it stands in its slot queue. */
enum op_queued { QUEUED_NOT, QUEUED_SERVED, QUEUED_WAITS };

/* What is left besides chunks of data. */
enum { TODO_HEADER = 1 /* of an NPY file */, TODO_TIMER = 2 };

/* How the bytes go. */
enum op_mode {
	MODE_NONE,     /* not at all: null */
	MODE_READ,     /* storage -> buffer */
	MODE_WRITE,    /* buffer -> storage */
	MODE_PASS,     /* storage -> buffer -> storage */
	MODE_LOAD,     /* storage -> memory of a place */
	MODE_STORE,    /* memory of a place -> storage */
	MODE_COPY_OUT, /* memory of a place -> buffer */
	MODE_FILL,     /* content -> memory of a place */
	MODE_COPY,     /* memory -> memory of a place */
};

struct chain {
	struct chain *next, *prev; /* in the order of their starts */
	struct op *ops;            /* those that have not ended */
	uint64_t tag;
	uint32_t permits; /* it holds */
	bool stop_on_error, stopped;
};

struct op {
	struct task task; /* of file threads; and on the list of what is ready */
	struct flow *flow;
	struct chain *chain;
	struct op *next;                 /* in the chain */
	struct op *onext, *oprev;        /* on the same object */
	struct op *qnext, *qprev;        /* in a slot queue */
	struct shared_file *shared_file; /* it shares; src_file is its file */
	uint64_t offset, len;            /* of a range; len 0: none */
	struct object *object;           /* NULL: pause */
	struct attrs *attrs;             /* of a write */
	uint64_t size, content, tag, pause_ns;
	uint64_t permit_ticket, space_ticket, charge;
	uint64_t seq; /* in the slot queues: the lowest has waited longest */
	uint64_t begin_ns, start_ns;
	uint8_t type, place, to, element;
	uint8_t state, mode;
	uint8_t passed, space, queued; /* enum op_passed, op_space, op_queued */
	uint8_t todo;                  /* TODO_* */
	bool alloc_begin, alloc_end;
	bool set_missed, missed; /* at a store */
	bool overwrites;         /* it replaces an object of a bucket, under its name */
	bool rw;                 /* its file is open for writing, too */
	bool counted;            /* among those that have files open */
	bool cancelled;          /* nothing happens to the object */
	bool passed_on;          /* the mover of the last chunk gives it to a file thread */
	uint32_t blockers;       /* operations on the object that must end before */
	/* the source is the object's place, unless the operation is a write */
	struct penstock_file *src_file, *dst_file;
	struct place_ref ref; /* of the destination */
	struct extents where;
	struct extent_hint src_hint, dst_hint;
	/* what a write replaces, to be removed by a file thread */
	struct attrs *old_attrs;
	struct place_ref old_ref;
	struct penstock_file *old_file;
	uint8_t old_place;
	uint64_t from, pos, end; /* of what it moves: where it began, is, ends */
	unsigned inflight;       /* chunks, and the file thread that has it */
	atomic_uint chunks;      /* not moved yet, and one until all have been cut */
	struct store_call *store_call;
	struct bucket_call *bucket_call;
	uint64_t wanted; /* size of what a store may not have */
	int code;
	char *msg;
	uint64_t read_end, write_begin, timer_ns;
	uint64_t sync_begin, sync_end; /* by a file thread */
	struct span device, read_device, write_device;
};

/* ---- chunks */

enum {
	SLOTS_READ,
	SLOTS_READ_SMALL,
	SLOTS_WRITE,
	SLOTS_WRITE_SMALL,
	SLOTS_DIRECT,
	SLOTS_COPY,
	SLOT_QUEUES
};

struct slot {
	struct task task;
	struct op *op;
	char *buf;      /* NULL in SLOTS_DIRECT */
	char *data;     /* where in there the bytes are */
	bool has_noise; /* it holds the noise from the beginning on */
	uint64_t pos, len;
	uint64_t start_ns;
	uint8_t queue;        /* SLOTS_* */
	bool header, writing; /* what the library does with it */
	uint32_t nr_pieces;
	uint64_t bytes;     /* of the pieces */
	atomic_uint pieces; /* the library has */
	atomic_int code;
	_Atomic uint64_t end_ns;
	char *msg;
};

struct oplist {
	struct op *first, *last;
};

struct slot_queue {
	struct slot *slots, *unused; /* linked by task.next */
	unsigned nr;
	struct oplist served, waits; /* in turn; and behind them, in the order in which they came */
	unsigned nr_served;
	void *pinned; /* for a GPU */
};

/* Buffers for values of stores and objects of object stores, and the operations that wait for them.
 */
struct buffer_pool {
	char **unused;
	uint64_t nr_unused, nr, capacity;
	struct oplist waits;
};

struct flow {
	struct flow_opts o;
	struct penstock_io *io;
	struct content content;
	struct penstock_file *slab[FLOW_PLACES];
	struct quota space[FLOW_PLACES], permits;
	uint64_t link[FLOW_PLACES][2]; /* until when a null place reads and writes */
	bool growing[FLOW_PLACES], no_memory[FLOW_PLACES];
	bool gpu; /* one of the places is device memory */
	struct inbox inbox;
	struct thread_pool copy_threads, file_threads, bucket_threads;
	/* objects */
	struct penstock_table table;
	struct arena objects, ops, chains, shared_files;
	struct attrs_pool attrs;
	/* chains */
	struct chain *first, *last;
	unsigned running;
	struct task *ready, **ready_tail; /* operations for admit() */
	/* open files: operations that have some, those that wait for others to close theirs, and
	   files that are left open for who comes next */
	uint32_t max_files, nr_files, nr_kept_open;
	struct task *unopened, **unopened_tail;
	struct penstock_heap timers;
	bool aborted, cut_short;
	/* chunks */
	struct slot_queue slot_queues[SLOT_QUEUES];
	struct buffer_pool store_pools[2]; /* for reading, and for writing */
	atomic_uint nr_store_calls;        /* calls whose callback has not returned */
	struct buffer_pool bucket_pools[2][BUCKET_POOLS];
	struct slot *to_write; /* read, to be written */
	uint64_t seq;
	uint64_t dev_ops, dev_bytes, max_dev_ops, max_dev_bytes;
	struct penstock_op batch[FLOW_BATCH];
	struct penstock_iov batch_iov[FLOW_BATCH][2]; /* of copies */
	struct slot *batch_slot[FLOW_BATCH];
	unsigned nr_batch;
	unsigned nr_file_jobs; /* tasks of file threads that are no operation's */
	/* the caller */
	const struct flow_handler *handler;
	unsigned ended;
	uint64_t now;
	uint64_t progress_ns;    /* when something came back */
	uint64_t next_report_ns; /* when to say so the next time */
	struct flow_stats stats;
};

static inline struct place *flow_place(const struct flow *f, unsigned i)
{
	return f->o.places[i];
}

/* ---- flow_object.c */
struct object *object_get(struct flow *f, uint64_t number); /* made if need be; NULL: no memory */
void object_join(struct object *o, struct op *op);          /* at the end of its queue */
/* Let it use the open file, or have it for itself. */
void object_share_file(struct object *o, struct op *op);
struct penstock_file *object_take_file(struct flow *f, struct object *o);
/* The operation is over: those it held up become ready. */
void object_leave(struct flow *f, struct op *op);
/* A file of it has been closed. */
void object_closed(struct flow *f, struct object *o);
/* Nothing is known of it any more, unless it exists or an operation follows. */
void object_forget(struct flow *f, struct object *o);
/* It exists no more: give back what it has but files. */
void object_clear(struct flow *f, struct object *o);
void objects_fini(struct flow *f);

/* ---- flow_admission.c */
void flow_ready(struct flow *f, struct op *op); /* to be admitted */
void space_return(struct flow *f, unsigned place, uint64_t amount);
void permits_return(struct flow *f, uint32_t nr);
/* Let those that are ready now go as far as they can. */
void admit_ready(struct flow *f);
/* The oldest chain waits for nobody but itself: what is not there for it now will not come. */
void admit_oldest(struct flow *f);
/* Nobody waits any more: the flow has been aborted. */
void admit_all(struct flow *f);

/* ---- flow.c */
void flow_timer(struct flow *f, struct op *op, uint64_t at_ns);

/* ---- flow_chain.c */
/* The operation is over. */
void op_end(struct flow *f, struct op *op);
__attribute__((format(printf, 3, 4))) void op_fail(struct op *op, int code, const char *fmt, ...);
void op_fail_named(struct op *op, const struct attrs *l, int code, const char *msg);

/* ---- flow_op.c */
/* The object is the operation's: what a write replaces goes. */
void op_claim(struct flow *f, struct op *op);
/* Take the space: 0, -EAGAIN (later, and it will be called again) or -errno. */
int op_take_space(struct flow *f, struct op *op, bool force);
void op_start(struct flow *f, struct op *op);
/* Called when a file thread is done with it, and when nothing of it is in flight. */
void op_opened(struct flow *f, struct op *op);
void op_moved(struct flow *f, struct op *op);
/* All its chunks have been cut. */
void op_all_cut(struct op *op);
void op_closed(struct flow *f, struct op *op);
bool op_leaves(const struct op *op);
bool op_syncs(const struct op *op); /* what it wrote is to be durable */
bool op_has_dst(const struct op *op);
struct place *op_dst(const struct op *op);
struct place *op_src(const struct op *op);
bool op_on_gpu(const struct op *op); /* one of them is device memory */
static inline const struct attrs *op_attrs(const struct op *op)
{
	return op->attrs ? op->attrs : op->object->attrs;
}
/* The device, or what stands for it, has read or written. */
void op_used(struct op *op, bool write, uint64_t begin_ns, uint64_t end_ns);

/* ---- flow_file.c */
void file_task_open(struct task *t);
void file_task_close(struct task *t);
/* Close a file of an object; what writes or removes it waits for that. */
void flow_close_file(struct flow *f, struct object *o, struct penstock_file *file);
/* Make more of the memory of a place usable. */
void flow_grow_memory(struct flow *f, unsigned place, uint64_t units);

/* ---- flow_copy.c */
/* One end of a transfer. */
struct end {
	struct place *place;
	const struct extents *where;
	struct penstock_file *file;
	struct extent_hint *hint;
};
struct end src_end(struct op *op, struct extent_hint *hint);
struct end dst_end(struct op *op, struct extent_hint *hint);
/* Address in memory, offset in a file, of byte @pos; *@len is cut to what lies there in a row. */
char *end_addr(const struct end *e, uint64_t pos, uint64_t *len);
uint64_t end_offset(const struct end *e, uint64_t pos, uint64_t *len);
void slot_fail(struct slot *s, int code, const char *msg); /* the first failure counts */
void copy_task_check(struct task *t);
void copy_task_out(struct task *t);
void copy_task_make(struct task *t); /* content in the buffer, */
void copy_task_fill(struct task *t); /* or where it belongs */
void copy_task_copy(struct task *t);

/* ---- flow_store.c */
void store_start(struct flow *f, struct op *op); /* instead of opening files */
void stores_serve(struct flow *f);
void stores_cancel(struct flow *f);

/* ---- flow_bucket.c */
int buckets_init(struct flow *f); /* bucket threads, if there is a bucket; 0 or -errno */
void buckets_fini(struct flow *f);
void bucket_start_op(struct flow *f, struct op *op); /* instead of opening files */
void buckets_serve(struct flow *f);
void buckets_cancel(struct flow *f);

/* ---- flow_slot_queue.c */
/* More pieces, for writing with the noise in them.  0 or -ENOMEM. */
int buffer_pool_grow(struct flow *f, struct buffer_pool *s, uint64_t nr, uint64_t bytes,
		     bool writing);
/* @go, or wait: it returns -EAGAIN where there are too few pieces. */
typedef int buffer_pool_go(struct flow *f, struct op *op);
void buffer_pool_start(struct flow *f, struct buffer_pool *s, struct op *op, buffer_pool_go *go);
/* Those that wait: as many as there are pieces for, or none any more. */
void buffer_pool_serve(struct flow *f, struct buffer_pool *s, buffer_pool_go *go);
void buffer_pool_cancel(struct flow *f, struct buffer_pool *s,
			void (*end)(struct flow *f, struct op *op));
int slot_queues_init(struct flow *f, struct penstock_err *err);
void slot_queues_fini(struct flow *f);
void slot_queue_enter(struct flow *f, struct op *op);
void slot_queue_leave(struct flow *f, struct op *op);
/* The next chunk that can be moved now, in its slot; NULL: none. */
struct slot *slot_queues_cut(struct flow *f);
void slot_free(struct flow *f, struct slot *s);
uint64_t slot_bytes(const struct flow *f, unsigned queue); /* of its buffer */
bool device_full(const struct flow *f);
bool op_idle(const struct op *op); /* nothing left to issue or in flight */

/* ---- flow_chunk.c */
/* Hand out what can be handed out, and submit. */
void chunks_issue(struct flow *f);

#endif
