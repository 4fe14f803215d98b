/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_HAND_H
#define PENSTOCK_CORE_HAND_H

/*
 * Handing over without locks: from the threads that submit to the I/O thread that carries
 * out, and back to who waits.  Both ways it is a pile that anybody adds to and that is taken
 * as a whole, and a word that says whether the taker sleeps.  One rule makes it safe: who
 * gives adds to the pile first and then looks at the word; who takes writes the word first
 * and then looks at the pile.  So one of the two sees the other, whatever the order.
 *
 * The word is exchanged where a store would do by the language: emulators let the load behind a
 * store go ahead (qemu 7.2, of aarch64 on x86-64), and then neither sees the other.
 *
 * tests/unit/src/core/hand.c makes every atomic access a change of threads and goes through all
 * orders, tests/unit/src/core/hand_rule.c lets two threads meet.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * What is handed over begins with its link.  Each one is on a line of memory that the other
 * processor has: @far, some places further in the chain, is fetched while those before it are
 * looked at, so that not every link is waited for.
 */
struct hand_item {
	struct hand_item *next;
	const void *far; /* or anything: it is only a hint */
};

/* The last few that were added to a chain. */
struct hand_far {
	const void *last[4];
	unsigned n;
};

static inline void hand_far_add(struct hand_far *f, struct hand_item *item)
{
	const void **last = &f->last[f->n++ % 4];

	item->far = *last;
	*last = item;
}

struct pile {
	_Atomic(struct hand_item *) top;
};

/* Add a chain, newest first; true: there was something already. */
static inline bool pile_add(struct pile *p, struct hand_item *newest, struct hand_item *oldest)
{
	struct hand_item *top;

	top = atomic_load_explicit(&p->top, memory_order_relaxed);
	do {
		oldest->next = top;
	} while (!atomic_compare_exchange_weak(&p->top, &top, newest));
	return top;
}

static inline bool pile_any(struct pile *p)
{
	return atomic_load(&p->top);
}

/* All of it, oldest first; @far: those of its items are set. */
static inline struct hand_item *pile_take(struct pile *p, bool far)
{
	struct hand_item *item, *next, *list = NULL;

	if (!pile_any(p))
		return NULL;
	for (item = atomic_exchange(&p->top, NULL); item; item = next) {
		if (far)
			__builtin_prefetch(item->far, 1);
		next = item->next;
		item->next = list;
		list = item;
	}
	return list;
}

/* What an I/O thread does.  In all but the first somebody else must see to its pile. */
enum hand_state {
	HAND_RUNS,  /* it looks at its pile before it does anything else for long */
	HAND_IDLE,  /* it sleeps until this word changes */
	HAND_REAPS, /* it sleeps in its engine and wants to be woken */
	HAND_BUSY,  /* it has no room or no time: others may take its pile */
};

/* The pile of an I/O thread, and its word. */
struct hand {
	struct pile pile;
	atomic_uint state;
};

/* Before sleeping, or what may take long.  False: there is something on the pile. */
static inline bool hand_leave(struct hand *h, enum hand_state state)
{
	atomic_exchange(&h->state, state);
	return !pile_any(&h->pile);
}

static inline enum hand_state hand_back(struct hand *h)
{
	return (enum hand_state)atomic_exchange(&h->state, HAND_RUNS);
}

static inline enum hand_state hand_look(struct hand *h)
{
	return (enum hand_state)atomic_load(&h->state);
}

/*
 * Who finds it asleep wakes it, and only one does: this says how (HAND_IDLE, HAND_REAPS).  Any
 * other answer: nothing to do, it is awake or has been woken.
 */
static inline enum hand_state hand_claim(struct hand *h)
{
	unsigned state = hand_look(h);

	while (state == HAND_IDLE || state == HAND_REAPS) {
		if (atomic_compare_exchange_weak(&h->state, &state, HAND_RUNS))
			break;
	}
	return (enum hand_state)state;
}

/* The way back: give results to a port.  True: somebody sleeps there and has to be told. */
static inline bool hand_return(struct pile *p, atomic_uint *sleepers, struct hand_item *newest,
			       struct hand_item *oldest)
{
	pile_add(p, newest, oldest);
	return atomic_load(sleepers);
}

/* Before sleeping at a port: from now on one is told.  The pile has to be looked at after this. */
static inline void hand_expect(atomic_uint *sleepers)
{
	atomic_fetch_add(sleepers, 1);
}

#endif
