/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in line: for workers, for the keeper. */
#include "kvstore/kvstore.h"

void store_line_init(struct store_line *l)
{
	l->first = NULL;
	l->last = &l->first;
}

void store_line_add(struct store_line *l, struct store_op *op)
{
	op->next = NULL;
	*l->last = op;
	l->last = &op->next;
}

void store_line_first(struct store_line *l, struct store_op *op)
{
	if (!l->first) {
		store_line_add(l, op);
		return;
	}
	op->next = l->first;
	l->first = op;
}

struct store_op *store_line_next(struct store_line *l)
{
	struct store_op *op = l->first;

	if (op)
		l->first = op->next;
	if (!l->first)
		l->last = &l->first;
	return op;
}

struct store_op *store_line_take(struct store_line *l)
{
	struct store_op *list = l->first;

	store_line_init(l);
	return list;
}

/* Who is woken finds the lock free: here and below it is let go first. */
void store_ready(struct penstock_store *s, struct store_op *op)
{
	op->next = NULL;
	store_ready_all(s, op);
}

void store_ready_all(struct penstock_store *s, struct store_op *list)
{
	bool idle;

	pthread_mutex_lock(&s->line.lock);
	while (list) {
		struct store_op *next = list->next;

		store_line_add(&s->line.ready, list);
		list = next;
	}
	idle = s->line.idle;
	pthread_mutex_unlock(&s->line.lock);
	if (idle)
		pthread_cond_signal(&s->line.work);
}

void store_logging(struct penstock_store *s, struct store_op *op)
{
	bool first;

	pthread_mutex_lock(&s->line.lock);
	first = !s->line.logging.first;
	store_line_add(&s->line.logging, op);
	pthread_mutex_unlock(&s->line.lock);
	if (first)
		pthread_cond_signal(&s->line.commit);
}

void store_kick(struct penstock_store *s)
{
	pthread_mutex_lock(&s->line.lock);
	s->line.kick = true;
	pthread_cond_signal(&s->line.commit);
	pthread_mutex_unlock(&s->line.lock);
}
