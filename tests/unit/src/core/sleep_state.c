/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing over without locks, in every order there is.  The functions of core/sleep_state.h are run
 * as they are, by coroutines that may change at every access to shared memory; the test goes
 * through all sequences of changes of two threads, and through all with up to four
 * interruptions of three.  A wake-up that is lost shows as a state in which nobody can
 * go on; an operation that is lost or taken twice shows in the counts.
 */
#include "tests/unit/src/core/orders.h"

#include "core/sleep_state.h"

enum { ITEMS = 3, GIVEN = 2, ANY = ORDERS_STEPS };

/* --------------------------------------------------------- to a queue */

static struct inbox inbox;
static struct mpsc_item items[ITEMS];
static unsigned taken[ITEMS], nr_taken;
static bool woken; /* the engine, or the sleeper on the state */
static enum sleep_state sleeps_as;
static bool stuck; /* the I/O thread is in a callback that waits for all to be taken */

static void inbox_setup(void)
{
	memset(&inbox, 0, sizeof(inbox));
	memset(items, 0, sizeof(items));
	memset(taken, 0, sizeof(taken));
	nr_taken = 0;
	woken = false;
}

static void take_all(void)
{
	const struct mpsc_item *item = mpsc_stack_take(&inbox.stack, false), *next;

	for (; item; item = next) {
		next = item->next;
		taken[item - items]++;
		nr_taken++;
	}
}

static bool is_asleep(void *arg)
{
	(void)arg;
	return !woken;
}

/* As in io_thread.c: look, announce, look again, sleep. */
static void io_thread(void)
{
	for (;;) {
		take_all();
		if (nr_taken == GIVEN)
			break;
		if (inbox_announce(&inbox, sleeps_as)) {
			/* Looking at the state and sleeping is one, under a lock; an engine
			 * remembers. */
			if (sleeps_as != THREAD_IDLE || inbox_state(&inbox) == THREAD_IDLE)
				block_while(is_asleep, NULL);
			woken = false;
		}
		inbox_resume(&inbox);
	}
}

static void give(unsigned i)
{
	enum sleep_state state;

	mpsc_stack_push(&inbox.stack, &items[i], &items[i]);
	state = inbox_claim_wake(&inbox);
	if (state == THREAD_IDLE || state == THREAD_REAPING)
		woken = true;
	else if (state == THREAD_BUSY && stuck)
		take_all();
}

static void give_first(void)
{
	give(0);
}

static void give_second(void)
{
	give(1);
}

static void give_both(void)
{
	give(0);
	give(1);
}

static void all_taken_once(void)
{
	for (unsigned i = 0; i < GIVEN; i++)
		T_EQ(taken[i], 1);
	T_EQ(nr_taken, GIVEN);
}

static void a_sleeping_queue_gets_everything_it_is_given(void)
{
	static const enum sleep_state ways[] = {THREAD_REAPING, THREAD_IDLE};

	stuck = false;
	bodies[0] = io_thread;
	for (unsigned i = 0; i < T_COUNT(ways); i++) {
		sleeps_as = ways[i];
		bodies[1] = give_both;
		in_all_orders(2, ANY, inbox_setup, all_taken_once);
		bodies[1] = give_first;
		bodies[2] = give_second;
		in_all_orders(3, 4, inbox_setup, all_taken_once);
	}
}

static bool not_all_taken(void *arg)
{
	(void)arg;
	return nr_taken < GIVEN;
}

/* In a callback that does not return before all is done. */
static void busy_thread(void)
{
	take_all();
	if (!inbox_announce(&inbox, THREAD_BUSY))
		take_all(); /* queue_share(), before it sleeps without room */
	block_while(not_all_taken, NULL);
	inbox_resume(&inbox);
	take_all();
}

static void what_lies_before_a_stuck_queue_is_taken_once_by_somebody(void)
{
	stuck = true;
	bodies[0] = busy_thread;
	bodies[1] = give_both;
	in_all_orders(2, ANY, inbox_setup, all_taken_once);
	bodies[1] = give_first;
	bodies[2] = give_second;
	in_all_orders(3, 4, inbox_setup, all_taken_once);
}

/* ------------------------------------------------------------ to a submitter */

static struct mpsc_stack results_in;
static atomic_uint sleepers;
static bool locked, signalled;
static unsigned nr_back;

static void submitter_setup(void)
{
	inbox_setup();
	memset(&results_in, 0, sizeof(results_in));
	atomic_store(&sleepers, 0);
	locked = signalled = false;
	nr_back = 0;
}

static bool is_locked(void *arg)
{
	(void)arg;
	return locked;
}

static void lock(void)
{
	step();
	if (locked)
		block_while(is_locked, NULL);
	locked = true;
}

static void drain(void)
{
	const struct mpsc_item *item = mpsc_stack_take(&results_in, false), *next;

	for (; item; item = next) {
		next = item->next;
		taken[item - items]++;
		nr_back++;
	}
}

static void give_back(unsigned i)
{
	if (!push_and_see_sleepers(&results_in, &sleepers, &items[i], &items[i]))
		return;
	lock();
	drain();
	signalled = true;
	locked = false;
}

static void return_first(void)
{
	give_back(0);
}

static void return_second(void)
{
	give_back(1);
}

static void return_both(void)
{
	give_back(0);
	give_back(1);
}

static bool sleeps_on(void *arg)
{
	(void)arg;
	return !signalled || locked;
}

/* As in wait.c. */
static void waiting_thread(void)
{
	lock();
	drain();
	if (nr_back < GIVEN) {
		sleepers_add(&sleepers);
		drain();
		while (nr_back < GIVEN) {
			signalled = false;
			locked = false;
			block_while(sleeps_on, NULL);
			locked = true;
			drain();
		}
		atomic_fetch_sub(&sleepers, 1);
	}
	locked = false;
}

static void all_back_once(void)
{
	for (unsigned i = 0; i < GIVEN; i++)
		T_EQ(taken[i], 1);
}

static void who_waits_is_told_of_every_result(void)
{
	bodies[0] = waiting_thread;
	bodies[1] = return_both;
	in_all_orders(2, ANY, submitter_setup, all_back_once);
	bodies[1] = return_first;
	bodies[2] = return_second;
	in_all_orders(3, 4, submitter_setup, all_back_once);
}

/* ------------------------------------------------------------- the stack */

static const struct mpsc_item *order;

static void add_and_take(void)
{
	items[1].next = &items[0];
	mpsc_stack_push(&inbox.stack, &items[1], &items[0]);
	mpsc_stack_push(&inbox.stack, &items[2], &items[2]);
	order = mpsc_stack_take(&inbox.stack, false);
}

static void oldest_first(void)
{
	T_OK(order == &items[0] && order->next == &items[1] && order->next->next == &items[2]);
	T_OK(!items[2].next);
}

static void a_stack_is_taken_oldest_first(void)
{
	bodies[0] = add_and_take;
	in_all_orders(1, ANY, inbox_setup, oldest_first);
}

static const struct t_case cases[] = {
	T_CASE(a_stack_is_taken_oldest_first),
	T_CASE(a_sleeping_queue_gets_everything_it_is_given),
	T_CASE(what_lies_before_a_stuck_queue_is_taken_once_by_somebody),
	T_CASE(who_waits_is_told_of_every_result),
};

int main(void)
{
	const struct t_group group = {"sleep_state", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
