/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a queue does with blocks: it takes them from the operations that are
 * pending, keeps up to `depth` of them in its engine, and looks at what comes
 * back.  All queues take from the same list, a few blocks at a time, so that a
 * large operation spreads over all of them and many small ones share one.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/core.h"

/* -------------------------------------------------------- taking on blocks */

static void ready_add(struct queue *q, struct block *b)
{
	b->req.next = NULL;
	*q->ready_tail = b;
	q->ready_tail = (struct block **)&b->req.next;
}

/* Blocks that have been submitted before go first: they may hold what the others wait for. */
static void ready_return(struct queue *q, struct block *b)
{
	b->req.next = (struct sluice_req *)q->ready;
	if (!q->ready)
		q->ready_tail = (struct block **)&b->req.next;
	q->ready = b;
}

static struct block *ready_take(struct queue *q)
{
	struct block *b = q->ready;

	q->ready = (struct block *)b->req.next;
	if (!q->ready)
		q->ready_tail = &q->ready;
	return b;
}

/* What a block adds to the bytes in flight; an engine for device memory paces itself. */
static uint64_t weight(const struct block *b, uint64_t len)
{
	return b->mode == BLOCK_CUFILE ? 0 : len;
}

static struct block *block_get(struct queue *q)
{
	struct block *b = q->free;

	q->free = (struct block *)b->req.next;
	q->nr_free--;
	return b;
}

static void block_put(struct queue *q, struct block *b)
{
	/* What a broken engine has may be written yet: that memory is not used again. */
	if (b->bounce && b->lost)
		b->bounce = NULL;
	if (b->bounce && b->mode == BLOCK_DEVICE)
		ring_put(q, b->bounce);
	else if (b->bounce)
		q->bounce_free[q->nr_bounce_free++] = b->bounce;
	b->bounce = NULL;
	q->nr_free++;
	b->req.next = (struct sluice_req *)q->free;
	q->free = b;
}

/* Bounce memory is mapped when the first block needs it. */
static int bounce_get(struct queue *q, struct block *b)
{
	int r;

	if (!q->bounce_ready) {
		r = sluice_area_map(&q->bounce_area, (uint64_t)BOUNCE_SLOTS * BOUNCE_BYTES,
				    q->io->opts.huge, false);
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

static void plan_sync(struct op *op, struct block *b)
{
	memset(b, 0, sizeof(*b));
	b->op = op;
	b->mode = BLOCK_SYNC;
	b->req.code = op->opcode == SLUICE_WRITE && !(op->flags & SLUICE_OP_FULLSYNC)
			      ? SLUICE_REQ_FDATASYNC
			      : SLUICE_REQ_FSYNC;
	op->sync_done = true;
}

static void conclude_all(struct queue *q, struct op *list);

/* Operations that belong to this queue alone; each is one block. */
static unsigned pull_local(struct queue *q, unsigned room)
{
	struct block *b;
	struct op *op;
	unsigned n;

	for (n = 0; n < room && q->local; n++) {
		op = q->local;
		q->local = op->next;
		b = block_get(q);
		plan_block(op, b);
		op->inflight++;
		ready_add(q, b);
	}
	if (!q->local)
		q->local_tail = &q->local;
	q->nr_local -= n;
	return n;
}

bool queue_add_local(struct queue *q, struct op *op)
{
	if (q->inflight + q->nr_local >= q->io->opts.depth && q->io->nr_idle)
		return false;
	op->local = true;
	op->next = NULL;
	*q->local_tail = op;
	q->local_tail = &op->next;
	q->nr_local++;
	return true;
}

struct op *queue_spare(struct queue *q)
{
	struct op *op = q->spare;

	if (op) {
		q->spare = op->next;
		return op;
	}
	pthread_mutex_lock(&q->io->lock);
	op = op_alloc(q->io);
	pthread_mutex_unlock(&q->io->lock);
	return op;
}

/* Under io->lock.  Operations without any block end up on *over. */
static void pull_shared(struct queue *q, unsigned room, struct op **over)
{
	struct sluice_io *io = q->io;
	uint64_t share = (io->pend_blocks + io->nr_queues - 1) / io->nr_queues;
	unsigned limit = (unsigned)min_u64(min_u64(room, PULL_MAX), max_u64(share, 1));
	uint64_t bytes = q->inflight_bytes;
	bool device = device_room(q);
	struct block *b;
	struct op *op;

	for (unsigned n = 0; n < limit && pend_any(io, device); n++) {
		if (io->auto_depth && n && bytes >= BYTES_AUTO)
			break;
		op = device ? io->pending.next : pend_first_host(io);
		if (op->opcode == SLUICE_SYNC || op->cursor < op->len) {
			b = block_get(q);
			if (op->opcode == SLUICE_SYNC)
				plan_sync(op, b);
			else
				plan_block(op, b);
			bytes += weight(b, b->len);
			op->inflight++;
			ready_add(q, b);
			if (op->est) {
				op->est--;
				io->pend_blocks--;
			}
		}
		if (op->cursor < op->len)
			continue;
		pend_del(io, op);
		if (!op->inflight) {
			op->next = *over;
			*over = op;
		}
	}
}

unsigned queue_room(const struct queue *q)
{
	if (q->ready)
		return 0; /* these first */
	if ((q->io->opts.flags & SLUICE_NO_OVERLAP) && (q->inflight || q->nr_starved))
		return 0;
	if (q->io->auto_depth && q->inflight_bytes >= BYTES_AUTO)
		return 0;
	return (unsigned)min_u64(q->io->opts.depth - q->inflight, q->nr_free);
}

void queue_pull(struct queue *q)
{
	struct sluice_io *io = q->io;
	unsigned room = queue_room(q);
	struct op *over = NULL;

	if (room && q->local)
		room -= pull_local(q, room);
	if (!room)
		return;
	pthread_mutex_lock(&io->lock);
	pull_shared(q, room, &over);
	pthread_mutex_unlock(&io->lock);
	conclude_all(q, over);
}

/* --------------------------------------------------------- what came back */

/* Results of a batch, gathered first so that the lock is taken once. */
struct harvest {
	struct block *shared;
	struct op *local;
	struct op *over;
};

static void harvest_block(struct queue *q, struct block *b, struct harvest *h)
{
	struct op *op = b->op;

	if (!op->local) {
		b->req.next = (struct sluice_req *)h->shared;
		h->shared = b;
		return;
	}
	block_account(op, b);
	op->next = h->local;
	h->local = op;
	block_put(q, b);
}

/* Under io->lock. */
static void harvest_shared(struct queue *q, struct harvest *h)
{
	struct sluice_io *io = q->io;
	struct block *b, *next;
	struct op *op;

	for (b = h->shared; b; b = next) {
		next = (struct block *)b->req.next;
		op = b->op;
		block_account(op, b);
		if (op->state == OP_PENDING && op->cursor == op->len)
			pend_del(io, op);
		block_put(q, b);
		if (!op_is_over(op))
			continue;
		if (op_needs_sync(op)) {
			b = block_get(q);
			plan_sync(op, b);
			op->inflight++;
			ready_add(q, b);
			continue;
		}
		op->next = h->over;
		h->over = op;
	}
}

static void run_callback(struct queue *q, struct op *op)
{
	struct sluice_io *io = q->io;
	struct sluice_done done;

	op_result(op, &done);
	free(op->msg);
	op->msg = NULL;
	queue_step_aside(q); /* it may take its time */
	op->on_done(op->arg, &done);
	queue_step_back(q);
	q->ctx = NULL; /* it may have made another one current */
	if (op->file)
		file_put(op->file);
	op_finished(io);
}

/* Finish operations without the lock, then hand all of them over under one. */
static void conclude_all(struct queue *q, struct op *list)
{
	struct sluice_io *io = q->io;
	struct op *op, *next, *kept = NULL, *called = NULL;
	uint64_t published = 0;

	if (!list)
		return;
	for (op = list; op; op = next) {
		next = op->next;
		op_conclude(io, op);
		if (op->on_done) {
			run_callback(q, op);
			op->next = called;
			called = op;
		} else {
			op->next = kept;
			kept = op;
			published++;
		}
	}
	pthread_mutex_lock(&io->lock);
	for (op = kept; op; op = next) {
		next = op->next;
		op_publish(io, op);
	}
	if (published)
		waiters_notify(io);
	for (op = called; op; op = next) {
		next = op->next;
		op_free(io, op);
	}
	pthread_mutex_unlock(&io->lock);
	while (published--)
		op_finished(io);
}

static void conclude_local(struct queue *q, struct op *list)
{
	struct op *op;

	while ((op = list)) {
		list = op->next;
		op_conclude(q->io, op);
		run_callback(q, op);
		op->next = q->spare;
		q->spare = op;
	}
}

/* Account for what is over, then tell. */
static void deliver(struct queue *q, struct harvest *h)
{
	if (h->shared) {
		pthread_mutex_lock(&q->io->lock);
		harvest_shared(q, h);
		pthread_mutex_unlock(&q->io->lock);
	}
	conclude_all(q, h->over);
	conclude_local(q, h->local);
}

void queue_harvest(struct queue *q, struct sluice_req *list)
{
	struct harvest h = {0};
	struct block *b;
	bool copied;

	while (list) {
		b = (struct block *)list;
		list = list->next;
		b->inflight = false;
		q->inflight--;
		q->inflight_bytes -= weight(b, b->req.len);
		copied = b->mode == BLOCK_BOUNCE && b->op->opcode == SLUICE_READ;
		if (!block_finish(q->io, b, &q->count))
			ready_return(q, b);
		else if (b->mode != BLOCK_DEVICE || !device_unload(q, b))
			harvest_block(q, b, &h);
		/* A copy takes about as long as a transfer: keep the device busy meanwhile. */
		if (copied && list) {
			deliver(q, &h);
			h = (struct harvest){0};
			queue_pull(q);
			queue_submit(q);
		}
	}
	deliver(q, &h);
	if (q->open_lanes)
		device_flush(q);
}

/* Blocks that are back from a device, or have got room in the ring at last. */
void queue_copied(struct queue *q)
{
	struct harvest h = {0};
	struct block *b, *next;

	for (b = device_done(q); b; b = next) {
		next = (struct block *)b->req.next;
		if (!b->code && (b->op->opcode == SLUICE_WRITE || b->mode == BLOCK_CUFILE))
			ready_add(q, b);
		else
			harvest_block(q, b, &h);
	}
	deliver(q, &h);
	for (b = device_fed(q); b; b = next) {
		next = (struct block *)b->req.next;
		ready_add(q, b);
	}
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

/* Prepare blocks from the ready list; stops where bounce buffers run out. */
static unsigned gather(struct queue *q, struct sluice_req **reqs, unsigned max)
{
	unsigned n = 0;
	struct block *b;
	int r;

	while (n < max && q->ready) {
		b = q->ready;
		r = q->broken;
		if (!r && !b->started && !b->ranged && !block_may_start(b))
			r = -EBUSY;
		if (!r && !b->started && b->mode == BLOCK_BOUNCE)
			r = bounce_get(q, b);
		if (r == -EBUSY)
			break;
		ready_take(q);
		if (!r &&
		    (b->mode == BLOCK_DEVICE || b->mode == BLOCK_CUFILE || b->mode == BLOCK_COPY))
			r = device_stage(q, b);
		if (r > 0)
			continue;
		if (!r && !b->started)
			r = block_start(q->io, q, b);
		if (r < 0) {
			fail_block(q, b, r);
			continue;
		}
		reqs[n++] = &b->req;
		if (b->mode == BLOCK_BOUNCE)
			break; /* it may have been copied: let it go before the next copy */
	}
	return n;
}

void queue_submit(struct queue *q)
{
	struct sluice_req *reqs[PULL_MAX];
	unsigned most = q->io->opts.flags & SLUICE_SINGLE_SUBMIT ? 1 : PULL_MAX, n;
	struct block *b;
	int r;

	while (q->ready) {
		n = gather(q, reqs, (unsigned)min_u64(most, q->io->opts.depth - q->inflight));
		if (q->open_lanes)
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
		COUNT(q->count.submit_calls, 1);
		queue_step_aside(q);
		r = q->io->engine->submit(q->engine, reqs, n);
		queue_step_back(q);
		for (int i = 0; i < r; i++) {
			((struct block *)reqs[i])->inflight = true;
			q->inflight_bytes += weight((struct block *)reqs[i], reqs[i]->len);
		}
		q->inflight += r > 0 ? (unsigned)r : 0;
		if (r == (int)n)
			continue;
		for (unsigned i = n; i > (r > 0 ? (unsigned)r : 0); i--)
			ready_return(q, (struct block *)reqs[i - 1]);
		if (q->inflight && r >= 0)
			return; /* the engine is full: there will be room when something is back */
		if (r < 0 || b->tries++ > RETRIES_MAX) {
			ready_take(q);
			fail_block(q, b, r < 0 ? r : -EAGAIN);
		} else if (!r) {
			block_pause(b);
		}
	}
}
