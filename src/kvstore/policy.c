/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of entries, linked by their numbers; policy.h says which and why. */
#include "kvstore/policy.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

enum { FREQ_MAX = 3, SEEN_FIRST = 1024, ROUNDS = 256 };

/* -------------------------------------------------------------------- seen */

int store_seen_fit(struct store_seen *s, uint32_t entries)
{
	uint32_t nr = s->nr ? s->nr : SEEN_FIRST;
	uint32_t *marks;

	while (nr < entries)
		nr *= 2;
	if (nr == s->nr)
		return 0;
	/* What was seen before is forgotten: it happens seldom, and less each time. */
	marks = calloc(nr, sizeof(*marks));
	if (!marks)
		return s->nr ? 0 : -ENOMEM;
	free(s->marks);
	*s = (struct store_seen){marks, nr};
	return 0;
}

/* Not the bits that choose the place; never 0. */
static uint32_t mark_of(struct store_hash h)
{
	return (uint32_t)(h.b >> 32) | 1;
}

void store_seen_add(struct store_seen *s, struct store_hash h)
{
	s->marks[(uint32_t)h.b & (s->nr - 1)] = mark_of(h);
}

bool store_seen_take(struct store_seen *s, struct store_hash h)
{
	uint32_t *m = &s->marks[(uint32_t)h.b & (s->nr - 1)];

	if (*m != mark_of(h))
		return false;
	*m = 0;
	return true;
}

/* ------------------------------------------------------------------ queues */

int store_policy_init(struct store_policy *p, uint32_t kind)
{
	*p = (struct store_policy){.kind = kind};
	for (unsigned i = 0; i < ARRAY_SIZE(p->list); i++)
		p->list[i] = (struct store_list){STORE_NONE, STORE_NONE, 0};
	return store_seen_fit(&p->ghosts, 0);
}

void store_policy_fini(struct store_policy *p)
{
	free(p->ghosts.marks);
}

uint64_t store_policy_bytes(const struct store_policy *p)
{
	return (uint64_t)p->ghosts.nr * sizeof(*p->ghosts.marks);
}

static void list_push(struct store_policy *p, struct store_index *x, struct store_entry *e,
		      enum store_policy_queue queue)
{
	struct store_list *l = &p->list[queue];
	uint32_t nr = store_index_nr(x, e);

	e->queue = queue;
	e->next = STORE_NONE;
	e->prev = l->last;
	if (l->last == STORE_NONE)
		l->first = nr;
	else
		store_index_at(x, l->last)->next = nr;
	l->last = nr;
	l->bytes += e->len;
}

void store_policy_remove(struct store_policy *p, struct store_index *x, struct store_entry *e)
{
	struct store_list *l = &p->list[e->queue];

	if (e->queue == STORE_POLICY_NONE)
		return;
	*(e->prev == STORE_NONE ? &l->first : &store_index_at(x, e->prev)->next) = e->next;
	*(e->next == STORE_NONE ? &l->last : &store_index_at(x, e->next)->prev) = e->prev;
	l->bytes -= e->len;
	e->queue = STORE_POLICY_NONE;
}

static void list_move(struct store_policy *p, struct store_index *x, struct store_entry *e,
		      enum store_policy_queue queue)
{
	store_policy_remove(p, x, e);
	list_push(p, x, e, queue);
}

void store_policy_add(struct store_policy *p, struct store_index *x, struct store_entry *e)
{
	if (p->kind == PENSTOCK_STORE_LRU) {
		list_push(p, x, e, STORE_POLICY_MAIN);
		return;
	}
	store_seen_fit(&p->ghosts, x->used / 2);
	list_push(p, x, e,
		  store_seen_take(&p->ghosts, e->hash) ? STORE_POLICY_MAIN : STORE_POLICY_SMALL);
}

void store_policy_touch(struct store_policy *p, struct store_index *x, struct store_entry *e)
{
	if (e->queue == STORE_POLICY_NONE)
		return;
	if (p->kind == PENSTOCK_STORE_LRU)
		list_move(p, x, e, STORE_POLICY_MAIN);
	else if (e->freq < FREQ_MAX)
		e->freq++;
}

static bool small_is_next(const struct store_policy *p)
{
	const struct store_list *small = &p->list[STORE_POLICY_SMALL];
	const struct store_list *large = &p->list[STORE_POLICY_MAIN];

	return small->first != STORE_NONE &&
	       (large->first == STORE_NONE || small->bytes * 9 >= large->bytes);
}

/* The head of a queue, if it is to go; else NULL, and it is elsewhere now.  @any: used or not. */
static struct store_entry *policy_check_head(struct store_policy *p, struct store_index *x,
					     enum store_policy_queue queue, bool any)
{
	struct store_entry *e = store_index_at(x, p->list[queue].first);

	if (!e->pins && (any || !e->freq || p->kind != PENSTOCK_STORE_S3FIFO))
		return e;
	if (!e->pins)
		e->freq--;
	list_move(p, x, e, e->pins ? queue : STORE_POLICY_MAIN);
	return NULL;
}

struct store_entry *store_policy_victim(struct store_policy *p, struct store_index *x)
{
	/*
	 * Each can be passed over for a pin, which few have, and for every use: not more than
	 * ROUNDS times, since the store waits meanwhile.  What was passed over is worth less the
	 * next time.
	 */
	for (uint64_t tries = 0; tries <= (uint64_t)x->used + ROUNDS; tries++) {
		enum store_policy_queue q =
			small_is_next(p) ? STORE_POLICY_SMALL : STORE_POLICY_MAIN;
		struct store_entry *e;

		if (p->list[q].first == STORE_NONE)
			return NULL;
		e = policy_check_head(p, x, q, tries >= ROUNDS);
		if (!e)
			continue;
		if (q == STORE_POLICY_SMALL)
			store_seen_add(&p->ghosts, e->hash);
		return e;
	}
	return NULL;
}
