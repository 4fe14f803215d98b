/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a queue takes on: blocks of the operations on its stack and of those that all queues share.
 * Of what is shared it takes a few blocks at a time, so that a large operation spreads over all
 * queues; what it has too much of itself it shares.
 */
#include <string.h>

#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "core/queue_lists.h"
#include "core/submitter.h"

static struct block *block_get(struct queue *q)
{
	struct block *b = q->free;

	q->free = (struct block *)b->req.next;
	q->nr_free--;
	return b;
}

static void plan_sync(struct op *op, struct block *b)
{
	memset(b, 0, sizeof(*b));
	b->op = op;
	b->member = op_next_to_sync(op);
	b->mode = BLOCK_SYNC;
	b->req.code = op->opcode == PENSTOCK_WRITE && !(op->flags & PENSTOCK_OP_FULLSYNC)
			      ? PENSTOCK_REQ_FDATASYNC
			      : PENSTOCK_REQ_FSYNC;
}

void block_of_sync(struct queue *q, struct op *op)
{
	struct block *b = op->remote ? remote_get(q) : block_get(q);

	plan_sync(op, b);
	b->remote = op->remote;
	op->inflight++;
	ready_add(q, b);
}

/* The next block of an operation; there is a free one. */
static inline struct block *block_of(struct queue *q, struct op *op)
{
	struct block *b = op->remote ? remote_get(q) : block_get(q);

	plan_block(op, b);
	if (op->striped) {
		b->load = &op->file->member_loads[q->index * op->file->nr_members +
						  (unsigned)(b->member - op->file->members)];
		member_load_count(b, 1);
	}
	if (op->remote) {
		b->remote = true;
		if (op->opcode == PENSTOCK_WRITE)
			op->file->issued += b->len;
	}
	op->inflight++;
	ready_add(q, b);
	return b;
}

static void local_add(struct queue *q, struct op *op)
{
	op->next = NULL;
	*q->local_tail = op;
	q->local_tail = &op->next;
	q->nr_local++;
}

static void local_pop(struct queue *q)
{
	q->local = q->local->next;
	if (!q->local)
		q->local_tail = &q->local;
	q->nr_local--;
}

static struct op *local_take(struct queue *q)
{
	struct op *list = q->local;

	q->local = NULL;
	q->local_tail = &q->local;
	q->nr_local = 0;
	return list;
}

static void local_fill(struct queue *q)
{
	struct op *op = (struct op *)mpsc_stack_take(&q->inbox.stack, true), *next;

	for (; op; op = next) {
		next = op->next;
		op_prefetch(op, 0);
		local_add(q, op);
	}
}

/* From now on it cannot be cancelled.  False: it has been. */
static bool op_claim(struct op *op)
{
	unsigned state = atomic_load_explicit(&op->state, memory_order_relaxed);

	if (state == OP_ISSUED)
		return true;
	op_begin(op);
	return state == OP_PENDING && atomic_compare_exchange_strong(&op->state, &state, OP_ISSUED);
}

/*
 * Device memory may have to wait for a stream of the user's, and a member of a striped file may be
 * slow; what is behind it on the list must not wait for that: where there is no capacity for it, it
 * is left to whoever has some.
 */
static bool local_pass(struct queue *q, struct op *op)
{
	struct penstock_io *io = q->io;
	bool passed;

	if (!op->locations && !op->striped)
		return false;
	if (atomic_load(&op->state) != OP_PENDING || ((!op->locations || device_has_capacity(q)) &&
						      (!op->striped || !pending_must_yield(q, op))))
		return false;
	pthread_mutex_lock(&io->lock);
	passed = atomic_load(&op->state) == OP_PENDING; /* not begun, not cancelled */
	if (passed) {
		local_pop(q);
		pending_add(io, op);
		queues_wake(io);
	}
	pthread_mutex_unlock(&io->lock);
	return passed;
}

/*
 * Operations that are for this queue alone; cancelled ones end up on *ended.  Of those that this
 * thread has to wait for one at a time: what is behind it is for whoever has time first.
 */
static unsigned pull_local(struct queue *q, unsigned capacity, struct op **ended)
{
	uint64_t bytes = q->inflight_bytes;
	unsigned n = 0;
	struct block *b;
	struct op *op;

	while (n < capacity && (op = q->local) &&
	       !(q->io->auto_depth && n && bytes >= io_flight_bytes(q->io))) {
		if (local_pass(q, op))
			continue;
		if (!op_claim(op)) {
			local_pop(q);
			op_cancel(op);
			ended_add(ended, op);
			continue;
		}
		if (op->cursor == op->len) { /* its first blocks failed, or met the end of file */
			local_pop(q);
			if (!op->inflight)
				ended_add(ended, op);
			continue;
		}
		b = block_of(q, op);
		if (op->cursor == op->len)
			local_pop(q);
		bytes += b->len;
		n++;
		if (op_may_block(op))
			break;
	}
	return n;
}

void queue_end_cancelled(struct queue *q)
{
	struct op *op, *next, *ended = NULL;

	atomic_store(&q->has_cancelled, false);
	local_fill(q);
	for (op = local_take(q); op; op = next) {
		next = op->next;
		if (atomic_load(&op->state) != OP_CANCELLED) {
			local_add(q, op);
			continue;
		}
		op_begin(op);
		op_cancel(op);
		ended_add(&ended, op);
	}
	ops_finish(q->io, q, ended);
}

bool queue_add_local(struct queue *q, struct op *op)
{
	if (q->inflight + q->nr_local >= q->io->opts.depth && q->io->nr_active > 1 &&
	    atomic_load(&q->io->nr_idle))
		return false;
	op_begin(op);
	op->spare = true;
	op->queue = q;
	atomic_store_explicit(&op->state, OP_ISSUED, memory_order_relaxed);
	local_add(q, op);
	return true;
}

struct op *queue_get_free_op(struct queue *q)
{
	struct op *op = q->spare;
	struct thread_cache *cache;

	if (!op) {
		cache = thread_cache_get(q->io);
		return cache ? submitter_take_ops(cache->submitter, 1) : NULL;
	}
	q->spare = op->next;
	return op;
}

/* Under io->lock.  Operations without any block end up on *ended. */
static void pull_shared(struct queue *q, unsigned capacity, struct op **ended)
{
	struct penstock_io *io = q->io;
	unsigned active = atomic_load(&io->nr_active);
	uint64_t share = active > 1 ? (io->pending_blocks + active - 1) / active : PULL_MAX;
	unsigned limit = (unsigned)min_u64(min_u64(capacity, PULL_MAX), max_u64(share, 1));
	uint64_t bytes = q->inflight_bytes, issued = 0;
	unsigned can = queue_can(q);
	struct block *b;
	struct op *op;

	for (unsigned n = 0; n < limit; n++) {
		if (io->auto_depth && n && bytes >= io_flight_bytes(q->io))
			break;
		op = pending_next(q, can);
		if (!op)
			break;
		if (op->cursor < op->len) {
			b = block_of(q, op);
			bytes += block_weight(b, b->len);
			issued += op->est - op_blocks_left(op);
			op->est = op_blocks_left(op);
		} else if (op->opcode == PENSTOCK_SYNC || (!op->len && op_needs_sync(op))) {
			block_of_sync(q, op);
		}
		if (op->remote)
			can = queue_can(q);
		if (op_may_block(op))
			limit = 0; /* as pull_local() */
		if (op->cursor < op->len || (op->opcode == PENSTOCK_SYNC && !op_synced(op)))
			continue;
		pending_del(io, op);
		if (!op->inflight)
			ended_add(ended, op);
	}
	atomic_fetch_sub(&io->pending_blocks, issued);
}

unsigned queue_capacity(const struct queue *q)
{
	if (q->ready)
		return 0; /* these first */
	if ((q->io->opts.flags & PENSTOCK_NO_OVERLAP) &&
	    (q->inflight || q->nr_starved || q->nr_remote))
		return 0;
	if (q->io->auto_depth && q->inflight_bytes >= io_flight_bytes(q->io))
		return 0;
	return (unsigned)min_u64(q->io->opts.depth - q->inflight, q->nr_free);
}

/* Half of the capacity each, where there is work of both kinds; of an odd one in turns. */
static unsigned capacity_for_local(struct queue *q, unsigned capacity)
{
	if (!pending_for(q))
		return capacity;
	q->shared_first = !q->shared_first;
	return (capacity + !q->shared_first) / 2;
}

void queue_pull(struct queue *q)
{
	struct penstock_io *io = q->io;
	unsigned capacity = queue_capacity(q);
	struct op *ended = NULL;

	if (!capacity)
		return;
	if (!q->local)
		local_fill(q);
	if (q->local)
		capacity -= pull_local(q, capacity_for_local(q, capacity), &ended);
	if (q->local && io->nr_active > 1 && atomic_load(&io->nr_idle))
		queue_share(q);
	if (capacity && pending_for(q)) {
		pthread_mutex_lock(&io->lock);
		pull_shared(q, capacity, &ended);
		pthread_mutex_unlock(&io->lock);
	}
	ops_finish(io, q, ended);
}

void queue_share(struct queue *q)
{
	struct penstock_io *io = q->io;
	struct op *op, *next;

	local_fill(q);
	if (!q->local)
		return;
	pthread_mutex_lock(&io->lock);
	for (op = local_take(q); op; op = next) {
		next = op->next;
		/* One that is cancelled or begun stays; a callback's own cannot be cancelled. */
		if (atomic_load(&op->state) == OP_PENDING || (op->spare && !op->cursor))
			pending_add(io, op);
		else
			local_add(q, op);
	}
	queues_wake(io);
	pthread_mutex_unlock(&io->lock);
}
