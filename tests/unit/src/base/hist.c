/* SPDX-License-Identifier: Apache-2.0 */
/* The histogram of durations: how exact it is, and that adding up loses nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hist.h"
#include "base/random.h"
#include "base/util.h"

static struct penstock_hist *hist_new(void)
{
	struct penstock_hist *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	return h;
}

static void every_value_is_in_a_bucket_of_one_percent(void **state)
{
	struct penstock_random r;

	(void)state;
	penstock_random_seed(&r, 3);
	for (unsigned i = 0; i < 20000; i++) {
		static struct penstock_hist one;
		uint64_t v = penstock_random_next(&r) >> (21 + penstock_random_below(&r, 43));
		struct penstock_hist_bucket b;
		unsigned pos = 0;

		penstock_hist_add(&one, v);
		assert_true(penstock_hist_next(&one, &pos, &b));
		assert_true(b.low <= v && v < b.high && b.count == 1);
		assert_true((double)(b.high - b.low) <= fmax(1, (double)b.low / 128));
		one.bucket[pos - 1] = 0;
		one.count = 0;
	}
}

static void buckets_follow_each_other_without_a_gap(void **state)
{
	CLEANUP_FREE struct penstock_hist *h = hist_new();
	struct penstock_hist_bucket b;
	uint64_t end = 0;
	unsigned pos = 0;

	(void)state;
	for (unsigned i = 0; i < PENSTOCK_HIST_SIZE; i++)
		h->bucket[i] = 1;
	while (penstock_hist_next(h, &pos, &b)) {
		assert_true(b.low == end);
		end = b.high;
	}
	assert_true(end == 1ull << PENSTOCK_HIST_TOP);
	assert_true(end > 3600ull * 1000000000);
}

static void what_is_too_long_is_counted_last_and_known_as_the_maximum(void **state)
{
	CLEANUP_FREE struct penstock_hist *h = hist_new();

	(void)state;
	penstock_hist_add(h, 5);
	penstock_hist_add(h, UINT64_MAX);
	assert_true(h->bucket[PENSTOCK_HIST_SIZE - 1] == 1);
	assert_true(h->max == UINT64_MAX && h->min == 5 && h->count == 2);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void percentiles_are_those_of_the_samples_within_one_percent(void **state)
{
	static const double at[] = {0, 0.1, 1, 25, 50, 90, 99, 99.9, 99.99, 100};
	enum { N = 50000 };
	CLEANUP_FREE struct penstock_hist *h = hist_new();
	CLEANUP_FREE uint64_t *v = calloc(N, sizeof(*v));
	struct penstock_random r;

	(void)state;
	assert_non_null(v);
	penstock_random_seed(&r, 4);
	for (unsigned i = 0; i < N; i++) {
		v[i] = (uint64_t)exp(log(1000) +
				     (double)(penstock_random_next(&r) >> 11) * 0x1p-53 * log(1e7));
		penstock_hist_add(h, v[i]);
	}
	qsort(v, N, sizeof(*v), by_value);
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
		double k = (N - 1) * at[i] / 100, low = (double)v[(size_t)k];
		double high = (double)v[min_u64((uint64_t)k + 1, N - 1)];
		double want = low + (high - low) * (k - floor(k));

		assert_true(fabs(penstock_hist_percentile(h, at[i]) / want - 1) < 0.01);
	}
	assert_true(penstock_hist_percentile(h, 0) == (double)v[0]);
	assert_true(penstock_hist_percentile(h, 100) == (double)v[N - 1]);
}

static void a_single_value_is_every_percentile(void **state)
{
	CLEANUP_FREE struct penstock_hist *h = hist_new();

	(void)state;
	assert_true(penstock_hist_percentile(h, 50) == 0);
	penstock_hist_add(h, 123456789);
	for (double p = 0; p <= 100; p += 12.5)
		assert_true(penstock_hist_percentile(h, p) == 123456789);
}

static void merged_is_the_same_as_added_to_one(void **state)
{
	CLEANUP_FREE struct penstock_hist *a = hist_new(), *b = hist_new(), *all = hist_new();
	struct penstock_random r;

	(void)state;
	penstock_random_seed(&r, 5);
	penstock_hist_merge(all, a); /* nothing and nothing */
	assert_true(all->count == 0 && all->min == 0);
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t v = 100 + penstock_random_below(&r, 1000000000);

		penstock_hist_add(i % 3 ? a : b, v);
		penstock_hist_add(all, v);
	}
	penstock_hist_merge(a, b);
	assert_memory_equal(a, all, sizeof(*a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_is_in_a_bucket_of_one_percent),
		cmocka_unit_test(buckets_follow_each_other_without_a_gap),
		cmocka_unit_test(what_is_too_long_is_counted_last_and_known_as_the_maximum),
		cmocka_unit_test(percentiles_are_those_of_the_samples_within_one_percent),
		cmocka_unit_test(a_single_value_is_every_percentile),
		cmocka_unit_test(merged_is_the_same_as_added_to_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
