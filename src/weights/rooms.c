/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rooms of the window.  Each group gets the next hole behind the one before: for groups that come
 * and go in order that is a ring, for experts the hole that was just made.
 */
#include <stdlib.h>

#include "base/util.h"
#include "weights/weights_internal.h"

void rooms_init(struct penstock_weights *w)
{
	w->walls.before = w->walls.behind = w->last = &w->walls;
	w->by_use.older = w->by_use.newer = &w->by_use;
}

static bool fit(struct penstock_weights *w, struct weights_group *g)
{
	struct weights_group *p = w->last;

	/* Most often there is none, and of small groups there are many to look behind. */
	if (w->window_len - w->window_taken < g->room)
		return false;
	do {
		uint64_t low = p == &w->walls ? 0 : p->at + p->room;
		uint64_t high = p->behind == &w->walls ? w->window_len : p->behind->at;

		if (high - low >= g->room) {
			g->at = low;
			g->before = p;
			g->behind = p->behind;
			p->behind->before = g;
			p->behind = g;
			w->last = g;
			w->window_taken += g->room;
			return true;
		}
		p = p->behind;
	} while (p != w->last);
	return false;
}

static void use_out(struct weights_group *g)
{
	g->older->newer = g->newer;
	g->newer->older = g->older;
}

static void use_in(struct penstock_weights *w, struct weights_group *g)
{
	g->older = w->by_use.older;
	g->newer = &w->by_use;
	g->older->newer = g;
	w->by_use.older = g;
}

void room_used(struct penstock_weights *w, struct weights_group *g)
{
	use_out(g);
	use_in(w, g);
}

static void rooms_leave(struct penstock_weights *w, struct weights_group *g)
{
	if (w->last == g)
		w->last = g->before;
	g->before->behind = g->behind;
	g->behind->before = g->before;
	use_out(g);
	w->window_taken -= g->room;
	if (g->state == WEIGHTS_DYING)
		w->dying--;
	free(g->msg);
	g->msg = NULL;
	g->state = WEIGHTS_GONE;
	g->hinted = false;
}

void room_drop(struct penstock_weights *w, struct weights_group *g)
{
	if (g->state == WEIGHTS_GONE)
		return;
	if (g->state != WEIGHTS_DYING && !g->given)
		w->stats.wasted++;
	if (!g->flight) {
		rooms_leave(w, g);
	} else if (g->state != WEIGHTS_DYING) {
		g->state = WEIGHTS_DYING;
		w->dying++;
	}
}

static bool is_spare(const struct weights_group *g, bool hint)
{
	return !g->held && !g->scheduled && g->state != WEIGHTS_DYING && !(hint && g->hinted);
}

/*
 * Of experts the least recently used; of an order that was interrupted what was begun last, which
 * is needed last.
 */
static struct weights_group *victim(struct penstock_weights *w, bool hint)
{
	bool lru = w->o.flags & PENSTOCK_WEIGHTS_EXPERTS;
	struct weights_group *g = lru ? w->by_use.newer : w->by_use.older;

	while (g != &w->by_use && !is_spare(g, hint))
		g = lru ? g->newer : g->older;
	return g == &w->by_use ? NULL : g;
}

bool room_take(struct penstock_weights *w, struct weights_group *g, bool hint)
{
	while (!fit(w, g)) {
		struct weights_group *v = w->dying ? NULL : victim(w, hint);

		if (!v)
			return false;
		w->stats.evicted++;
		room_drop(w, v);
	}
	use_in(w, g);
	return true;
}
