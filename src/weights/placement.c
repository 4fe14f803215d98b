/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of groups in the window.  Each group gets the next hole behind the group placed last.
 * In an order, groups so go around the window; an expert gets the hole that was just made for it.
 */
#include <stdlib.h>

#include "base/util.h"
#include "weights/weights_internal.h"

void placement_init(struct penstock_weights *w)
{
	w->window_ends.prev = w->window_ends.next = w->last_placed = &w->window_ends;
	w->lru.older = w->lru.newer = &w->lru;
}

static bool place_in_hole(struct penstock_weights *w, struct weights_group *g)
{
	struct weights_group *p = w->last_placed;

	/* Most often there is none, and of small groups there are many to look behind. */
	if (w->window_len - w->window_taken < g->window_bytes)
		return false;
	do {
		uint64_t low = p == &w->window_ends ? 0 : p->at + p->window_bytes;
		uint64_t high = p->next == &w->window_ends ? w->window_len : p->next->at;

		if (high - low >= g->window_bytes) {
			g->at = low;
			g->prev = p;
			g->next = p->next;
			p->next->prev = g;
			p->next = g;
			w->last_placed = g;
			w->window_taken += g->window_bytes;
			return true;
		}
		p = p->next;
	} while (p != w->last_placed);
	return false;
}

static void lru_remove(struct weights_group *g)
{
	g->older->newer = g->newer;
	g->newer->older = g->older;
}

static void lru_insert(struct penstock_weights *w, struct weights_group *g)
{
	g->older = w->lru.older;
	g->newer = &w->lru;
	g->older->newer = g;
	w->lru.older = g;
}

void placement_touch(struct penstock_weights *w, struct weights_group *g)
{
	lru_remove(g);
	lru_insert(w, g);
}

static void placement_free(struct penstock_weights *w, struct weights_group *g)
{
	if (w->last_placed == g)
		w->last_placed = g->prev;
	g->prev->next = g->next;
	g->next->prev = g->prev;
	lru_remove(g);
	w->window_taken -= g->window_bytes;
	if (g->state == WEIGHTS_DROPPED)
		w->nr_dropped--;
	free(g->msg);
	g->msg = NULL;
	g->state = WEIGHTS_ABSENT;
	g->hinted = false;
}

void placement_drop(struct penstock_weights *w, struct weights_group *g)
{
	if (g->state == WEIGHTS_ABSENT)
		return;
	if (g->state != WEIGHTS_DROPPED && !g->delivered)
		w->stats.wasted++;
	if (!g->in_flight) {
		placement_free(w, g);
	} else if (g->state != WEIGHTS_DROPPED) {
		g->state = WEIGHTS_DROPPED;
		w->nr_dropped++;
	}
}

static bool is_evictable(const struct weights_group *g, bool hint)
{
	return !g->held && !g->scheduled && g->state != WEIGHTS_DROPPED && !(hint && g->hinted);
}

/*
 * Of experts the least recently used; of an order that was interrupted what was begun last, which
 * is needed last.
 */
static struct weights_group *pick_victim(struct penstock_weights *w, bool hint)
{
	bool lru = w->o.flags & PENSTOCK_WEIGHTS_EXPERTS;
	struct weights_group *g = lru ? w->lru.newer : w->lru.older;

	while (g != &w->lru && !is_evictable(g, hint))
		g = lru ? g->newer : g->older;
	return g == &w->lru ? NULL : g;
}

bool place_group(struct penstock_weights *w, struct weights_group *g, bool hint)
{
	while (!place_in_hole(w, g)) {
		struct weights_group *v = w->nr_dropped ? NULL : pick_victim(w, hint);

		if (!v)
			return false;
		w->stats.evicted++;
		placement_drop(w, v);
	}
	lru_insert(w, g);
	return true;
}
