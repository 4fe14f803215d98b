/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about the winner of a race whose figures are made up. */
#include <math.h>

#include "base/util.h"
#include "common/t.h"
#include "load/jobs/tune.h"
#include "load/report/jobs/tune_report.h"

#define POINTS 8

/* A leader, and others that stand to it as the test says. */
struct made_up {
	struct space space;
	struct tune_job job;
	struct tune_result res;
	struct tune_race_point race[POINTS];
	struct tune_point points[POINTS];
	double effect[POINTS];
};

static void made_up_init(struct made_up *m, enum tune_race_end end)
{
	*m = (struct made_up){.space = {.nr = 0}};
	for (unsigned i = 0; i < POINTS; i++) {
		assert_int_equal(space_add(&m->space, SPACE_QUEUE_DEPTH, i + 1, NULL, NULL), 0);
		snprintf(m->points[i].dir[1].name, sizeof(m->points[i].dir[1].name), "read_d%u",
			 i + 1);
	}
	m->job = (struct tune_job){.space = &m->space, .read = true};
	m->res.points = m->points;
	m->res.race_job = (struct tune_race_job){.nr_axes = 1, .levels = {POINTS}};
	m->res.race = (struct tune_race_result){.nr_points = POINTS,
					   .points = m->race,
					   .tried = 1,
					   .rounds = 9,
					   .equals = 1,
					   .end = end,
					   .effect = {m->effect}};
	m->race[0] = (struct tune_race_point){.nr = 9, .shared = 9};
}

/* So many others that were tried: worse at 95 %, equal to the leader, neither. */
static void add(struct made_up *m, unsigned worse, unsigned equal, unsigned open)
{
	struct tune_race_result *r = &m->res.race;

	r->worse = worse;
	r->equals = 1 + equal;
	r->open = open;
	for (unsigned i = 0; i < worse + equal + open; i++)
		m->race[r->tried++] = (struct tune_race_point){.nr = 5, .shared = 5, .behind = 0.1};
}

static void assert_verdict(struct made_up *m, const char *text)
{
	json_t *j = tune_json(&m->job, &m->res);

	assert_string_equal(json_string_value(json_object_get(j, "verdict")), text);
	json_decref(j);
	space_fini(&m->space);
}

static void a_clear_winner_is_better_than_all(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_CLEAR);
	add(&m, 7, 0, 0);
	assert_verdict(&m, "d1 is the only one left after 9 rounds, measured 9 times; better than "
			   "7 others at 95 %");
}

static void those_that_were_compared_are_counted(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_BUDGET);
	add(&m, 3, 0, 2);
	assert_verdict(&m, "d1 is ahead, but the budget ended it before that was certain; better "
			   "than 3 others at 95 %; 2 are undecided; 2 of 8 "
			   "configurations were not tried");
	made_up_init(&m, TUNE_RACE_BUDGET);
	add(&m, 1, 0, 1);
	m.res.worn = true;
	assert_verdict(&m, "d1 is ahead, but what may be written was used up before that was "
			   "certain; better than 1 other at 95 %; 1 is undecided; 5 of 8 "
			   "configurations were not tried");
}

static void all_of_the_grid_leaves_nothing_untried(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_ALL);
	add(&m, 3, 0, 4);
	assert_verdict(&m, "d1 is ahead; better than 3 others at 95 %; 4 are undecided");
}

static void equals_are_not_said_to_be_worse(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_TIED);
	add(&m, 6, 1, 0);
	assert_verdict(&m, "2 configurations cannot be told apart; d1 is the cheapest of them, and "
			   "ahead; 6 others are worse at 95 %");
	made_up_init(&m, TUNE_RACE_BUDGET);
	add(&m, 1, 1, 3);
	assert_verdict(&m, "2 configurations cannot be told apart; d1 is the cheapest of them, and "
			   "ahead; 1 other is worse at 95 %; 3 are undecided; 2 "
			   "of 8 configurations were not tried");
}

static void a_winner_that_does_not_lead_is_only_said_to_be_cheaper(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_TIED);
	add(&m, 0, 1, 0);
	m.res.race.winner = 1;
	assert_verdict(&m, "2 configurations cannot be told apart; d2 cannot be told from d1, the "
			   "leader, and is the cheapest of them; 6 of 8 configurations were not "
			   "tried");
}

static void one_round_is_not_called_rounds(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_CLEAR);
	m.res.race.rounds = m.race[0].nr = 1;
	m.res.race.nr_points = 1;
	assert_verdict(&m, "d1 is the only one left after 1 round, measured 1 time");
}

/* Of one that was dropped the comparison is the one with which it was. */
static void what_a_point_was_compared_with_is_named(void **state)
{
	struct made_up m;
	json_t *j, *c;

	(void)state;
	made_up_init(&m, TUNE_RACE_BUDGET);
	add(&m, 1, 0, 1);
	m.race[1].against = 2;
	m.race[1].behind_half = 0.05;
	j = tune_json(&m.job, &m.res);
	assert_int_equal(json_integer_value(json_object_get(j, "worse")), 1);
	assert_int_equal(json_integer_value(json_object_get(j, "undecided")), 1);
	c = json_object_get(j, "contenders");
	assert_true(json_is_null(json_object_get(json_array_get(c, 0), "against")));
	assert_string_equal(json_string_value(json_object_get(json_array_get(c, 1), "against")),
			    "d3");
	json_decref(j);
	space_fini(&m.space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clear_winner_is_better_than_all),
		cmocka_unit_test(those_that_were_compared_are_counted),
		cmocka_unit_test(all_of_the_grid_leaves_nothing_untried),
		cmocka_unit_test(equals_are_not_said_to_be_worse),
		cmocka_unit_test(a_winner_that_does_not_lead_is_only_said_to_be_cheaper),
		cmocka_unit_test(one_round_is_not_called_rounds),
		cmocka_unit_test(what_a_point_was_compared_with_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
