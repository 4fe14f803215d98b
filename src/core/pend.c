/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of operations with blocks to hand out to any queue: large ones, and what one
 * queue has too much of.  All of it under io->lock.  A queue with no room for device memory
 * passes over it.
 *
 * It is served from its head.  But of a huge operation only a few blocks are handed out in a
 * row where small ones stand behind it, which are let by one at a time: as long as they have to do
 * with other bytes, for of two writes to the same the later one is to win.  The same where a member
 * of a striped file has its share of what is in flight: others behind, for members that have not,
 * go by, so that a slow member is not waited for by those who have nothing to do with it.
 */
#include "core/core.h"

enum {
	HUGE_BLOCKS = 8, /* what has more to hand out lets others by, */
	IN_A_ROW = 4,    /* after so many of its own, */
	LET_BY = 2,      /* if they have no more than this */
	LOOK_BEHIND = 32,
};

static unsigned op_kind(const struct op *op)
{
	return (op->places ? KIND_DEVICE : 0) | (op->remote ? KIND_REMOTE : 0);
}

/* One more or one less. */
static void pend_count(struct sluice_io *io, const struct op *op, int n)
{
	unsigned kind = op_kind(op);

	io->pend_kinds[kind] += (uint64_t)n;
	atomic_fetch_add(kind & KIND_REMOTE ? &io->pend_remote : &io->pend_ops, (uint64_t)n);
}

void pend_add(struct sluice_io *io, struct op *op)
{
	atomic_store_explicit(&op->state, OP_PENDING, memory_order_relaxed);
	op_begin(op);
	op->home = NULL;
	op->est = op->len ? (op->len + op->block - 1) / op->block : 1;
	atomic_fetch_add(&io->pend_blocks, op->est);
	pend_count(io, op, 1);
	op_list_add(&io->pending, op);
}

void pend_del(struct sluice_io *io, struct op *op)
{
	op_list_del(op);
	atomic_fetch_sub(&io->pend_blocks, op->est);
	pend_count(io, op, -1);
	op->est = 0;
	atomic_store_explicit(&op->state, OP_ISSUED, memory_order_relaxed);
}

/* Has @op to stay behind @before, of which something is to be handed out yet? */
static bool is_in_the_way(const struct op *before, const struct op *op)
{
	const struct sluice_backing *a, *b;

	if (op->opcode == SLUICE_READ && before->opcode == SLUICE_READ)
		return false;
	if (!op->file || !before->file || op->opcode == SLUICE_SYNC)
		return true;
	a = &before->file->store;
	b = &op->file->store;
	if (a->dev != b->dev || a->ino != b->ino)
		return false;
	return ((before->flags | op->flags) & SLUICE_OP_TRUNCATE) ||
	       (op->offset < before->offset + before->len &&
		before->offset + before->cursor < op->offset + op->len);
}

static bool may_pass(const struct sluice_io *io, const struct op *op)
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
	       (!(kind & KIND_REMOTE) || op->opcode != SLUICE_WRITE || remote_is_next(op));
}

/* A small one behind @huge; NULL: none that may pass. */
static struct op *pend_small(const struct sluice_io *io, const struct op *huge, unsigned can)
{
	struct op *op = huge->next;

	for (unsigned n = 0; n < LOOK_BEHIND && op != &io->pending; n++, op = op->next)
		if (op->est <= LET_BY && is_for(op, can) && may_pass(io, op))
			return op;
	return NULL;
}

/* Has the member that is next its share already?  Of other files none has. */
static bool is_held_up(const struct sluice_io *io, const struct op *op)
{
	const struct sluice_stripe *t = op->file ? op->file->store.stripe : NULL;
	const struct part *next;
	uint64_t share;

	if (!t || op->cursor >= op->len)
		return false;
	next = &op->file->parts[(op->offset + op->cursor) / t->unit % t->nr];
	share = max_u64(min_u64(PART_BYTES, io->opts.depth * op->block / t->nr), op->block);
	return atomic_load_explicit(&next->held, memory_order_relaxed) >= share;
}

/* One behind @slow that is not held up; NULL: none that may pass. */
static struct op *pend_other(const struct sluice_io *io, const struct op *slow, unsigned can)
{
	struct op *op = slow->next;

	for (unsigned n = 0; n < LOOK_BEHIND && op != &io->pending; n++, op = op->next)
		if (is_for(op, can) && !is_held_up(io, op) && may_pass(io, op))
			return op;
	return NULL;
}

struct op *pend_choose(struct sluice_io *io, unsigned can)
{
	struct op *op = io->pending.next, *small;

	while (op != &io->pending && !is_for(op, can))
		op = op->next;
	if (op == &io->pending)
		return NULL;
	small = is_held_up(io, op) ? pend_other(io, op, can) : NULL;
	if (small)
		return small;
	if (op->est <= HUGE_BLOCKS || ++io->pend_row < IN_A_ROW)
		return op;
	io->pend_row = 0;
	small = pend_small(io, op, can);
	return small ? small : op;
}
