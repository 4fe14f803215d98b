/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for operations, or cancels them, while they are finished: in every order there is, see
 * waits.h.
 */
#include "tests/unit/src/core/waits.h"

static struct penstock_done got[ORDERS_THREADS][OPS];
static int cancelled;

static void finish(unsigned i)
{
	ops[i]->next = NULL;
	ops_finish(io, queue, ops[i]);
}

static void ask(unsigned min, unsigned max)
{
	nr_got[current] = penstock_wait_any(io, got[current], min, max, -1);
}

/* ----------------------------------------------------------------- cases */

static void ask_for_one(void)
{
	ask(1, 1);
}

static void ask_for_two(void)
{
	ask(2, 2);
}

static void ask_for_all(void)
{
	ask(OPS, OPS);
}

static void finish_all(void)
{
	for (unsigned i = 0; i < OPS; i++)
		finish(i);
}

/* Every result went to one of them. */
static void check_once(int want)
{
	unsigned seen[OPS] = {0};
	int n = 0;

	for (unsigned i = 0; i < ORDERS_THREADS; i++)
		for (int k = 0; k < nr_got[i]; k++, n++)
			T_EQ(seen[got[i][k].tag]++, 0);
	T_EQ(n, want);
}

static void all_three_once(void)
{
	check_once(OPS);
}

static void who_asks_is_told_when_there_are_enough(void)
{
	owner[0] = owner[2] = 0;
	owner[1] = 1;
	bodies[0] = ask_for_all;
	bodies[1] = finish_all;
	in_all_orders(2, MORE, setup, all_three_once);
	bodies[0] = ask_for_two;
	bodies[1] = ask_for_one;
	bodies[2] = finish_all;
	in_all_orders(3, FEW, setup, all_three_once);
}

static bool nobody_has_one(void *arg)
{
	(void)arg;
	return nr_got[1] < 1;
}

static void finish_one_at_a_time(void)
{
	finish(0);
	block_while(nobody_has_one, NULL);
	finish(1);
	finish(2);
}

static void who_asks_for_two_does_not_keep_the_first_from_others(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = ask_for_two;
	bodies[1] = ask_for_one;
	bodies[2] = finish_one_at_a_time;
	in_all_orders(3, FEW, setup, all_three_once);
}

/* Two at once, and without waiting for them: who waits for two may have been told already. */
static void finish_and_take_one(void)
{
	ops[0]->next = ops[1];
	ops[1]->next = NULL;
	ops_finish(io, queue, ops[0]);
	nr_got[current] = penstock_wait_any(io, got[current], 1, 1, 0);
	if (nr_got[current])
		block_while(nobody_has_one, NULL);
	finish(2);
}

static void who_is_told_too_late_leaves_the_rest_to_others(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = ask_for_two;
	bodies[1] = ask_for_one;
	bodies[2] = finish_and_take_one;
	in_all_orders(3, FEW, setup, all_three_once);
}

static void ask_for_too_many(void)
{
	static struct penstock_done capacity[OPS + 1];

	nr_got[current] = penstock_wait_any(io, capacity, OPS + 1, OPS + 1, -1);
	memcpy(got[current], capacity, OPS * sizeof(*capacity));
}

static void who_asks_for_more_than_there_will_be_is_not_left_waiting(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = ask_for_too_many;
	bodies[1] = finish_all;
	in_all_orders(2, MORE, setup, all_three_once);
}

static void wait_for_the_first(void)
{
	T_EQ(penstock_wait(io, tickets[0], -1, &got[current][0]), 0);
	T_EQ(got[current][0].tag, 0);
	nr_got[current] = 1;
}

static bool nobody_waits(void *arg)
{
	(void)arg;
	return !ops[0]->waiters && !nr_got[0];
}

static void finish_what_is_waited_for(void)
{
	block_while(nobody_waits, NULL);
	finish_all();
}

static void ask_beside_a_wait(void)
{
	block_while(nobody_waits, NULL);
	ask(2, OPS);
}

static void a_result_that_is_waited_for_by_ticket_is_not_for_others(void)
{
	owner[0] = owner[1] = owner[2] = 0;
	bodies[0] = wait_for_the_first;
	bodies[1] = ask_beside_a_wait;
	bodies[2] = finish_what_is_waited_for;
	in_all_orders(3, FEW, setup, all_three_once);
}

static void finish_of_others(void)
{
	finish(1);
	finish(2);
}

static bool others_are_not_finished(void *arg)
{
	(void)arg;
	return atomic_load_explicit(&queue->results, memory_order_relaxed) < 2;
}

/* Each way that a thread with an operation of its own under way comes by those of others. */
static void ask_while_others_finish(void)
{
	struct penstock_done own[OPS];

	for (unsigned i = 0; i < 2; i++) {
		thread_cache_get(io)->scanned_at = 0;
		T_EQ(penstock_wait_any(io, own, i, OPS, 0), 0);
	}
	block_while(others_are_not_finished, NULL);
	time_ns += SCAN_NS - 1;
	T_EQ(penstock_wait_any(io, own, 1, OPS, 0), 0);
	finish(0);
	thread_cache_get(io)->scanned_at = 0;
	thread_cache_get(io)->nr_collects = SCAN_EVERY - 1;
	T_EQ(penstock_wait_any(io, own, 1, OPS, -1), 1);
	T_EQ(own[0].tag, 0);
	time_ns += SCAN_NS;
	ask(0, OPS);
}

static void setup_time(void)
{
	setup();
	time_ns = 10 * SCAN_NS;
}

static void two_of_others(void)
{
	check_once(2);
}

static void what_others_may_be_about_to_collect_is_left_to_them_for_a_while(void)
{
	owner[0] = 0;
	owner[1] = owner[2] = 1;
	bodies[0] = ask_while_others_finish;
	bodies[1] = finish_of_others;
	in_all_orders(2, FEW, setup_time, two_of_others);
	time_ns = 0;
}

static void cancel_the_last(void)
{
	cancelled = penstock_cancel(io, tickets[OPS - 1]);
}

static void finish_two(void)
{
	finish(0);
	finish(1);
}

static void wait_for_all(void)
{
	struct penstock_summary sum;

	T_EQ(penstock_wait_all(io, -1, &sum), 0);
	T_EQ(sum.ops, OPS);
	T_EQ(sum.failed, 1);
}

static void it_was_cancelled(void)
{
	T_EQ(cancelled, 0);
	T_OK(submitters_quiet(io));
}

static void all_is_over_when_the_last_is_cancelled(void)
{
	owner[0] = owner[2] = 1;
	owner[1] = 0;
	pending = true;
	bodies[0] = wait_for_all;
	bodies[1] = cancel_the_last;
	bodies[2] = finish_two;
	in_all_orders(3, FEW, setup, it_was_cancelled);
	pending = false;
}

static const struct t_case cases[] = {
	T_CASE(who_asks_is_told_when_there_are_enough),
	T_CASE(who_asks_for_two_does_not_keep_the_first_from_others),
	T_CASE(who_is_told_too_late_leaves_the_rest_to_others),
	T_CASE(who_asks_for_more_than_there_will_be_is_not_left_waiting),
	T_CASE(a_result_that_is_waited_for_by_ticket_is_not_for_others),
	T_CASE(what_others_may_be_about_to_collect_is_left_to_them_for_a_while),
	T_CASE(all_is_over_when_the_last_is_cancelled),
};

int main(void)
{
	const struct t_group group = {"waits", NULL, NULL, cases, T_COUNT(cases)};
	int r = t_run(&group, 1, NULL);

	teardown();
	return r;
}
