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
	struct config_space space;
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
		assert_int_equal(
			config_space_add(&m->space, CONFIG_SPACE_QUEUE_DEPTH, i + 1, NULL, NULL),
			0);
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
	m->race[0] = (struct tune_race_point){.nr = 9, .shared = 9, .equal = true};
}

/* So many others that were tried: worse at 95 %, equal to the leader, neither. */
static void add(struct made_up *m, unsigned worse, unsigned equal, unsigned open)
{
	struct tune_race_result *r = &m->res.race;

	r->worse = worse;
	r->equals = 1 + equal;
	r->open = open;
	for (unsigned i = 0; i < worse + equal + open; i++)
		m->race[r->tried++] =
			(struct tune_race_point){.nr = 5,
						 .shared = 5,
						 .behind = 0.1,
						 .equal = i >= worse && i < worse + equal};
}

static void assert_verdict(struct made_up *m, const char *text)
{
	json_t *j = tune_json(&m->job, &m->res);

	assert_string_equal(json_string_value(json_object_get(j, "verdict")), text);
	json_decref(j);
	config_space_fini(&m->space);
}

static void a_clear_winner_is_better_than_all(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_CLEAR);
	add(&m, 7, 0, 0);
	assert_verdict(&m, "d1, measured 9 times: nothing that is cheaper is as good, and nothing "
			   "else promises more; 7 others are worse at 95 %");
}

static void those_that_were_compared_are_counted(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_BUDGET);
	add(&m, 3, 0, 2);
	assert_verdict(&m, "d1 is ahead, but the budget ended it before that was certain; "
			   "3 others are worse at 95 %; 2 promised less and were set aside; 2 of 8 "
			   "configurations were not tried");
	made_up_init(&m, TUNE_RACE_BUDGET);
	add(&m, 1, 0, 1);
	m.res.wear_limit_hit = true;
	assert_verdict(
		&m, "d1 is ahead, but what may be written was used up before that was "
		    "certain; 1 other is worse at 95 %; 1 promised less and was set aside; 5 of 8 "
		    "configurations were not tried");
}

static void all_of_the_grid_leaves_nothing_untried(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_ALL);
	add(&m, 3, 0, 4);
	assert_verdict(
		&m, "d1 is ahead; 3 others are worse at 95 %; 4 promised less and were set aside");
}

static void equals_are_not_said_to_be_worse(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_TIED);
	add(&m, 6, 1, 0);
	assert_verdict(&m, "any of these 2 will do, they cannot be told apart: d1, the cheapest of "
			   "the strongest, d8; "
			   "6 others are worse at 95 %");
	made_up_init(&m, TUNE_RACE_BUDGET);
	add(&m, 1, 1, 3);
	assert_verdict(&m, "any of these 2 will do, they cannot be told apart: d1, the cheapest of "
			   "the strongest, d3; "
			   "1 other is worse at 95 %; 3 promised less and were set aside; 2 of 8 "
			   "configurations were not tried");
}

static void the_cheapest_of_many_is_named_first(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_TIED);
	add(&m, 0, 7, 0);
	m.res.race.winner = 2;
	assert_verdict(&m, "any of these 8 will do, they cannot be told apart: d3, the cheapest of "
			   "the strongest, d1, "
			   "d2, d4, d5, and 3 more");
}

/* What six probes leave open is not called nothing. */
static void no_effect_is_claimed_from_few_probes(void **state)
{
	static const struct {
		double noise, df, effect;
		const char *says;
	} cases[] = {
		{INFINITY, 0, 0.3, "mattered:   of the settings 6 probes tell too little\n"},
		{0.3, 4, 0.3, "mattered:   of the settings 6 probes tell too little\n"},
		{0.01, 20, 0.3, "mattered:   queue_depth 35 % between best and worst value\n"},
		{0.01, 20, 0, "mattered:   no setting by more than 1 %\n"},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct made_up m;
		char *text = NULL;
		size_t size;
		FILE *f = open_memstream(&text, &size);

		made_up_init(&m, TUNE_RACE_BUDGET);
		add(&m, 7, 0, 0);
		m.res.race.probes = 6;
		m.res.race.noise = cases[i].noise;
		m.res.race.df = cases[i].df;
		m.effect[0] = cases[i].effect;
		tune_report_text(f, &m.job, &m.res);
		fclose(f);
		if (!strstr(text, cases[i].says))
			fail_msg("%s", text);
		free(text);
		config_space_fini(&m.space);
	}
}

static void one_time_is_not_called_times(void **state)
{
	struct made_up m;

	(void)state;
	made_up_init(&m, TUNE_RACE_CLEAR);
	m.res.race.rounds = m.race[0].nr = 1;
	m.res.race.nr_points = 1;
	assert_verdict(&m,
		       "d1, measured 1 time: nothing that is cheaper is as good, and nothing else "
		       "promises more");
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
	config_space_fini(&m.space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clear_winner_is_better_than_all),
		cmocka_unit_test(those_that_were_compared_are_counted),
		cmocka_unit_test(all_of_the_grid_leaves_nothing_untried),
		cmocka_unit_test(equals_are_not_said_to_be_worse),
		cmocka_unit_test(the_cheapest_of_many_is_named_first),
		cmocka_unit_test(no_effect_is_claimed_from_few_probes),
		cmocka_unit_test(one_time_is_not_called_times),
		cmocka_unit_test(what_a_point_was_compared_with_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
