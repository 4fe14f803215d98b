/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of operations with blocks to hand out, which all queues take from.  All of it
 * under io->lock.  A queue with no room for device memory passes over it.
 */
#include "core/core.h"

void pend_add(struct sluice_io *io, struct op *op)
{
	op->state = OP_PENDING;
	op->est = op->len ? (op->len + op->block - 1) / op->block : 1;
	io->pend_blocks += op->est;
	io->pend_host += !op->places;
	op_list_add(&io->pending, op);
}

void pend_del(struct sluice_io *io, struct op *op)
{
	op_list_del(op);
	io->pend_blocks -= op->est;
	io->pend_host -= !op->places;
	op->est = 0;
	op->state = OP_ISSUED;
}

struct op *pend_first_host(const struct sluice_io *io)
{
	struct op *op = io->pending.next;

	while (op->places)
		op = op->next;
	return op;
}
