/* SPDX-License-Identifier: Apache-2.0 */
/* The rule of core/sleep_state.h on this processor, or on what passes for it: two threads meet,
 * many times. */
#include <pthread.h>
#include <sched.h>

#include "core/sleep_state.h"
#include "tests/common/t.h"

enum { ROUNDS = 100000 };

static struct inbox inbox;
static atomic_uint begun, ended;
static bool sleeps; /* the taker found nothing */

static void wait_for(atomic_uint *count, unsigned n)
{
	for (unsigned i = 1; atomic_load(count) != n; i++)
		if (i % 1000 == 0) /* there may be one processor */
			sched_yield();
}

static void *take(void *arg)
{
	for (unsigned i = 1; i <= ROUNDS; i++) {
		wait_for(&begun, i);
		sleeps = inbox_announce(&inbox, THREAD_IDLE);
		atomic_store(&ended, i);
	}
	return arg;
}

static void who_gives_or_who_takes_sees_the_other(void)
{
	struct mpsc_item item;
	unsigned missed = 0;
	pthread_t t;
	bool wakes;

	T_EQ(pthread_create(&t, NULL, take, NULL), 0);
	for (unsigned i = 1; i <= ROUNDS; i++) {
		inbox_resume(&inbox);
		mpsc_stack_take(&inbox.stack, false);
		atomic_store(&begun, i);
		mpsc_stack_push(&inbox.stack, &item, &item);
		wakes = inbox_claim_wake(&inbox) == THREAD_IDLE;
		wait_for(&ended, i);
		missed += sleeps && !wakes;
	}
	pthread_join(t, NULL);
	T_EQ(missed, 0);
}

int main(void)
{
	static const struct t_case cases[] = {T_CASE(who_gives_or_who_takes_sees_the_other)};
	static const struct t_group groups[] = {
		{"sleep_state_threads", NULL, NULL, cases, T_COUNT(cases)}};

	return t_run(groups, T_COUNT(groups), NULL);
}
