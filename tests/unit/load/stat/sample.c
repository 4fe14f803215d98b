/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that are all kept, and samples of which a reservoir is kept. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"
#include "load/stat/sample.h"

#define MANY (3 * SAMPLE_KEEP)

static void assert_near(double got, double want, double tolerance)
{
	if (!(fabs(got - want) <= tolerance))
		fail_msg("%.12g, not %.12g", got, want);
}

/* 0, 1, ... as milliseconds: each value says which it is. */
static void count_up(struct samples *s, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		assert_int_equal(samples_add(s, (double)i / 1e3), 0);
}

static void nothing_has_no_mean_and_no_percentile(void **state)
{
	struct samples s = {0};
	double *list = samples_list(&s);

	(void)state;
	assert_true(isnan(samples_mean(&s)) && isnan(samples_percentile(&s, 50)));
	assert_non_null(list);
	free(list);
	samples_fini(&s);
}

static void few_are_exact_and_in_order(void **state)
{
	static const double v[] = {0.4, 0.1, 0.3, 0.2, 9.5};
	static const double p[] = {0, 50, 95, 99, 99.9, 100};
	/* numpy.percentile(v, p) */
	static const double want[] = {0.1, 0.3, 7.68, 9.136, 9.4636, 9.5};
	double got[ARRAY_SIZE(p)], *list;
	struct samples s = {0};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(v); i++)
		assert_int_equal(samples_add(&s, v[i]), 0);
	assert_int_equal(samples_percentiles(&s, p, got, ARRAY_SIZE(p)), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(p); i++)
		assert_near(got[i], want[i], 1e-12);
	assert_near(samples_mean(&s), 2.1, 1e-12);
	assert_near(s.max, 9.5, 0);
	assert_true(samples_exact(&s));
	list = samples_list(&s);
	assert_memory_equal(list, v, sizeof(v));
	free(list);
	samples_fini(&s);
}

static void all_are_kept_up_to_the_bound(void **state)
{
	struct samples s = {0};

	(void)state;
	count_up(&s, 0, SAMPLE_KEEP);
	assert_true(samples_exact(&s));
	for (uint64_t i = 0; i < SAMPLE_KEEP; i++)
		assert_near(samples_at(&s, i), (double)i / 1e3, 0);
	assert_near(samples_percentile(&s, 99), 0.99 * (SAMPLE_KEEP - 1) / 1e3, 1e-9);
	samples_fini(&s);
}

/* In order, none twice, and about as many of each tenth of @n as of the others. */
static void assert_fair(const struct samples *s, uint64_t n)
{
	double *list = samples_list(s);
	unsigned tenth[10] = {0};

	assert_non_null(list);
	for (uint64_t i = 0; i < SAMPLE_KEEP; i++) {
		uint64_t which = (uint64_t)llround(list[i] * 1e3);

		assert_true(i == 0 || list[i] > list[i - 1]);
		assert_true(which < n);
		tenth[which * 10 / n]++;
	}
	/* The deviation of each is below sqrt(KEEP / 10): 8 of them */
	for (unsigned i = 0; i < 10; i++)
		assert_near(tenth[i], SAMPLE_KEEP / 10.0, 8 * sqrt(SAMPLE_KEEP / 10.0));
	free(list);
}

static void of_many_a_fair_draw_stays_in_order(void **state)
{
	struct samples s = {0};

	(void)state;
	count_up(&s, 0, MANY);
	assert_int_equal(s.n, MANY);
	assert_false(samples_exact(&s));
	assert_fair(&s, MANY);
	assert_near(samples_mean(&s), (MANY - 1) / 2e3, 1e-6);
	assert_near(s.max, (MANY - 1) / 1e3, 0);
	for (double p = 1; p < 100; p += 7)
		assert_near(samples_percentile(&s, p) / (p / 100 * (MANY - 1) / 1e3), 1, 0.01);
	samples_fini(&s);
}

static void merged_few_are_as_if_added(void **state)
{
	struct samples a = {0}, b = {0};

	(void)state;
	count_up(&a, 0, 40);
	count_up(&b, 40, 1000);
	assert_int_equal(samples_merge(&a, &b), 0);
	assert_int_equal(a.n, 1000);
	for (unsigned i = 0; i < 1000; i++)
		assert_near(samples_at(&a, i), i / 1e3, 0);
	samples_fini(&a);
	samples_fini(&b);
}

static void merged_many_are_a_fair_draw_of_both(void **state)
{
	static const uint64_t cuts[] = {0, 1000, SAMPLE_KEEP / 2, SAMPLE_KEEP, 2 * SAMPLE_KEEP};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cuts); i++) {
		struct samples a = {0}, b = {0};

		count_up(&a, 0, cuts[i]);
		count_up(&b, cuts[i], MANY);
		assert_int_equal(samples_merge(&a, &b), 0);
		assert_int_equal(a.n, MANY);
		assert_int_equal(a.hist->count, MANY);
		assert_fair(&a, MANY);
		assert_near(samples_mean(&a), (MANY - 1) / 2e3, 1e-6);
		samples_fini(&a);
		samples_fini(&b);
	}
}

static void many_equal_ones_at_once_are_as_if_added(void **state)
{
	static const uint64_t numbers[] = {0, 1, 50, SAMPLE_KEEP, MANY};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++) {
		uint64_t ones = 0, n = numbers[i];
		struct samples s = {0};
		double *list;

		count_up(&s, 0, SAMPLE_KEEP);
		assert_int_equal(samples_add_n(&s, 1000, n), 0);
		assert_int_equal(s.n, SAMPLE_KEEP + n);
		assert_int_equal(s.hist->count, s.n);
		assert_near(s.sum, SAMPLE_KEEP / 2e3 * (SAMPLE_KEEP - 1) + 1000.0 * (double)n,
			    1e-3);
		assert_near(s.max, n ? 1000 : (SAMPLE_KEEP - 1) / 1e3, 0);
		list = samples_list(&s);
		for (uint64_t k = 0; k < SAMPLE_KEEP; k++)
			ones += list[k] == 1000;
		/* the last of what is kept came last */
		assert_true(n < SAMPLE_KEEP || list[SAMPLE_KEEP - 1] == 1000);
		assert_near((double)ones, (double)n / (double)s.n * SAMPLE_KEEP, 3000);
		free(list);
		samples_fini(&s);
	}
}

static void equal_ones_alone_take_no_room_until_others_come(void **state)
{
	static const uint64_t numbers[] = {5000, SAMPLE_KEEP, MANY};
	static const double p[] = {0, 50, 99.99};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct samples s = {0}, other = {0};
		double got[3], *list;
		uint64_t n = numbers[i], kept = min_u64(n, SAMPLE_KEEP);

		assert_int_equal(samples_add_n(&s, 0.25, n), 0);
		assert_null(s.kept.v);
		assert_int_equal(s.n, n);
		assert_near(samples_mean(&s), 0.25, 1e-12);
		assert_int_equal(samples_percentiles(&s, p, got, 3), 0);
		assert_true(got[0] == 0.25 && got[1] == 0.25 && got[2] == 0.25);
		list = samples_list(&s);
		assert_true(list[0] == 0.25 && list[kept - 1] == 0.25);
		free(list);
		assert_int_equal(samples_merge(&other, &s), 0);
		assert_true(other.n == n && !other.kept.v && other.hist->count == n);
		samples_fini(&other);
		/* they come first */
		count_up(&s, 1000000, 1000000 + SAMPLE_KEEP);
		assert_int_equal(s.n, n + SAMPLE_KEEP);
		list = samples_list(&s);
		assert_true(list[0] == 0.25 && list[SAMPLE_KEEP - 1] > 1);
		free(list);
		assert_near(samples_percentile(&s, 0), 0.25, 0.003);
		samples_fini(&s);
	}
}

static void equal_ones_that_are_merged_stay_where_they_were(void **state)
{
	struct samples s = {0}, other = {0};

	(void)state;
	count_up(&s, 0, 100);
	assert_int_equal(samples_add_n(&other, 7, 2000), 0);
	assert_int_equal(samples_merge(&s, &other), 0);
	assert_int_equal(s.n, 2100);
	assert_true(samples_at(&s, 99) == 0.099 && samples_at(&s, 100) == 7 &&
		    samples_at(&s, 2099) == 7);
	assert_int_equal(samples_merge(&other, &s), 0);
	assert_int_equal(other.n, 4100);
	assert_true(samples_at(&other, 0) == 7 && samples_at(&other, 2000) == 0 &&
		    samples_at(&other, 2001) == 0.001);
	samples_fini(&s);
	samples_fini(&other);
}

static void what_is_below_zero_counts_as_zero(void **state)
{
	struct samples s = {0};

	(void)state;
	assert_int_equal(samples_add(&s, -1), 0);
	assert_int_equal(samples_add(&s, NAN), 0);
	assert_near(samples_percentile(&s, 100), 0, 0);
	samples_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_has_no_mean_and_no_percentile),
		cmocka_unit_test(few_are_exact_and_in_order),
		cmocka_unit_test(all_are_kept_up_to_the_bound),
		cmocka_unit_test(of_many_a_fair_draw_stays_in_order),
		cmocka_unit_test(merged_few_are_as_if_added),
		cmocka_unit_test(merged_many_are_a_fair_draw_of_both),
		cmocka_unit_test(many_equal_ones_at_once_are_as_if_added),
		cmocka_unit_test(equal_ones_alone_take_no_room_until_others_come),
		cmocka_unit_test(equal_ones_that_are_merged_stay_where_they_were),
		cmocka_unit_test(what_is_below_zero_counts_as_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
