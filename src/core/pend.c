/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of operations with blocks to hand out to any queue: large ones, and what one
 * queue has too much of.  All of it
 * under io->lock.  A queue with no room for device memory passes over it.
 */
#include "core/core.h"

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

struct op *pend_first_host(const struct sluice_io *io)
{
	struct op *op = io->pending.next;

	while (op->places)
		op = op->next;
	return op;
}
