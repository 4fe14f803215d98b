/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of operations with blocks to hand out to any queue: large ones, and what one
 * queue has too much of.  All of it under io->lock.  A queue with no capacity for device memory
 * passes over it.
 *
 * It is served from its head.  But of a huge operation only a few blocks are handed out in a
 * row where small ones stand behind it, which are let by one at a time: as long as they have to do
 * with other bytes, for of two writes to the same the later one is to win.
 *
 * A slow member of a striped file is not to be waited for by those who have nothing to do with it.
 * Where one has its share of what a queue has in flight, others behind, for members that have not,
 * go by.  That is a preference.  But nobody gets the last quarter of a queue's slots, bytes or
 * bounce buffers, which are there for whoever comes for another member.  Such a queue has blocks of
 * that member under way and looks again when one is back, so nobody has to be woken up.
 */
#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"

enum {
	HUGE_BLOCKS = 8, /* what has more to hand out lets others by, */
	IN_A_ROW = 4,    /* after so many of its own, */
	LET_BY = 2,      /* if they have no more than this */
	SCAN_MAX = 32,
	SCAN_ALL_MAX =
		4096,    /* where there is nothing else to do; not again if nothing has changed */
	DEPTH_KEPT = 16, /* of fewer slots none is kept for others */
};

static unsigned op_kind(const struct op *op)
{
	return (op->locations ? KIND_DEVICE : 0) | (op->remote ? KIND_REMOTE : 0);
}

/* One more or one less. */
static void pending_count(struct penstock_io *io, const struct op *op, int n)
{
	unsigned kind = op_kind(op);

	io->pending_kinds[kind] += (uint64_t)n;
	atomic_fetch_add(kind & KIND_REMOTE ? &io->pending_remote : &io->pending_ops, (uint64_t)n);
}

void pending_add(struct penstock_io *io, struct op *op)
{
	atomic_store_explicit(&op->state, OP_PENDING, memory_order_relaxed);
	op_begin(op);
	op->queue = NULL;
	op->est = op->len ? op_blocks_left(op) : 1;
	atomic_fetch_add(&io->pending_blocks, op->est);
	pending_count(io, op, 1);
	io->pending_changes++;
	op_list_add(&io->pending, op);
}

void pending_del(struct penstock_io *io, struct op *op)
{
	op_list_del(op);
	atomic_fetch_sub(&io->pending_blocks, op->est);
	pending_count(io, op, -1);
	io->pending_changes++;
	op->est = 0;
	atomic_store_explicit(&op->state, OP_ISSUED, memory_order_relaxed);
}

/* Has @op to stay behind @before, of which something is to be handed out yet? */
static bool is_in_the_way(const struct op *before, const struct op *op)
{
	const struct penstock_backing *a, *b;

	if (op->opcode == PENSTOCK_READ && before->opcode == PENSTOCK_READ)
		return false;
	if (!op->file || !before->file || op->opcode == PENSTOCK_SYNC)
		return true;
	a = &before->file->backing;
	b = &op->file->backing;
	if (a->dev != b->dev || a->ino != b->ino)
		return false;
	return ((before->flags | op->flags) & PENSTOCK_OP_TRUNCATE) ||
	       (op->offset < before->offset + before->len &&
		before->offset + before->cursor < op->offset + op->len);
}

static bool may_pass(const struct penstock_io *io, const struct op *op)
{
	const struct op *before = io->pending.next;

	while (before != op && !is_in_the_way(before, op))
		before = before->next;
	return before == op;
}

/* What is written to an object is handed out in order. */
static bool is_for(const struct op *op, unsigned can)
{
	unsigned kind = op_kind(op);

	return !(kind & ~can) &&
	       (!(kind & KIND_REMOTE) || op->opcode != PENSTOCK_WRITE || remote_is_next(op));
}

/* A small one behind @huge; NULL: none that may pass. */
static struct op *pending_small(const struct penstock_io *io, const struct op *huge, unsigned can)
{
	struct op *op = huge->next;

	for (unsigned n = 0; n < SCAN_MAX && op != &io->pending; n++, op = op->next)
		if (op->est <= LET_BY && is_for(op, can) && may_pass(io, op))
			return op;
	return NULL;
}

/* What @q has for the member that byte @pos of @op lies in; NULL: none is next. */
static const struct member_load *member_load_next(const struct queue *q, const struct op *op,
						  uint64_t pos)
{
	const struct penstock_file *f = op->file;
	const struct penstock_stripe *t;

	if (!op->striped || pos >= op->len)
		return NULL;
	t = f->backing.stripe;
	return &f->member_loads[q->index * t->nr + (op->offset + pos) / t->unit % t->nr];
}

/* Its part of what may be in flight, if all want theirs. */
static bool has_share(const struct queue *q, const struct op *op, const struct member_load *h)
{
	unsigned nr = op->file->nr_members, depth = q->io->opts.depth;

	return h->blocks >= max_u64(depth / nr, 1) || h->bytes >= MEMBER_BYTES ||
	       h->bounced >= max_u64(BOUNCE_SLOTS / nr, 1);
}

/* And all that it may have. */
static bool is_full(const struct queue *q, const struct member_load *h)
{
	uint64_t depth = q->io->opts.depth, bytes = io_flight_bytes(q->io);

	return h->bounced >= BOUNCE_SLOTS - BOUNCE_SLOTS / 4 ||
	       (depth >= DEPTH_KEPT && h->blocks >= depth - depth / 4) ||
	       (q->io->auto_depth && h->bytes >= bytes - bytes / 4);
}

void pending_block_done(struct queue *q, const struct block *b)
{
	if (has_share(q, b->op, b->load))
		q->pending_none = 0;
}

/* Behind others that wait it has to get into line: for its member, and as a write for its bytes. */
bool pending_must_yield(const struct queue *q, const struct op *op)
{
	const struct member_load *h = member_load_next(q, op, 0);

	return is_full(q, h) ||
	       (pending_seen(q->io) && (op->opcode == PENSTOCK_WRITE || has_share(q, op, h)));
}

/* One behind @slow whose member has less than its share; NULL: none that may pass. */
static struct op *pending_other(const struct queue *q, const struct op *slow, unsigned can,
				unsigned limit)
{
	const struct member_load *h;
	struct op *op = slow->next;

	for (unsigned n = 0; n < limit && op != &q->io->pending; n++, op = op->next) {
		h = member_load_next(q, op, op->cursor);
		if (is_for(op, can) && !(h && has_share(q, op, h)) && may_pass(q->io, op))
			return op;
	}
	return NULL;
}

struct op *pending_choose(struct queue *q, unsigned can)
{
	struct penstock_io *io = q->io;
	struct op *op = io->pending.next, *other;
	const struct member_load *h;
	bool full;

	while (op != &io->pending && !is_for(op, can))
		op = op->next;
	if (op == &io->pending)
		return NULL;
	h = member_load_next(q, op, op->cursor);
	if (h && has_share(q, op, h)) {
		full = is_full(q, h);
		if (full && q->pending_none == io->pending_changes && q->pending_none_can == can)
			return NULL;
		other = pending_other(q, op, can, full ? SCAN_ALL_MAX : SCAN_MAX);
		if (!other && full) {
			q->pending_none = io->pending_changes;
			q->pending_none_can = can;
		}
		if (other || full)
			return other;
	}
	if (op->est <= HUGE_BLOCKS || ++io->blocks_in_row < IN_A_ROW)
		return op;
	io->blocks_in_row = 0;
	other = pending_small(io, op, can);
	return other ? other : op;
}
