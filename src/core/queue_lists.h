/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_QUEUE_LISTS_H
#define PENSTOCK_CORE_QUEUE_LISTS_H

/* Lists of a queue that taking on (queue_pull.c), submitting and harvesting (queue.c) share. */
#include "core/queue.h"

static inline void ready_add(struct queue *q, struct block *b)
{
	b->req.next = NULL;
	*q->ready_tail = b;
	q->ready_tail = (struct block **)&b->req.next;
}

/* Blocks that have been submitted before go first: they may hold what the others wait for. */
static inline void ready_return(struct queue *q, struct block *b)
{
	b->req.next = (struct penstock_req *)q->ready;
	if (!q->ready)
		q->ready_tail = (struct block **)&b->req.next;
	q->ready = b;
}

static inline struct block *ready_take(struct queue *q)
{
	struct block *b = q->ready;

	q->ready = (struct block *)b->req.next;
	if (!q->ready)
		q->ready_tail = &q->ready;
	return b;
}

/* What a block adds to the bytes in flight; the S3 client and an engine for device memory bound
 * what they have in flight.
 */
static inline uint64_t block_weight(const struct block *b, uint64_t len)
{
	return b->mode == BLOCK_CUFILE || b->remote ? 0 : len;
}

/* One more or one less. */
static inline void member_load_count(const struct block *b, int n)
{
	b->load->blocks += (unsigned)n;
	b->load->bytes += (uint64_t)n * b->len;
	if (b->mode == BLOCK_BOUNCE)
		b->load->bounced += (unsigned)n;
}

static inline void ended_add(struct op **ended, struct op *op)
{
	op->next = *ended;
	*ended = op;
}

/* What comes after the last block of an operation; there is a free one. */
void block_of_sync(struct queue *q, struct op *op);

#endif
