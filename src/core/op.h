/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_OP_H
#define PENSTOCK_CORE_OP_H

/* Operations: what is asked for, and how far it is. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <penstock/penstock.h>

#include "core/limits.h"
#include "core/open_file.h"
#include "core/sleep_state.h"
#include "mem/device_memory.h"

struct counters;
struct op_common;
struct submitter;
struct queue;

/* What an operation asks of a queue that is to take its blocks: bits. */
enum op_kind { KIND_DEVICE = 1, KIND_REMOTE = 2, KINDS = 4 };

/*
 * OP_NEW: being prepared, or a callback's own: no ticket leads to it.  OP_CANCELLED: it had a
 * queue and nothing of it was issued; its queue will find it.
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
		struct mpsc_item item;
	};
	struct submitter *submitter;
	atomic_uint state; /* enum op_state */
	uint32_t index;    /* in its submitter */
	uint32_t gen;      /* under submitter->lock, as the next */
	unsigned waiters;  /* threads in penstock_wait() for this one */
	uint64_t stop;     /* bytes without a gap: everything before it is moved */
	int code;          /* 0 or the first failure, -errno */
	uint32_t done_flags;
	char *msg; /* NULL but for finished ones */

	/* what is asked for */
	struct penstock_file *file;
	struct queue *queue; /* has it alone; NULL: io->lock guards it; changes under io->lock */
	uint32_t opcode;
	uint32_t flags;
	uint64_t offset;
	uint64_t len;
	uint64_t tag;
	void (*on_done)(void *arg, const struct penstock_done *done);
	void *arg;

	const struct penstock_iov *iov; /* memory; points to one or to an allocated copy */
	struct penstock_iov one;
	/* of each segment; NULL: all in host memory */
	const struct penstock_mem_location *locations;
	uint64_t block;         /* split size */
	uint64_t region_at;     /* where in registered memory @one begins; of a list 0 */
	uint16_t region_slot;   /* of its first piece; of a list the piece with all of it */
	uint16_t region_queues; /* to so many queues; 0: it is not in any */
	unsigned nr_iov;
	union {
		struct {
			union {
				struct {
					bool remote;
					bool striped;
				};
				uint16_t remote_or_striped; /* of the file */
			};
			bool extends;     /* penstock_growth_end_write() is owed, or bytes to one */
			bool small_pages; /* goes through bounce buffers, see plan.c */
			bool in_trial;    /* @trial learns from it */
			bool spare;       /* goes back to its queue's spare ones */
		};
		uint64_t bits; /* all of them */
	};

	/* where planning and doing stand, from op_begin() on */
	unsigned seg;    /* segment of the cursor */
	unsigned syncs;  /* members that were synced, or are being */
	uint64_t cursor; /* bytes handed out */
	union {
		uint64_t seg_off;
		uint64_t synced_size; /* with @syncs: the size of a striped file before the first
					 sync */
	};
	unsigned inflight;
	bool cancelled;
	bool direct;       /* the file, when the operation was over */
	char *why;         /* with code < 0: in words of an object store's */
	uint64_t finished; /* when, in nanoseconds, where there are several submitters */

	struct penstock_cuda_failure failure; /* with code < 0: of CUDA, what made it fail */
	uint64_t fail_off;                    /* with code < 0 */
	uint64_t fail_len;
	uint64_t est;                          /* pending: share in io->pending_blocks */
	struct penstock_stream_marker *marker; /* with locations: not before this; NULL: any time */
	struct copy_trial *trial;              /* with @in_trial */
	uint64_t trial_ns;                     /* when it began, */
	unsigned trial_index;                  /* as which; 0: not alone */
	struct penstock_mem_location one_location;
} __attribute__((aligned(LINE / 2)));

/* Nothing of it is handed out yet.  By who is the first to do so. */
static inline void op_begin(struct op *op)
{
	memset((char *)op + offsetof(struct op, seg), 0,
	       offsetof(struct op, failure) - offsetof(struct op, seg));
}

/* On FUSE: the thread that issues a block may have to wait until it is done, see block.c. */
static inline bool op_may_block(const struct op *op)
{
	return op->file && op->file->backing.fuse;
}

/* About so many are still to be handed out; never none where there is one. */
static inline uint64_t op_blocks_left(const struct op *op)
{
	return (op->len - op->cursor + op->block - 1) / op->block;
}

/* What is asked for: to be looked at, or written anew. */
#define op_prefetch(op, rw)                          \
	do {                                         \
		__builtin_prefetch(&(op)->file, rw); \
		__builtin_prefetch(&(op)->iov, rw);  \
	} while (0)

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

/* Fill @op, which has its place already; takes what op_drop() gives back. */
int op_prepare(struct penstock_io *io, struct op_common *common, struct op *op,
	       const struct penstock_op *u, struct penstock_err *err);
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
void op_conclude(struct penstock_io *io, struct op *op, struct counters *count);
void op_result(const struct op *op, struct penstock_done *done);
bool op_needs_sync(const struct op *op); /* or whatever ends it, see op_commits_object() */
/* Of an object by path: it becomes one, or is given up, when all is written. */
static inline bool op_commits_object(const struct op *op)
{
	return op->opcode == PENSTOCK_WRITE && op->file && op->file->by_path &&
	       op->file->backing.object;
}
static inline bool op_synced(const struct op *op)
{
	return op->syncs == op->file->nr_members;
}
/* The next member to be synced. */
struct file_member *op_next_to_sync(struct op *op);
void op_cancel(struct op *op); /* nothing more of it is to be issued */

/* ---- message.c */
const char *op_word(const struct op *op); /* "read", ... */
/* One line: which operation, where, by what, and how it went; NULL: no memory. */
char *op_message(const struct penstock_io *io, const struct op *op, const char *name, bool remote);

#endif
