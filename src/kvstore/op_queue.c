/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of operations: for workers, for the log writer. */
#include "kvstore/kvstore.h"

void store_op_queue_init(struct store_op_queue *l)
{
	l->first = NULL;
	l->last = &l->first;
}

void store_op_queue_push(struct store_op_queue *l, struct store_op *op)
{
	op->next = NULL;
	*l->last = op;
	l->last = &op->next;
}

void store_op_queue_push_front(struct store_op_queue *l, struct store_op *op)
{
	if (!l->first) {
		store_op_queue_push(l, op);
		return;
	}
	op->next = l->first;
	l->first = op;
}

struct store_op *store_op_queue_pop(struct store_op_queue *l)
{
	struct store_op *op = l->first;

	if (op)
		l->first = op->next;
	if (!l->first)
		l->last = &l->first;
	return op;
}

struct store_op *store_op_queue_take_all(struct store_op_queue *l)
{
	struct store_op *list = l->first;

	store_op_queue_init(l);
	return list;
}

/* Who is woken finds the lock free: here and below it is let go first. */
void store_queue_op(struct penstock_store *s, struct store_op *op)
{
	op->next = NULL;
	store_queue_ops(s, op);
}

void store_queue_ops(struct penstock_store *s, struct store_op *list)
{
	bool idle;

	pthread_mutex_lock(&s->queues.lock);
	while (list) {
		struct store_op *next = list->next;

		store_op_queue_push(&s->queues.ready, list);
		list = next;
	}
	idle = s->queues.idle;
	pthread_mutex_unlock(&s->queues.lock);
	if (idle)
		pthread_cond_signal(&s->queues.work);
}

void store_queue_commit(struct penstock_store *s, struct store_op *op)
{
	bool first;

	pthread_mutex_lock(&s->queues.lock);
	first = !s->queues.to_commit.first;
	store_op_queue_push(&s->queues.to_commit, op);
	pthread_mutex_unlock(&s->queues.lock);
	if (first)
		pthread_cond_signal(&s->queues.commit);
}

void store_wake_log_writer(struct penstock_store *s)
{
	pthread_mutex_lock(&s->queues.lock);
	s->queues.wake_log_writer = true;
	pthread_cond_signal(&s->queues.commit);
	pthread_mutex_unlock(&s->queues.lock);
}
