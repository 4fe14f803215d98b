/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a queue does with the blocks it has taken on (queue_pull.c): it keeps up to `depth` of
 * them in its engine, and looks at what comes back.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "core/queue_lists.h"
#include "core/submitter.h"

/* --------------------------------------------------------- what came back */

static void block_put(struct queue *q, struct block *b)
{
	/* What a broken engine has may be written yet: that memory is not used again. */
	if (b->bounce && !b->lost && b->mode == BLOCK_DEVICE)
		pinned_pool_put(q, b->bounce);
	else if (b->bounce && !b->lost)
		q->bounce_free[q->nr_bounce_free++] = b->bounce;
	if (b->load) {
		pending_block_done(q, b);
		member_load_count(b, -1);
	}
	if (b->remote) {
		remote_put(q, b);
		return;
	}
	q->nr_free++;
	b->req.next = (struct penstock_req *)q->free;
	q->free = b;
}

/* Results of a batch, gathered first so that the lock, if any, is taken once. */
struct harvest {
	struct block *shared, *last;
	struct op *ended;
};

/* Most blocks were moved as they should have been. */
static inline void account(struct op *op, struct block *b)
{
	if (b->moved < b->len || b->code || b->ranged) {
		block_account(op, b);
		return;
	}
	op->inflight--;
	op->done_flags |= b->flags;
}

/* A block is back for good.  The operation it was the last of is over, or needs a sync yet. */
static inline void harvest_op(struct queue *q, struct block *b, struct harvest *h)
{
	struct op *op = b->op;

	block_put(q, b);
	if (!op_is_over(op) || op == q->local) /* that one is seen to by pull_local() */
		return;
	if (op->opcode != PENSTOCK_WRITE || !op_needs_sync(op)) {
		ended_add(&h->ended, op);
		return;
	}
	do {
		block_of_sync(q, op);
	} while (!op_synced(op) && q->nr_free);
}

static inline void harvest_block(struct queue *q, struct block *b, struct harvest *h)
{
	if (b->op->queue) {
		account(b->op, b);
		harvest_op(q, b, h);
		return;
	}
	b->req.next = NULL;
	if (h->shared)
		h->last->req.next = &b->req;
	else
		h->shared = b;
	h->last = b;
}

/* Under io->lock. */
static void harvest_shared(struct queue *q, struct harvest *h)
{
	struct block *b, *next;

	for (b = h->shared; b; b = next) {
		next = (struct block *)b->req.next;
		account(b->op, b);
		if (atomic_load(&b->op->state) == OP_PENDING && b->op->cursor == b->op->len)
			pending_del(q->io, b->op);
		harvest_op(q, b, h);
	}
}

static void run_callback(struct queue *q, struct op *op)
{
	struct penstock_done done;

	op_result(op, &done);
	if (op->msg)
		free(TAKE_PTR(op->msg));
	op->on_done(op->arg, &done);
	q->ctx = NULL; /* it may have made another one current */
}

static void op_finish(struct penstock_io *io, struct queue *q, struct op *op,
		      struct done_batch *back)
{
	op_conclude(io, op, q ? &q->count : &op->submitter->count);
	if (op->on_done)
		run_callback(q, op);
	if (!op->spare) {
		done_batch_add(back, op);
		return;
	}
	done_batch_add_file(back, op);
	op->next = q->spare;
	q->spare = op;
}

/* They may take their time, or wait for what has not been begun here: that is for others. */
static void step_aside_for_callbacks(struct queue *q)
{
	queue_step_aside(q);
	if (q->local && q->io->nr_active > 1)
		queue_share(q);
}

void ops_finish(struct penstock_io *io, struct queue *q, struct op *list)
{
	uint64_t now = list && atomic_load(&io->nr_submitters) > 1 ? clock_ns() : 0;
	struct done_batch back = {0};
	unsigned n = 0, results = 0;
	struct op *op, *next;
	bool aside = false;

	if (!list)
		return;
	for (op = list; op; op = next) {
		next = op->next;
		op->finished = now;
		results += !op->on_done;
		if (op->on_done && !aside) {
			aside = true;
			step_aside_for_callbacks(q);
		}
		op_finish(io, q, op, &back);
		n++;
	}
	if (aside)
		queue_step_back(q);
	done_batch_send(&back);
	if (results)
		atomic_fetch_add(q ? &q->results : &list->submitter->results, results);
	atomic_fetch_add(q ? &q->finished : &list->submitter->finished, n);
	waiters_wake(io);
}

/* Account for what is over, then tell; what came back first goes first. */
static void deliver(struct queue *q, struct harvest *h)
{
	ops_finish(q->io, q, h->ended);
	h->ended = NULL;
	if (!h->shared)
		return;
	pthread_mutex_lock(&q->io->lock);
	harvest_shared(q, h);
	pthread_mutex_unlock(&q->io->lock);
	ops_finish(q->io, q, h->ended);
}

/* All that was asked for, straight: nothing is to be judged. */
static inline bool is_whole(struct block *b)
{
	if (b->mode > BLOCK_LIST || b->req.res < 0 || b->moved + (uint64_t)b->req.res != b->len)
		return false;
	b->moved = b->len;
	b->flags |= b->buffered ? PENSTOCK_DONE_BUFFERED : PENSTOCK_DONE_DIRECT;
	return true;
}

void queue_harvest(struct queue *q, struct penstock_req *list)
{
	struct harvest h = {0};
	uint64_t moved = 0;
	struct block *b;
	bool copied;

	while (list) {
		b = (struct block *)list;
		list = list->next;
		b->inflight = false;
		q->inflight--;
		if (is_whole(b)) {
			q->inflight_bytes -= b->req.len;
			moved += b->req.len;
			harvest_block(q, b, &h);
			continue;
		}
		q->inflight_bytes -= block_weight(b, b->req.len);
		if (b->req.res > 0)
			moved += (uint64_t)b->req.res;
		copied = b->mode == BLOCK_BOUNCE && b->op->opcode == PENSTOCK_READ;
		if (!block_finish(q->io, b, &q->count))
			ready_return(q, b);
		else if (b->mode != BLOCK_DEVICE || !device_copy_out(q, b))
			harvest_block(q, b, &h);
		/* A copy takes about as long as a transfer: keep the device busy meanwhile. */
		if (copied && list) {
			deliver(q, &h);
			h = (struct harvest){0};
			queue_pull(q);
			queue_submit(q);
		}
	}
	count_own(&q->moved, moved);
	deliver(q, &h);
	if (q->open_copy_streams)
		device_flush(q);
}

/* Blocks that are back from a device, or have got a piece of the pinned pool at last. */
void queue_collect_copied(struct queue *q)
{
	struct harvest h = {0};
	struct block *b, *next;

	for (b = device_done(q); b; b = next) {
		next = (struct block *)b->req.next;
		if (!b->code && (b->op->opcode == PENSTOCK_WRITE || b->mode == BLOCK_CUFILE))
			ready_add(q, b);
		else
			harvest_block(q, b, &h);
	}
	deliver(q, &h);
	for (b = device_retry(q); b; b = next) {
		next = (struct block *)b->req.next;
		ready_add(q, b);
	}
}

/* Blocks that are back from a store of objects. */
void queue_collect_remote(struct queue *q)
{
	struct harvest h = {0};
	struct block *b, *next;

	for (b = remote_done(q); b; b = next) {
		next = (struct block *)b->req.next;
		if (b->mode != BLOCK_DEVICE || !device_copy_out(q, b))
			harvest_block(q, b, &h);
	}
	deliver(q, &h);
	if (q->open_copy_streams)
		device_flush(q);
}

/* A block that cannot be submitted is a block that failed. */
static void fail_block(struct queue *q, struct block *b, int code)
{
	struct harvest h = {0};

	b->code = code;
	harvest_block(q, b, &h);
	deliver(q, &h);
}

/* ------------------------------------------------------------- submitting */

/* Bounce memory is mapped when the first block needs it, and there as far as it is used. */
static int bounce_get(struct queue *q, struct block *b)
{
	int r;

	if (!q->bounce_ready) {
		r = penstock_area_map(&q->bounce_area, (uint64_t)BOUNCE_SLOTS * BOUNCE_BYTES,
				      q->io->opts.huge, PENSTOCK_AREA_LAZY);
		if (r < 0)
			return r;
		for (unsigned i = 0; i < BOUNCE_SLOTS; i++)
			q->bounce_free[i] = (char *)q->bounce_area.addr + (size_t)i * BOUNCE_BYTES;
		q->nr_bounce_free = BOUNCE_SLOTS;
		q->bounce_ready = true;
	}
	if (!q->nr_bounce_free)
		return -EBUSY;
	b->bounce = q->bounce_free[--q->nr_bounce_free];
	return 0;
}

/* Whatever has to be there before a block is started; -EBUSY: not yet. */
static inline int make_ready(struct queue *q, struct block *b)
{
	if (!b->remote && q->broken)
		return q->broken;
	if (b->started)
		return 0;
	q->waits_for_overlap = b->op->opcode == PENSTOCK_WRITE && !b->ranged && !block_may_start(b);
	if (q->waits_for_overlap)
		return -EBUSY;
	return b->mode == BLOCK_BOUNCE ? bounce_get(q, b) : 0;
}

/* Prepare blocks from the ready list; stops where bounce buffers run out. */
static unsigned queue_gather(struct queue *q, struct penstock_req **reqs, unsigned max)
{
	unsigned n = 0;
	struct block *b;
	int r;

	while (n < max && (b = q->ready)) {
		r = make_ready(q, b);
		if (r == -EBUSY)
			break;
		ready_take(q);
		if (!r && b->mode >= BLOCK_DEVICE && b->mode <= BLOCK_COPY)
			r = device_prepare(q, b);
		if (r > 0)
			continue;
		if (!r && b->remote) {
			remote_start(q, b);
			continue;
		}
		if (!r && !b->started)
			r = block_start(q->io, q, b);
		if (r < 0) {
			fail_block(q, b, r);
			continue;
		}
		b->inflight = true;
		q->inflight_bytes += block_weight(b, b->req.len);
		reqs[n++] = &b->req;
		if (b->mode == BLOCK_BOUNCE || op_may_block(b->op))
			break; /* it may have been copied: let it go before the next */
	}
	return n;
}

/* The kernel may hold up who submits, but not where the engine only takes a note. */
static bool may_take_long(const struct queue *q, struct penstock_req *const *reqs, unsigned n)
{
	uint32_t quick = q->io->engine->quick;

	for (unsigned i = 0; i < n; i++)
		if (reqs[i]->len >= quick || reqs[i]->blocking)
			return true;
	return false;
}

/* This thread may have to wait for them: that is told from its work, for thread_count.h. */
static int submit_blocking(struct queue *q, struct penstock_req *const *reqs, unsigned n)
{
	uint64_t start = clock_ns(), cpu = thread_cpu_ns(pthread_self());
	int r = q->io->engine->submit(q->engine, reqs, n);

	cpu = thread_cpu_ns(pthread_self()) - cpu;
	count_own(&q->blocked_ns, max_u64(clock_ns() - start, cpu) - cpu);
	return r;
}

static int submit_some(struct queue *q, struct penstock_req *const *reqs, unsigned n)
{
	bool aside = q->io->nr_queues > 1 && may_take_long(q, reqs, n);
	int r;

	COUNT(&q->count, submit_calls, 1);
	if (aside)
		queue_step_aside(q);
	r = op_may_block(((struct block *)reqs[n - 1])->op)
		    ? submit_blocking(q, reqs, n)
		    : q->io->engine->submit(q->engine, reqs, n);
	if (aside)
		queue_step_back(q);
	return r;
}

/* The engine did not take it. */
static void not_taken(struct queue *q, struct block *b)
{
	b->inflight = false;
	q->inflight_bytes -= block_weight(b, b->req.len);
	ready_return(q, b);
}

void queue_submit(struct queue *q)
{
	struct penstock_req *reqs[PULL_MAX];
	unsigned most = q->io->opts.flags & PENSTOCK_SINGLE_SUBMIT ? 1 : PULL_MAX, n;
	struct block *b;
	int r;

	while (q->ready) {
		n = queue_gather(q, reqs, (unsigned)min_u64(most, q->io->opts.depth - q->inflight));
		if (q->open_copy_streams)
			device_flush(q);
		if (!n) {
			/* What it waits for is in flight elsewhere. */
			if (q->ready && !q->inflight && !device_busy(q))
				block_pause(q->ready);
			return;
		}
		b = (struct block *)reqs[0];
		if (block_wants_pause(b))
			block_pause(b);
		r = submit_some(q, reqs, n);
		q->inflight += r > 0 ? (unsigned)r : 0;
		if (r == (int)n)
			continue;
		for (unsigned i = n; i > (r > 0 ? (unsigned)r : 0); i--)
			not_taken(q, (struct block *)reqs[i - 1]);
		if (q->inflight && r >= 0)
			return; /* the engine is full: there will be capacity when something is back
				 */
		if (r < 0 || b->tries++ > RETRIES_MAX) {
			ready_take(q);
			fail_block(q, b, r < 0 ? r : -EAGAIN);
		} else if (!r) {
			block_pause(b);
		}
	}
}
