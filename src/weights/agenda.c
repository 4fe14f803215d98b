/* SPDX-License-Identifier: Apache-2.0 */
/* The agenda: what was wanted out of order, then the order.  A cursor tells how much has room. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "weights/weights_in.h"

uint64_t agenda_len(const struct penstock_weights *w)
{
	if (w->o.flags & PENSTOCK_WEIGHTS_EXPERTS)
		return w->nr_front;
	if (w->o.flags & PENSTOCK_WEIGHTS_CYCLIC) /* farther than once around nobody looks */
		return w->nr_front + w->nr_groups;
	return w->nr_front + w->nr_groups - w->seq;
}

struct weights_group *agenda_at(const struct penstock_weights *w, uint64_t k)
{
	if (k < w->nr_front)
		return &w->groups[w->front[w->at_front + k]];
	return &w->groups[(w->seq + k - w->nr_front) % w->nr_groups];
}

void agenda_rewind(struct penstock_weights *w)
{
	for (uint64_t k = 0; k < w->cursor; k++)
		agenda_at(w, k)->due--;
	w->cursor = w->sub = 0;
}

/* Room for more numbers behind those that are left of an array. */
static int queue_room(uint64_t **v, uint64_t *at, uint64_t nr, uint64_t *room, uint64_t n)
{
	if (*at + nr + n > *room && *at) {
		memmove(*v, *v + *at, nr * sizeof(**v));
		*at = 0;
	}
	return ARRAY_RESERVE(*v, *room, *at + nr + n);
}

/* Those that are there first: the others can be read meanwhile. */
static uint64_t put_some(struct penstock_weights *w, const uint64_t *groups, uint64_t n, bool ready)
{
	uint64_t put = 0;

	for (uint64_t i = 0; i < n; i++)
		if ((w->groups[groups[i]].state == WEIGHTS_READY) == ready) {
			w->front[w->at_front + w->nr_front++] = groups[i];
			put++;
		}
	return put;
}

int agenda_append(struct penstock_weights *w, const uint64_t *groups, uint64_t n)
{
	bool experts = w->o.flags & PENSTOCK_WEIGHTS_EXPERTS;

	if (queue_room(&w->front, &w->at_front, w->nr_front, &w->room_front, n) < 0)
		return -ENOMEM;
	if (experts) {
		w->stats.hits += put_some(w, groups, n, true);
		w->stats.misses += put_some(w, groups, n, false);
		return 0;
	}
	agenda_rewind(w);
	memcpy(w->front + w->at_front + w->nr_front, groups, n * sizeof(*groups));
	w->nr_front += n;
	return 0;
}

void agenda_pop(struct penstock_weights *w)
{
	if (w->cursor) {
		agenda_at(w, 0)->due--;
		w->cursor--;
	}
	if (w->sub)
		w->sub--;
	if (w->nr_front) {
		w->nr_front--;
		w->at_front = w->nr_front ? w->at_front + 1 : 0;
	} else {
		w->seq++;
	}
}

static void agenda_begin_group(struct weights_group *g)
{
	g->state = g->nr_runs ? WEIGHTS_LOADING : WEIGHTS_READY;
	g->run = g->pos = 0;
	g->code = 0;
	g->given = false;
}

static void begin_hints(struct penstock_weights *w)
{
	while (w->nr_hints) {
		struct weights_group *g = &w->groups[w->hints[w->at_hints]];

		if (g->state == WEIGHTS_LOADING && g->hinted && g->run < g->nr_runs)
			return; /* its reads come first */
		if (g->state == WEIGHTS_GONE && !g->hinted) {
			if (!room_take(w, g, true))
				return;
			agenda_begin_group(g);
			g->hinted = true;
			return;
		}
		w->nr_hints--;
		w->at_hints = w->nr_hints ? w->at_hints + 1 : 0;
	}
}

void agenda_begin(struct penstock_weights *w)
{
	while (w->cursor < agenda_len(w)) {
		struct weights_group *g = agenda_at(w, w->cursor);

		if (g->state == WEIGHTS_FAILED && !g->due && !g->held)
			room_drop(w, g);
		if (g->state == WEIGHTS_DYING)
			return;
		if (g->state == WEIGHTS_GONE) {
			if (!room_take(w, g, false))
				return;
			agenda_begin_group(g);
		}
		g->due++;
		w->cursor++;
	}
	begin_hints(w);
}

struct weights_group *agenda_to_read(struct penstock_weights *w)
{
	struct weights_group *g;

	for (; w->sub < w->cursor; w->sub++) {
		g = agenda_at(w, w->sub);
		if (g->state == WEIGHTS_LOADING && g->run < g->nr_runs)
			return g;
	}
	if (!w->nr_hints || w->cursor < agenda_len(w))
		return NULL;
	g = &w->groups[w->hints[w->at_hints]];
	return g->state == WEIGHTS_LOADING && g->run < g->nr_runs ? g : NULL;
}
