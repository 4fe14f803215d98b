/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of operations with blocks to hand out to any queue: large ones, and what one
 * queue has too much of.  All of it under io->lock.  A queue with no room for device memory
 * passes over it.
 *
 * It is served from its head.  But of a huge operation only a few blocks are handed out in a
 * row where small ones stand behind it, which are let by one at a time: as long as they have to do
 * with other bytes, for of two writes to the same the later one is to win.
 */
#include "core/core.h"

enum {
	HUGE_BLOCKS = 8, /* what has more to hand out lets others by, */
	IN_A_ROW = 4,    /* after so many of its own, */
	LET_BY = 2,      /* if they have no more than this */
	LOOK_BEHIND = 32,
};

void pend_add(struct sluice_io *io, struct op *op)
{
	atomic_store_explicit(&op->state, OP_PENDING, memory_order_relaxed);
	op->home = NULL;
	op->est = op->len ? (op->len + op->block - 1) / op->block : 1;
	atomic_fetch_add(&io->pend_blocks, op->est);
	atomic_fetch_add(&io->pend_ops, 1);
	io->pend_host += !op->places;
	op_list_add(&io->pending, op);
}

void pend_del(struct sluice_io *io, struct op *op)
{
	op_list_del(op);
	atomic_fetch_sub(&io->pend_blocks, op->est);
	atomic_fetch_sub(&io->pend_ops, 1);
	io->pend_host -= !op->places;
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

/* A small one behind @huge; NULL: none that may pass. */
static struct op *pend_small(const struct sluice_io *io, const struct op *huge, bool device)
{
	struct op *op = huge->next;

	for (unsigned n = 0; n < LOOK_BEHIND && op != &io->pending; n++, op = op->next)
		if (op->est <= LET_BY && (device || !op->places) && may_pass(io, op))
			return op;
	return NULL;
}

struct op *pend_next(struct sluice_io *io, bool device)
{
	struct op *op = io->pending.next, *small;

	while (!device && op->places)
		op = op->next;
	if (op->est <= HUGE_BLOCKS || ++io->pend_row < IN_A_ROW)
		return op;
	io->pend_row = 0;
	small = pend_small(io, op, device);
	return small ? small : op;
}
