/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_PORT_H
#define PENSTOCK_CORE_PORT_H

/* Where threads of the user's meet a handle. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/op.h"
#include "core/sleep_state.h"

/* A thread in a wait function: for an operation of a port, or for the handle as a whole. */
struct waiter {
	struct waiter *next;
	pthread_cond_t cond;
	const struct op *op; /* this one; NULL: see need */
	unsigned need;       /* so many results, whichever they are; 0: until all is quiet */
	bool told;           /* that it may have come about, */
	bool too_late;       /* as it has been, and somebody else took it */
	bool stuck;          /* it has slept for a while */
};

/*
 * Where threads of the user's meet the handle, each at its own as long as there are enough:
 * the operations they submit come from here, and come back here when they are finished.
 */
struct port {
	_Alignas(LINE) struct mpsc_stack back; /* finished operations, from I/O threads */
	atomic_uint sleepers;                  /* on the list of waiters */

	_Alignas(LINE) pthread_mutex_t lock;
	unsigned index;
	struct op *free;
	struct op done;               /* head of the list of finished ones nobody has collected */
	unsigned offered;             /* of these, nobody waits for by ticket */
	uint64_t drained;             /* operations that came back, ever */
	atomic_uint_fast64_t claimed; /* results that are not for penstock_wait_any(), ever */
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

/* What a thread remembers of a handle, see port.c. */
struct here {
	const struct penstock_io *io;
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
	const struct penstock_cuda *cuda; /* as penstock_cuda_present() says */
	struct here *here;
	struct file_refs refs;
};

/* ---- port.c */
struct here *here_of(struct penstock_io *io); /* NULL: no memory */
uint64_t op_ticket(const struct op *op);
struct port *port_of_ticket(struct penstock_io *io, uint64_t ticket); /* NULL: nobody's */
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
unsigned ports_lock(struct penstock_io *io, bool *quiet);
void ports_unlock(struct penstock_io *io, unsigned n);
/* Results nobody waits for by ticket: all of @own, of the others those that came about by @until.
 */
struct offer {
	const struct port *own;
	uint64_t until; /* UINT64_MAX: whenever */
};
bool ports_offer(struct penstock_io *io, unsigned n, const struct offer *of, unsigned min);
/* That came about first; NULL: none. */
struct op *ports_oldest(struct penstock_io *io, unsigned n, const struct offer *of);
bool ports_quiet(struct penstock_io *io); /* no operation is under way */
/* Results for penstock_wait_any(); without a lock, so who changes it has to tell waiters after
 * that.
 */
uint64_t ports_available(struct penstock_io *io);
void ports_free(struct penstock_io *io);
void ports_rehome(struct penstock_io *io); /* among the queues that are active now */

/* Operations on the way back; those of one port and one file together. */
struct returns {
	struct op *newest, *oldest;
	struct port *port;
	struct penstock_file *file;
	unsigned refs;
	struct prefetch_hints hints;
};
void returns_add(struct returns *r, struct op *op);
void returns_file(struct returns *r, struct op *op); /* only its file goes */
void returns_send(struct returns *r);

/* ---- wait.c */
void waiters_tell(struct penstock_io *io); /* operations are over */
void waiters_tell_port(struct port *port);

#endif
