/* SPDX-License-Identifier: Apache-2.0 */
/* When rows are due and how far a replay is behind, by a clock of the test's own. */
#include "load/replay/replay_pace.h"

#include "tests/common/t.h"

#define SEC 1000000000ull
#define MS  1000000ull

static void rows_are_due_as_far_apart_as_they_were_recorded(void)
{
	struct replay_pace p = {.factor = 1};

	T_EQ(replay_due(&p, 1735689600 * SEC), 0);
	T_EQ(replay_due(&p, 1735689600 * SEC + 250 * MS), 250 * MS);
	T_EQ(replay_due(&p, 1735689602 * SEC), 2 * SEC);
}

static void a_factor_makes_it_faster_or_slower(void)
{
	struct replay_pace fast = {.factor = 4}, slow = {.factor = 0.5};

	replay_due(&fast, 5 * SEC);
	replay_due(&slow, 5 * SEC);
	T_EQ(replay_due(&fast, 7 * SEC), SEC / 2);
	T_EQ(replay_due(&slow, 7 * SEC), 4 * SEC);
}

static void flat_out_everything_is_due_at_once(void)
{
	struct replay_pace p = {.factor = 0};

	T_EQ(replay_due(&p, 5 * SEC), 0);
	T_EQ(replay_due(&p, 50 * SEC), 0);
}

static void a_row_that_steps_back_is_due_with_the_one_before(void)
{
	struct replay_pace p = {.factor = 1};

	replay_due(&p, 10 * SEC);
	T_EQ(replay_due(&p, 12 * SEC), 2 * SEC);
	T_EQ(replay_due(&p, 9 * SEC), 2 * SEC);
	T_EQ(replay_due(&p, 11 * SEC), 2 * SEC);
	T_EQ(replay_due(&p, 13 * SEC), 3 * SEC);
	T_EQ(p.out_of_order, 2);
	T_EQ(p.max_back_ns, 3 * SEC);
}

static void steady_lag_is_no_overload(void)
{
	struct replay_lag l = {0};

	for (uint64_t i = 0; i < 1000; i++)
		replay_lag_add(&l, i * 10 * MS, 200 * MS);
	T_OK(replay_lag_slope(&l) < 1e-6 && replay_lag_slope(&l) > -1e-6);
	T_OK(!replay_overloaded(&l));
	T_OK(l.max > 0.199 && l.max < 0.201);
}

static void growing_lag_is_overload(void)
{
	struct replay_lag l = {0};

	for (uint64_t i = 0; i < 1000; i++) /* it takes 1.25 s for a second */
		replay_lag_add(&l, i * 10 * MS, i * 2500000);
	T_OK(replay_lag_slope(&l) > 0.2499 && replay_lag_slope(&l) < 0.2501);
	T_OK(replay_overloaded(&l));
}

static void a_stall_that_was_made_up_for_is_no_overload(void)
{
	struct replay_lag l = {0};

	for (uint64_t i = 0; i < 1000; i++)
		replay_lag_add(&l, i * 10 * MS, i >= 400 && i < 500 ? 900 * MS : 0);
	T_OK(!replay_overloaded(&l));
	T_OK(l.last < 1e-9);
}

static void a_schedule_of_less_than_a_second_is_not_made_longer(void)
{
	struct replay_lag l = {0};

	for (uint64_t i = 0; i < 100; i++) /* interrupted after a millisecond of it, 3.6 s late */
		replay_lag_add(&l, SEC + i * MS / 100, i * 36 * MS);
	T_OK(replay_lag_slope(&l) > 3.5 && replay_lag_slope(&l) < 3.7);
	T_OK(replay_overloaded(&l));
}

static void rows_of_one_moment_have_no_slope(void)
{
	struct replay_lag l = {0};

	for (uint64_t i = 0; i < 100; i++)
		replay_lag_add(&l, SEC, i * SEC);
	T_OK(replay_lag_slope(&l) == 0);
	T_OK(!replay_overloaded(&l));
}

static const struct t_case cases[] = {
	T_CASE(rows_are_due_as_far_apart_as_they_were_recorded),
	T_CASE(a_factor_makes_it_faster_or_slower),
	T_CASE(flat_out_everything_is_due_at_once),
	T_CASE(a_row_that_steps_back_is_due_with_the_one_before),
	T_CASE(steady_lag_is_no_overload),
	T_CASE(growing_lag_is_overload),
	T_CASE(a_stall_that_was_made_up_for_is_no_overload),
	T_CASE(a_schedule_of_less_than_a_second_is_not_made_longer),
	T_CASE(rows_of_one_moment_have_no_slope),
};

int main(void)
{
	static const struct t_group group = {"replay_pace", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
