/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule: groups that were requested, then the order.  Its first nr_placed groups have space.
 */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "weights/weights_internal.h"

uint64_t schedule_len(const struct penstock_weights *w)
{
	if (w->o.flags & PENSTOCK_WEIGHTS_EXPERTS)
		return w->nr_requested;
	if (w->o.flags & PENSTOCK_WEIGHTS_CYCLIC) /* farther than once around nobody looks */
		return w->nr_requested + w->nr_groups;
	return w->nr_requested + w->nr_groups - w->next_in_order;
}

struct weights_group *schedule_at(const struct penstock_weights *w, uint64_t k)
{
	if (k < w->nr_requested)
		return &w->groups[w->requested[w->requested_at + k]];
	return &w->groups[(w->next_in_order + k - w->nr_requested) % w->nr_groups];
}

void schedule_rewind(struct penstock_weights *w)
{
	for (uint64_t k = 0; k < w->nr_placed; k++)
		schedule_at(w, k)->scheduled--;
	w->nr_placed = w->nr_submitted = 0;
}

/* Room for more numbers behind those that are left of an array. */
static int reserve_queue(uint64_t **v, uint64_t *at, uint64_t nr, uint64_t *capacity, uint64_t n)
{
	if (*at + nr + n > *capacity && *at) {
		memmove(*v, *v + *at, nr * sizeof(**v));
		*at = 0;
	}
	return ARRAY_RESERVE(*v, *capacity, *at + nr + n);
}

/* Those that are there first: the others can be read meanwhile. */
static uint64_t append_groups(struct penstock_weights *w, const uint64_t *groups, uint64_t n,
			      bool ready)
{
	uint64_t put = 0;

	for (uint64_t i = 0; i < n; i++)
		if ((w->groups[groups[i]].state == WEIGHTS_READY) == ready) {
			w->requested[w->requested_at + w->nr_requested++] = groups[i];
			put++;
		}
	return put;
}

int schedule_append(struct penstock_weights *w, const uint64_t *groups, uint64_t n)
{
	bool experts = w->o.flags & PENSTOCK_WEIGHTS_EXPERTS;

	if (reserve_queue(&w->requested, &w->requested_at, w->nr_requested, &w->requested_capacity,
			  n) < 0)
		return -ENOMEM;
	if (experts) {
		w->stats.hits += append_groups(w, groups, n, true);
		w->stats.misses += append_groups(w, groups, n, false);
		return 0;
	}
	schedule_rewind(w);
	memcpy(w->requested + w->requested_at + w->nr_requested, groups, n * sizeof(*groups));
	w->nr_requested += n;
	return 0;
}

void schedule_pop(struct penstock_weights *w)
{
	if (w->nr_placed) {
		schedule_at(w, 0)->scheduled--;
		w->nr_placed--;
	}
	if (w->nr_submitted)
		w->nr_submitted--;
	if (w->nr_requested) {
		w->nr_requested--;
		w->requested_at = w->nr_requested ? w->requested_at + 1 : 0;
	} else {
		w->next_in_order++;
	}
}

static void start_loading(struct weights_group *g)
{
	g->state = g->nr_ranges ? WEIGHTS_LOADING : WEIGHTS_READY;
	g->next_range = g->next_pos = 0;
	g->code = 0;
	g->delivered = false;
}

static void place_hinted(struct penstock_weights *w)
{
	while (w->nr_hints) {
		struct weights_group *g = &w->groups[w->hints[w->hints_at]];

		if (g->state == WEIGHTS_LOADING && g->hinted && g->next_range < g->nr_ranges)
			return; /* its reads come first */
		if (g->state == WEIGHTS_ABSENT && !g->hinted) {
			if (!place_group(w, g, true))
				return;
			start_loading(g);
			g->hinted = true;
			return;
		}
		w->nr_hints--;
		w->hints_at = w->nr_hints ? w->hints_at + 1 : 0;
	}
}

void schedule_place_groups(struct penstock_weights *w)
{
	while (w->nr_placed < schedule_len(w)) {
		struct weights_group *g = schedule_at(w, w->nr_placed);

		if (g->state == WEIGHTS_FAILED && !g->scheduled && !g->held)
			placement_drop(w, g);
		if (g->state == WEIGHTS_DROPPED)
			return;
		if (g->state == WEIGHTS_ABSENT) {
			if (!place_group(w, g, false))
				return;
			start_loading(g);
		}
		g->scheduled++;
		w->nr_placed++;
	}
	place_hinted(w);
}

struct weights_group *schedule_next_to_read(struct penstock_weights *w)
{
	struct weights_group *g;

	for (; w->nr_submitted < w->nr_placed; w->nr_submitted++) {
		g = schedule_at(w, w->nr_submitted);
		if (g->state == WEIGHTS_LOADING && g->next_range < g->nr_ranges)
			return g;
	}
	if (!w->nr_hints || w->nr_placed < schedule_len(w))
		return NULL;
	g = &w->groups[w->hints[w->hints_at]];
	return g->state == WEIGHTS_LOADING && g->next_range < g->nr_ranges ? g : NULL;
}
