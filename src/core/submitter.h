/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_SUBMITTER_H
#define PENSTOCK_CORE_SUBMITTER_H

/* Where threads of the user's meet a handle. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/op.h"
#include "core/sleep_state.h"

/* A thread in a wait function: for an operation of a submitter, or for the handle as a whole. */
struct result_waiter {
	struct result_waiter *next;
	pthread_cond_t cond;
	const struct op *op; /* this one; NULL: see need */
	unsigned need;       /* so many results, whichever they are; 0: until all is quiet */
	bool woken;          /* it may have come about: this thread has been signalled */
	bool woken_in_vain;  /* it was signalled, and another thread took the result */
	bool stuck;          /* it has slept for a while */
};

/*
 * Where threads of the user's meet the handle, each at its own as long as there are enough:
 * the operations they submit come from it, and come back to it when they are finished.
 */
struct submitter {
	_Alignas(LINE) struct mpsc_stack results_in; /* finished operations, from I/O threads */
	atomic_uint sleepers;                        /* on the list of waiters */

	_Alignas(LINE) pthread_mutex_t lock;
	unsigned index;
	struct op *free;
	struct op done;               /* head of the list of finished ones nobody has collected */
	unsigned nr_unclaimed;        /* results that no thread waits for by ticket */
	uint64_t drained;             /* operations that came back, ever */
	atomic_uint_fast64_t claimed; /* results that are not for penstock_wait_any(), ever */
	struct op **chunks;
	unsigned nr_chunks;
	struct result_waiter *waiters;
	_Atomic(struct queue *) queue; /* that its operations go to */
	atomic_uint spin_ns;           /* see spin.h */

	/* by its threads, without the lock */
	atomic_uint_fast64_t submitted;
	atomic_uint_fast64_t finished; /* by cancelling; others count with their queue, */
	atomic_uint_fast64_t results;  /* as do these */
	struct counters count;
};

/* What a thread has cached of a handle, see submitter.c. */
struct thread_cache {
	const struct penstock_io *io;
	uint64_t opened;
	struct submitter *submitter;
	unsigned regions_version;
	struct region region;      /* that memory was last found in; len 0: none */
	unsigned seen_busy_period; /* of the queue, when it was last found to be away, */
	uint64_t seen_at;          /* and since when it is known */
	unsigned nr_collects;      /* how often it looked for results */
	uint64_t scanned_at;       /* when it last looked for results of other threads */
	unsigned whole;            /* batches to be handed over as a whole, */
	unsigned missed;           /* after so many that had better been */
};

/* What operations that are made together have in common. */
struct op_common {
	const struct penstock_cuda *cuda; /* as penstock_cuda_present() says */
	struct thread_cache *cache;
	struct file_refs refs;
};

/* ---- submitter.c */
struct thread_cache *thread_cache_get(struct penstock_io *io); /* NULL: no memory */
uint64_t op_ticket(const struct op *op);
struct submitter *submitter_of_ticket(struct penstock_io *io, uint64_t ticket); /* NULL: nobody's */
/* Under submitter->lock. */
struct op *submitter_find_op(struct submitter *submitter, uint64_t ticket);
void submitter_take_results(struct submitter *submitter); /* look at what came back */
/* A thread waits for the ticket of a result: penstock_wait_any() must not return it. */
void submitter_claim(struct submitter *submitter);
void submitter_collect(struct submitter *submitter, struct op *op);
/* Up to @n free operations, linked by next; NULL: no memory.  Takes the lock, as the next. */
struct op *submitter_take_ops(struct submitter *submitter, unsigned n);
void submitter_put_ops(struct op *list); /* operations that came to nothing */
/*
 * All of them, and look at what came back; returns how many, for the others.  *@quiet: at one
 * moment since they are locked nothing was under way, and all results there were are here.
 */
unsigned submitters_lock(struct penstock_io *io, bool *quiet);
void submitters_unlock(struct penstock_io *io, unsigned n);
/* Results nobody waits for by ticket: all of @own, of the others those that came about by @until.
 */
struct result_filter {
	const struct submitter *own;
	uint64_t until; /* UINT64_MAX: whenever */
};
bool submitters_have_results(struct penstock_io *io, unsigned n, const struct result_filter *filter,
			     unsigned min);
/* That came about first; NULL: none. */
struct op *submitters_oldest_result(struct penstock_io *io, unsigned n,
				    const struct result_filter *filter);
bool submitters_quiet(struct penstock_io *io); /* no operation is under way */
/* Results for penstock_wait_any(); without a lock, so who changes it has to wake waiters after
 * that.
 */
uint64_t submitters_nr_results(struct penstock_io *io);
void submitters_free(struct penstock_io *io);
void submitters_assign_queues(struct penstock_io *io); /* among the queues that are active now */

/* Operations on the way back; those of one submitter and one file together. */
struct done_batch {
	struct op *newest, *oldest;
	struct submitter *submitter;
	struct penstock_file *file;
	unsigned refs;
	struct prefetch_hints hints;
};
void done_batch_add(struct done_batch *r, struct op *op);
void done_batch_add_file(struct done_batch *r, struct op *op); /* only its file goes */
void done_batch_send(struct done_batch *r);

/* ---- wait.c */
void waiters_wake(struct penstock_io *io); /* operations are over */
void submitter_wake_waiters(struct submitter *submitter);

#endif
