/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about the winner of a race whose figures are made up. */
#include <math.h>

#include "base/util.h"
#include "common/t.h"
#include "load/report/tune_report.h"
#include "load/run/tune.h"

#define POINTS 8

/* A leader, and others that were behind it in so many rounds by so much, give or take. */
struct made_up {
	struct space space;
	struct tune_job job;
	struct tune_result res;
	struct race_point race[POINTS];
	struct tune_point points[POINTS];
	double effect[POINTS];
};

static void made_up_init(struct made_up *m, enum race_end end)
{
	*m = (struct made_up){.space = {.nr = 0}};
	for (unsigned i = 0; i < POINTS; i++) {
		assert_int_equal(space_add(&m->space, SPACE_QUEUE_DEPTH, i + 1, NULL, NULL), 0);
		snprintf(m->points[i].dir[1].name, sizeof(m->points[i].dir[1].name), "read_d%u",
			 i + 1);
	}
	m->job = (struct tune_job){.space = &m->space, .read = true};
	m->res.points = m->points;
	m->res.race_job = (struct race_job){.nr_axes = 1, .levels = {POINTS}};
	m->res.race = (struct race_result){.nr_points = POINTS,
					   .points = m->race,
					   .tried = 1,
					   .rounds = 9,
					   .equals = 1,
					   .end = end,
					   .effect = {m->effect}};
	m->race[0] = (struct race_point){.nr = 9, .shared = 9};
}

static void add(struct made_up *m, unsigned shared, double behind, double half)
{
	m->race[m->res.race.tried++] = (struct race_point){
		.nr = shared, .shared = shared, .behind = behind, .behind_half = half};
}

static void assert_verdict(struct made_up *m, const char *text)
{
	json_t *j = tune_json(&m->job, &m->res);

	assert_string_equal(json_string_value(json_object_get(j, "verdict")), text);
	json_decref(j);
	space_fini(&m->space);
}

static void those_that_were_compared_are_counted(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, RACE_CLEAR);
	add(&m, 3, 0.1, 0.05);
	add(&m, 5, 0.1, 0.09);
	add(&m, 5, 0.1, 0.2); /* not certain */
	add(&m, 2, 0.5, 0.1); /* too few rounds for that interval */
	add(&m, 1, 0.5, INFINITY);
	assert_verdict(
		&m,
		"d1 is the only one left after 9 rounds, measured 9 times; better than 2 others at "
		"95 %; 3 were dropped after a first look; 2 of 8 configurations were not tried");
	made_up_init(&m, RACE_CLEAR);
	add(&m, 4, 0.1, 0.01);
	assert_verdict(&m, "d1 is the only one left after 9 rounds, measured 9 times; better than "
			   "1 other at 95 %; 6 of 8 configurations were "
			   "not tried");
}

static void nothing_is_dropped_where_the_budget_ended_it(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, RACE_BUDGET);
	add(&m, 4, 0.1, 0.01);
	add(&m, 4, 0.1, 0.2);
	assert_verdict(&m, "d1 is ahead, but time or wear ended it before that was certain; better "
			   "than 1 other "
			   "at 95 %; 5 of 8 configurations were not tried");
}

static void all_of_the_grid_leaves_nothing_untried(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, RACE_ALL);
	for (unsigned i = 1; i < POINTS; i++)
		add(&m, 5, 0.1, i < 4 ? 0.01 : 0.2);
	assert_verdict(&m, "d1 is ahead; better than 3 others at 95 %");
}

static void equals_are_not_said_to_be_worse(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, RACE_TIED);
	add(&m, 5, 0.005, 0.001);
	m.res.race.equals = 2;
	assert_verdict(&m, "2 configurations cannot be told apart; d1 is the cheapest of them, and "
			   "ahead; 6 of "
			   "8 configurations were not tried");
}

static void a_winner_that_does_not_lead_is_only_said_to_be_cheaper(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, RACE_TIED);
	add(&m, 5, -0.016, 0.03); /* ahead of the leader in their common rounds */
	m.res.race.equals = 2;
	m.res.race.winner = 1;
	assert_verdict(&m, "2 configurations cannot be told apart; d2 cannot be told from d1, the "
			   "leader, and is the cheapest of them; 6 of 8 configurations were not "
			   "tried");
}

static void one_round_is_not_called_rounds(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, RACE_CLEAR);
	m.res.race.rounds = m.race[0].nr = 1;
	m.res.race.tried = POINTS;
	assert_verdict(&m, "d1 is the only one left after 1 round, measured 1 time; 7 were dropped "
			   "after a first look");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_were_compared_are_counted),
		cmocka_unit_test(nothing_is_dropped_where_the_budget_ended_it),
		cmocka_unit_test(all_of_the_grid_leaves_nothing_untried),
		cmocka_unit_test(equals_are_not_said_to_be_worse),
		cmocka_unit_test(a_winner_that_does_not_lead_is_only_said_to_be_cheaper),
		cmocka_unit_test(one_round_is_not_called_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
