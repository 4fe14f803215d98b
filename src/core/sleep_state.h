/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_SLEEP_STATE_H
#define PENSTOCK_CORE_SLEEP_STATE_H

/*
 * Handing over without locks: from the threads that submit to the I/O thread that carries
 * out, and back to who waits.  Both ways it is a stack that anybody adds to and that is taken
 * as a whole, and a state that says whether the taker sleeps.  One rule makes it safe: who
 * gives adds to the stack first and then looks at the state; who takes writes the state first
 * and then looks at the stack.  So one of the two sees the other, whatever the order.
 *
 * The state is exchanged where a store would do by the language: emulators let the load behind a
 * store go ahead (qemu 7.2, of aarch64 on x86-64), and then neither sees the other.
 *
 * tests/unit/src/core/sleep_state.c makes every atomic access a change of threads and goes through
 * all orders, tests/unit/src/core/sleep_state_threads.c lets two threads meet.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "core/mpsc_stack.h"

/* What an I/O thread does.  In all but the first somebody else must see to its stack. */
enum sleep_state {
	THREAD_RUNNING, /* it looks at its stack before it does anything else for long */
	THREAD_IDLE,    /* it sleeps until this state changes */
	THREAD_REAPING, /* it sleeps in its engine and wants to be woken */
	THREAD_BUSY,    /* it has no capacity or no time: others may take its stack */
};

/* The stack of an I/O thread, and its state. */
struct inbox {
	struct mpsc_stack stack;
	atomic_uint state;
};

/* Before sleeping, or what may take long.  False: there is something on the stack. */
static inline bool inbox_announce(struct inbox *in, enum sleep_state state)
{
	atomic_exchange(&in->state, state);
	return !mpsc_stack_any(&in->stack);
}

static inline enum sleep_state inbox_resume(struct inbox *in)
{
	return (enum sleep_state)atomic_exchange(&in->state, THREAD_RUNNING);
}

static inline enum sleep_state inbox_state(struct inbox *in)
{
	return (enum sleep_state)atomic_load(&in->state);
}

/*
 * Who finds it asleep wakes it, and only one does: this says how (THREAD_IDLE, THREAD_REAPING). Any
 * other answer: nothing to do, it is awake or has been woken.
 */
static inline enum sleep_state inbox_claim_wake(struct inbox *in)
{
	unsigned state = inbox_state(in);

	while (state == THREAD_IDLE || state == THREAD_REAPING) {
		if (atomic_compare_exchange_weak(&in->state, &state, THREAD_RUNNING))
			break;
	}
	return (enum sleep_state)state;
}

/* The way back: give results to a submitter.  True: somebody sleeps there and has to be told. */
static inline bool push_and_see_sleepers(struct mpsc_stack *s, atomic_uint *sleepers,
					 struct mpsc_item *newest, struct mpsc_item *oldest)
{
	mpsc_stack_push(s, newest, oldest);
	return atomic_load(sleepers);
}

/* Before sleeping at a submitter: from now on one is told.  The stack has to be looked at after
 * this. */
static inline void sleepers_add(atomic_uint *sleepers)
{
	atomic_fetch_add(sleepers, 1);
}

#endif
