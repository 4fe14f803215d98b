/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_MPSC_STACK_H
#define PENSTOCK_CORE_MPSC_STACK_H

/*
 * A lock-free stack: any number of threads push chains of items, one thread takes all of them at
 * once.  sleep_state.h says how that thread learns of new items while it sleeps.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * What is handed over begins with its link.  Each one is on a line of memory that the other
 * processor has: @prefetch, some places further in the chain, is fetched while those before it are
 * looked at, so that not every link is waited for.
 */
struct mpsc_item {
	struct mpsc_item *next;
	const void *prefetch; /* or anything: it is only a hint */
};

/* The last few that were added to a chain. */
struct prefetch_hints {
	const void *last[4];
	unsigned n;
};

static inline void prefetch_hints_add(struct prefetch_hints *h, struct mpsc_item *item)
{
	const void **last = &h->last[h->n++ % 4];

	item->prefetch = *last;
	*last = item;
}

struct mpsc_stack {
	_Atomic(struct mpsc_item *) top;
};

/* Add a chain, newest first; true: there was something already. */
static inline bool mpsc_stack_push(struct mpsc_stack *s, struct mpsc_item *newest,
				   struct mpsc_item *oldest)
{
	struct mpsc_item *top;

	top = atomic_load_explicit(&s->top, memory_order_relaxed);
	do {
		oldest->next = top;
	} while (!atomic_compare_exchange_weak(&s->top, &top, newest));
	return top;
}

static inline bool mpsc_stack_any(struct mpsc_stack *s)
{
	return atomic_load(&s->top);
}

/* All of it, oldest first; @prefetch: those of its items are set. */
static inline struct mpsc_item *mpsc_stack_take(struct mpsc_stack *s, bool prefetch)
{
	struct mpsc_item *item, *next, *list = NULL;

	if (!mpsc_stack_any(s))
		return NULL;
	for (item = atomic_exchange(&s->top, NULL); item; item = next) {
		if (prefetch)
			__builtin_prefetch(item->prefetch, 1);
		next = item->next;
		item->next = list;
		list = item;
	}
	return list;
}

#endif
