/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_UNIT_ORDERS_H
#define PENSTOCK_TESTS_UNIT_ORDERS_H

/*
 * Code of several threads in every order there is.  Threads are coroutines that may change at
 * every atomic access, which is what the macros below are for: include this before the code
 * under test, which is then run as it is.  The search goes through all sequences of changes,
 * or through all with a number of interruptions; a lost wake-up shows as a state in
 * which nobody can go on.
 */
#include <setjmp.h>
#include <stdatomic.h>
#include <ucontext.h>

#include "tests/common/t.h"

enum { ORDERS_THREADS = 3, ORDERS_STEPS = 4000, ORDERS_STACK = 256 << 10 };

static void step(void);

#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_strong
#define atomic_load(p)         (step(), atomic_load_explicit(p, memory_order_seq_cst))
#define atomic_store(p, v)     (step(), atomic_store_explicit(p, v, memory_order_seq_cst))
#define atomic_exchange(p, v)  (step(), atomic_exchange_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_add(p, v) (step(), atomic_fetch_add_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_sub(p, v) (step(), atomic_fetch_sub_explicit(p, v, memory_order_seq_cst))
#define atomic_compare_exchange_strong(p, old, v)                                         \
	(step(), atomic_compare_exchange_strong_explicit(p, old, v, memory_order_seq_cst, \
							 memory_order_seq_cst))
#define atomic_compare_exchange_weak(p, old, v) atomic_compare_exchange_strong(p, old, v)

struct coroutine {
	ucontext_t context; /* to begin with; then jumps, which need no system call */
	jmp_buf resume;
	char *stack;
	bool begun, over;
	bool (*blocked)(void *arg); /* NULL: it can go on */
	void *arg;
};

static struct coroutine threads[ORDERS_THREADS];
static void (*bodies[ORDERS_THREADS])(void);
static ucontext_t scheduler_context;
static jmp_buf scheduler;
static bool searching; /* else nobody else is there */
static unsigned nr_threads, current, depth;
static unsigned char options[ORDERS_STEPS], chosen[ORDERS_STEPS];
static unsigned interruptions, most_interruptions;
static unsigned long orders;
static void (*on_change)(unsigned from, unsigned to); /* NULL: nothing to do */

static void step(void)
{
	if (searching && !_setjmp(threads[current].resume))
		_longjmp(scheduler, 1);
}

static void block_while(bool (*blocked)(void *arg), void *arg)
{
	threads[current].blocked = blocked;
	threads[current].arg = arg;
	step();
	threads[current].blocked = NULL;
}

static bool can_run(unsigned i)
{
	const struct coroutine *c = &threads[i];

	return !c->over && !(c->blocked && c->blocked(c->arg));
}

static void go_on(unsigned i)
{
	struct coroutine *c = &threads[i];

	if (on_change && i != current)
		on_change(current, i);
	current = i;
	if (_setjmp(scheduler))
		return;
	if (c->begun)
		_longjmp(c->resume, 1);
	c->begun = true;
	swapcontext(&scheduler_context, &c->context);
}

/* Which goes on is for the search to say: the one that ran first, then the others. */
static bool run_one(void)
{
	unsigned can[ORDERS_THREADS], n = 0;
	bool goes_on = can_run(current);

	if (goes_on)
		can[n++] = current;
	for (unsigned i = 0; i < nr_threads; i++)
		if (i != current && can_run(i))
			can[n++] = i;
	if (!n)
		return false;
	T_OK(depth < ORDERS_STEPS);
	options[depth] = (unsigned char)(goes_on && interruptions == most_interruptions ? 1 : n);
	n = chosen[depth++];
	interruptions += goes_on && n;
	go_on(can[n]);
	return true;
}

static void thread_main(void)
{
	bodies[current]();
	threads[current].over = true;
	step();
}

/* To the next order; false: that was the last. */
static bool next_order(void)
{
	while (depth && chosen[depth - 1] + 1 == options[depth - 1])
		chosen[--depth] = 0;
	if (!depth)
		return false;
	chosen[depth - 1]++;
	return true;
}

static void coroutine_start(struct coroutine *c)
{
	if (!c->stack)
		c->stack = malloc(ORDERS_STACK);
	T_OK(c->stack);
	c->begun = c->over = false;
	c->blocked = NULL;
	memset(&c->context, 0, sizeof(c->context));
	getcontext(&c->context);
	c->context.uc_stack.ss_sp = c->stack;
	c->context.uc_stack.ss_size = ORDERS_STACK;
	c->context.uc_link = &scheduler_context;
	makecontext(&c->context, thread_main, 0);
}

/* The bodies of @n threads, with at most so many interruptions; waiting is none. */
static void in_all_orders(unsigned n, unsigned most, void (*setup)(void), void (*check)(void))
{
	nr_threads = n;
	most_interruptions = most;
	orders = 0;
	memset(chosen, 0, sizeof(chosen));
	do {
		setup();
		depth = interruptions = current = 0;
		for (unsigned i = 0; i < n; i++)
			coroutine_start(&threads[i]);
		searching = true;
		while (run_one())
			;
		searching = false;
		for (unsigned i = 0; i < n; i++)
			if (!threads[i].over)
				T_FAIL("thread %u sleeps for ever after %lu orders", i, orders);
		check();
		orders++;
	} while (next_order());
	t_note("%lu orders", orders);
	for (unsigned i = 0; i < n; i++) {
		free(threads[i].stack);
		threads[i].stack = NULL;
	}
}

#endif
