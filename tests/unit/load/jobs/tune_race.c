/* SPDX-License-Identifier: Apache-2.0 */
/* The race on devices that are made up, whose best point is known. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/util.h"
#include "common/t.h"
#include "load/jobs/tune_race.h"

/* A device: the true score of a point, noise, a drift with time, and what was spent. */
struct device {
	struct tune_race_job job;
	struct penstock_random random;
	double effect[TUNE_RACE_AXES][8];
	double interaction; /* of the first two axes */
	double noise, drift;
	double stalls; /* share of the probes that are far too slow */
	double spent;
	unsigned fail_at; /* the probe that fails, from 1 on */
	unsigned probes;
};

static double uniform(struct penstock_random *r)
{
	return (double)(penstock_random_next(r) >> 11) / (double)(1ull << 53);
}

/* Irwin-Hall: near enough to normal. */
static double gauss(struct penstock_random *r)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += uniform(r);
	return sum - 6;
}

static double truth(const struct device *d, unsigned point)
{
	double score = 0;

	for (unsigned a = 0; a < d->job.nr_axes; a++)
		score += d->effect[a][tune_race_level(&d->job, point, a)];
	if (d->job.nr_axes > 1)
		score +=
			d->interaction *
			((tune_race_level(&d->job, point, 0) + tune_race_level(&d->job, point, 1)) %
			 2);
	return score;
}

static int probe(void *arg, unsigned point, double *ret, struct penstock_err *err)
{
	struct device *d = arg;

	(void)err;
	if (++d->probes == d->fail_at)
		return -EIO;
	d->spent += exp(-truth(d, point)); /* what is slow takes longer */
	*ret = truth(d, point) + d->noise * gauss(&d->random) - d->drift * d->spent;
	if (d->stalls > 0 && uniform(&d->random) < d->stalls)
		*ret -= 1;
	return 0;
}

/* The lower the numbers of its levels, the cheaper. */
static double cost(void *arg, unsigned point)
{
	struct device *d = arg;
	double sum = 0;

	for (unsigned a = 0; a < d->job.nr_axes; a++)
		sum = 8 * sum + tune_race_level(&d->job, point, a);
	return sum;
}

/* Threads first, then memory in flight, then what is not the default. */
static double disk_cost(void *arg, unsigned point)
{
	struct device *d = arg;
	unsigned l[5];

	for (unsigned a = 0; a < 5; a++)
		l[a] = tune_race_level(&d->job, point, a);
	return 1000 * (1u << l[4]) + 8 * (l[0] ? 8 : 1) * (l[1] ? 4 : 1) + l[3] + 0.5 * !l[2];
}

static double spent(void *arg)
{
	return ((struct device *)arg)->spent;
}

/* As large as the grid of ds_nvme_tune, with a few more values. */
static void device_init(struct device *d, uint64_t seed)
{
	static const unsigned levels[] = {3, 3, 2, 2, 4};

	*d = (struct device){.noise = 0.02};
	penstock_random_seed(&d->random, seed);
	d->job = (struct tune_race_job){.nr_axes = 5,
					.probe = probe,
					.cost = cost,
					.spent = spent,
					.arg = d,
					.budget = INFINITY,
					.tie = 0.01,
					.loops = 5,
					.seed = seed};
	for (unsigned a = 0; a < 5; a++) {
		d->job.levels[a] = levels[a];
		for (unsigned l = 0; l < levels[a]; l++)
			d->effect[a][l] = -0.4 * uniform(&d->random);
	}
	d->interaction = 0.1 * (uniform(&d->random) - 0.5);
}

static double best_of(const struct device *d, unsigned nr)
{
	double best = -INFINITY;

	for (unsigned i = 0; i < nr; i++)
		best = fmax(best, truth(d, i));
	return best;
}

/* The promise: at least 0.97 of the best, in at most a fifth of the time of the whole grid. */
static void the_race_finds_what_the_whole_grid_would(void **state)
{
	unsigned missed = 0, late = 0, runs = T_FEWER(200);
	double worst = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= runs; seed++) {
		struct tune_race_result res;
		struct device d, all;
		double lost;

		device_init(&all, seed);
		all.job.exhaustive = true;
		assert_int_equal(tune_race_run(&all.job, &res, NULL), 0);
		assert_int_equal(res.probes, 5 * res.nr_points);
		tune_race_fini(&res);

		device_init(&d, seed);
		d.job.budget = all.spent / 5;
		assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
		lost = best_of(&d, res.nr_points) - truth(&d, res.winner);
		missed += lost > -log(0.97);
		worst = fmax(worst, lost);
		late += d.spent > all.spent / 5 * 1.02;
		tune_race_fini(&res);
	}
	print_message("# missed by more than 3 %%: %u of %u, worst by %.1f %%\n", missed, runs,
		      100 * worst);
	assert_true(missed <= runs / 50);
	assert_int_equal(late, 0);
}

/* Every point that was dropped is behind by more than its interval, and so is nobody else. */
static void assert_evidence(const struct device *d, const struct tune_race_result *res)
{
	unsigned dropped = 0;

	for (unsigned i = 0; i < res->nr_points; i++) {
		const struct tune_race_point *p = &res->points[i];

		assert_int_equal(p->left, !p->dropped);
		if (p->left)
			continue;
		dropped++;
		assert_true(p->nr >= TUNE_RACE_MIN_SHARED && p->shared >= TUNE_RACE_MIN_SHARED &&
			    p->against != i);
		assert_true(p->behind > d->job.tie && p->behind > p->behind_half);
	}
	assert_int_equal(res->worse, dropped);
	assert_int_equal(res->equals + res->worse + res->open, res->tried);
	assert_int_equal(res->equals == 1,
			 res->end == TUNE_RACE_CLEAR ||
				 (res->end != TUNE_RACE_TIED && res->equals == 1));
	assert_true(res->points[res->winner].equal && res->points[res->leader].equal);
}

/* Left alone it ends by itself, before everything was measured as often as a walk would. */
static void it_ends_when_the_winner_is_clear(void **state)
{
	struct tune_race_result res;
	struct device d;
	double margin;

	(void)state;
	device_init(&d, 7);
	d.effect[1][2] = 0.5; /* one value is far better than the others */
	d.effect[4][3] = 0.5;
	assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
	assert_true(res.end == TUNE_RACE_CLEAR || res.end == TUNE_RACE_TIED);
	assert_evidence(&d, &res);
	assert_true(res.probes < 2 * res.nr_points);
	assert_int_equal(tune_race_level(&d.job, res.winner, 1), 2);
	assert_int_equal(tune_race_level(&d.job, res.winner, 4), 3);
	assert_true(tune_race_importance(&d.job, &res, 1, &margin) > 0.4);
	assert_true(margin < 0.4);
	tune_race_fini(&res);
}

/* What is said to be clear or tied is, and what is not said to be so was not for want of time. */
static void what_is_said_to_be_clear_is_right(void **state)
{
	static const double noises[] = {0.003, 0.02, 0.05, 0.3};
	unsigned ended[ARRAY_SIZE(noises)] = {0}, wrong = 0, runs = T_FEWER(30);

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(noises) * runs; i++) {
		unsigned k = i % ARRAY_SIZE(noises);
		struct tune_race_result res;
		struct device d;

		device_init(&d, i);
		d.noise = noises[k];
		d.job.budget = 2000;
		assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
		assert_evidence(&d, &res);
		if (res.end == TUNE_RACE_BUDGET)
			assert_true(d.spent >= d.job.budget);
		else
			ended[k]++;
		wrong += res.end != TUNE_RACE_BUDGET &&
			 best_of(&d, res.nr_points) - truth(&d, res.winner) > 2 * d.job.tie;
		tune_race_fini(&res);
	}
	print_message(
		"# clear or tied at noise of 0.3 %%: %u of %u, 2 %%: %u, 5 %%: %u, 30 %%: %u; "
		"wrong: %u\n",
		ended[0], runs, ended[1], ended[2], ended[3], wrong);
	assert_int_equal(ended[0], runs);
	assert_true(wrong <= 2);
}

/* What was seen: p99 of few operations, so noisy that nobody is better for sure. */
static void nobody_is_clear_where_all_are_equal(void **state)
{
	static const double noises[] = {0.003, 0.05, 1};

	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct tune_race_result res;
		struct device d;

		device_init(&d, seed);
		memset(d.effect, 0, sizeof(d.effect));
		d.interaction = 0;
		d.noise = noises[seed % ARRAY_SIZE(noises)];
		d.job.budget = 600;
		assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
		assert_true(res.end != TUNE_RACE_CLEAR || res.winner == 0); /* the cheapest */
		assert_evidence(&d, &res);
		tune_race_fini(&res);
	}
}

/* A stall hits one probe in twenty: no reason to be dropped. */
static void a_stall_drops_nobody(void **state)
{
	unsigned lost = 0, runs = T_FEWER(30);

	(void)state;
	for (uint64_t seed = 1; seed <= runs; seed++) {
		struct tune_race_result res;
		struct device d;

		device_init(&d, seed);
		d.stalls = 0.05;
		d.job.budget = 600;
		assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
		for (unsigned i = 0; i < res.nr_points; i++)
			lost += truth(&d, i) == best_of(&d, res.nr_points) && !res.points[i].left;
		tune_race_fini(&res);
	}
	print_message("# with stalls the best was dropped %u times of %u\n", lost, runs);
	assert_true(lost <= 2);
}

static void of_equal_points_the_cheapest_wins(void **state)
{
	struct tune_race_result res;
	struct device d;
	double margin;

	(void)state;
	for (uint64_t seed = 1; seed < 20; seed++) {
		device_init(&d, seed);
		for (unsigned l = 0; l < 3; l++)
			d.effect[0][l] = 0; /* what this axis says does not matter */
		d.interaction = 0;
		d.noise = 0.003;
		assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
		assert_int_equal(tune_race_level(&d.job, res.winner, 0), 0);
		assert_true(tune_race_importance(&d.job, &res, 0, &margin) < 0.02 + margin);
		tune_race_fini(&res);
	}
}

/* Without pairing by rounds the drift would decide. */
static void a_device_that_becomes_slower_misleads_nobody(void **state)
{
	struct tune_race_result res;
	struct device d;

	(void)state;
	for (uint64_t seed = 1; seed < 20; seed++) {
		device_init(&d, seed);
		d.interaction = 0;
		d.drift = 0.002;
		assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
		assert_true(best_of(&d, res.nr_points) - truth(&d, res.winner) < 0.04);
		tune_race_fini(&res);
	}
}

/*
 * A quiet disk as tune meets it, with the grid of ds_nvme_tune: one thread is too few, all else is
 * worth a little or nothing.  Cheaper are fewer threads, then less memory in flight.
 */
static void disk_init(struct device *d, double noise, uint64_t seed)
{
	static const unsigned levels[] = {2, 2, 2, 2, 4};
	static const double effect[5][4] = {
		{0, 0.004}, {0, 0.003}, {-0.015, 0}, {0, -0.004}, {-0.15, -0.05, 0, 0.005}};

	*d = (struct device){.noise = noise};
	penstock_random_seed(&d->random, seed);
	d->job = (struct tune_race_job){.nr_axes = 5,
					.probe = probe,
					.cost = disk_cost,
					.spent = spent,
					.arg = d,
					.budget = 85,
					.tie = 0.02,
					.seed = seed};
	for (unsigned a = 0; a < 5; a++) {
		d->job.levels[a] = levels[a];
		memcpy(d->effect[a], effect[a], sizeof(effect[a]));
	}
}

/* The promise: the same in 4 of 5 runs, or "any of these", and none of them far from the best. */
static void five_runs_recommend_the_same_or_any_of_these(void **state)
{
	static const double noises[] = {0.002, 0.01, 0.03, 0.08};

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(noises); k++) {
		unsigned same = 0, any = 0, groups = 40;
		double lost = 0;

		for (unsigned g = 0; g < groups; g++) {
			unsigned winner[5], most = 0;
			bool tied[5];

			for (unsigned i = 0; i < 5; i++) {
				struct tune_race_result res;
				struct device d;

				disk_init(&d, noises[k], 1 + g * 5 + i);
				assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
				winner[i] = res.winner;
				tied[i] = res.equals > 1;
				lost = fmax(lost,
					    best_of(&d, res.nr_points) - truth(&d, res.winner));
				assert_true(res.open + res.worse + res.equals == res.tried);
				tune_race_fini(&res);
			}
			for (unsigned i = 0; i < 5; i++) {
				unsigned n = 0;

				for (unsigned j = 0; j < 5; j++)
					n += winner[i] == winner[j];
				most = n > most ? n : most;
			}
			same += most >= 4;
			any += most < 4 && tied[0] && tied[1] && tied[2] && tied[3] && tied[4];
		}
		print_message(
			"# noise of %.1f %%: in %u of %u groups 4 of 5 runs agree, in %u all say "
			"any of these; worst by %.1f %%\n",
			100 * noises[k], same, groups, any, 100 * lost);
		assert_true(20 * (same + any) >= 19 * groups);
		assert_true(noises[k] > 0.01 || same >= groups * 9 / 10);
		assert_true(lost < 2 * 0.02 + 3 * noises[k]);
	}
}

/* Six probes of a large grid: whatever they say of an axis may be chance. */
static void few_probes_claim_no_effect(void **state)
{
	struct tune_race_result res;
	struct device d;
	double margin;

	(void)state;
	disk_init(&d, 0.05, 1);
	d.job.budget = 6;
	assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
	assert_true(res.probes <= 8);
	for (unsigned a = 0; a < 5; a++) {
		tune_race_importance(&d.job, &res, a, &margin);
		assert_true(isinf(margin));
	}
	tune_race_fini(&res);
}

static void the_budget_is_kept(void **state)
{
	struct tune_race_result res;
	struct device d;

	(void)state;
	device_init(&d, 3);
	d.noise = 0.5;
	d.job.budget = 30;
	assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
	assert_int_equal(res.end, TUNE_RACE_BUDGET);
	assert_true(d.spent < 30 + 10);
	tune_race_fini(&res);
	d.spent = 100;
	assert_int_equal(tune_race_run(&d.job, &res, NULL), -ENODATA);
	tune_race_fini(&res);
}

static void a_stop_ends_it_with_what_there_is(void **state)
{
	atomic_int stop = 2;
	struct tune_race_result res;
	struct device d;

	(void)state;
	device_init(&d, 3);
	d.job.stop = &stop;
	assert_int_equal(tune_race_run(&d.job, &res, NULL), -ENODATA);
	assert_int_equal(res.end, TUNE_RACE_STOPPED);
	tune_race_fini(&res);
}

static void a_probe_that_fails_ends_it(void **state)
{
	struct tune_race_result res;
	struct device d;

	(void)state;
	for (unsigned at = 1; at < 30; at += 4) {
		device_init(&d, 3);
		d.fail_at = at;
		assert_int_equal(tune_race_run(&d.job, &res, NULL), -EIO);
		tune_race_fini(&res);
	}
}

static void a_grid_of_one_point_is_its_winner(void **state)
{
	struct tune_race_result res;
	struct device d;

	(void)state;
	device_init(&d, 3);
	for (unsigned a = 0; a < 5; a++)
		d.job.levels[a] = 1;
	assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
	assert_int_equal(res.winner, 0);
	assert_int_equal(res.end, TUNE_RACE_CLEAR);
	tune_race_fini(&res);
	d.job.nr_axes = 0;
	assert_int_equal(tune_race_run(&d.job, &res, NULL), 0);
	assert_int_equal(res.winner, 0);
	tune_race_fini(&res);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_race_finds_what_the_whole_grid_would),
		cmocka_unit_test(it_ends_when_the_winner_is_clear),
		cmocka_unit_test(what_is_said_to_be_clear_is_right),
		cmocka_unit_test(nobody_is_clear_where_all_are_equal),
		cmocka_unit_test(a_stall_drops_nobody),
		cmocka_unit_test(of_equal_points_the_cheapest_wins),
		cmocka_unit_test(a_device_that_becomes_slower_misleads_nobody),
		cmocka_unit_test(five_runs_recommend_the_same_or_any_of_these),
		cmocka_unit_test(few_probes_claim_no_effect),
		cmocka_unit_test(the_budget_is_kept),
		cmocka_unit_test(a_stop_ends_it_with_what_there_is),
		cmocka_unit_test(a_probe_that_fails_ends_it),
		cmocka_unit_test(a_grid_of_one_point_is_its_winner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
