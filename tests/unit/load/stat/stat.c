/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics: against published tables, brute force, and samples whose truth is known. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/util.h"
#include "load/stat/stat.h"
#include "tests/common/t.h"

/* Of @n > 0 samples, as a series does it that kept all of them. */
static int summarize(struct stat_summary *ret, const double *v, size_t n)
{
	double *sorted = malloc(n * sizeof(*sorted));
	struct stat_moments m = {0};

	assert_non_null(sorted);
	memcpy(sorted, v, n * sizeof(*sorted));
	for (size_t i = 0; i < n; i++)
		stat_moments_add(&m, v[i]);
	stat_moments_summary(ret, &m);
	stat_sort(sorted, n);
	ret->median = stat_percentile(sorted, n, 50);
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		if (stat_percentile_known(n, stat_percentile_at[i]))
			ret->percentile[i] = stat_percentile(sorted, n, stat_percentile_at[i]);
	free(sorted);
	return 0;
}

static void assert_near(double got, double want, double tolerance)
{
	if (!(fabs(got - want) <= tolerance))
		fail_msg("%.12g, not %.12g", got, want);
}

/* ----------------------------------------------------------- random samples */

static double uniform(struct penstock_random *r)
{
	return ((double)(penstock_random_next(r) >> 11) + 0.5) * 0x1p-53;
}

static double normal(struct penstock_random *r)
{
	return sqrt(-2 * log(uniform(r))) * cos(2 * M_PI * uniform(r));
}

/* -------------------------------------------------------------- one sample */

static void t_quantiles_are_those_of_the_tables(void **state)
{
	static const struct {
		double p, df, t;
	} cases[] = {
		{0.975, 1, 12.706204736}, {0.975, 2, 4.302652730},
		{0.975, 4, 2.776445105},  {0.975, 9, 2.262157163},
		{0.975, 29, 2.045229642}, {0.975, 199, 1.971956544},
		{0.95, 10, 1.812461123},  {0.995, 5, 4.032142984},
		{0.975, 1e6, 1.959966},   {0.5, 7, 0},
		{0.025, 9, -2.262157163}, {0.75, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_near(stat_t_quantile(cases[i].p, cases[i].df), cases[i].t, 2e-6);
	assert_near(stat_t95(200), 1.972, 5e-4);
	assert_true(isnan(stat_t95(1)));
}

static void a_summary_is_what_numpy_and_scipy_say(void **state)
{
	/* numpy.percentile's linear method by hand: 50 % at rank 2, 90 % at 3.6, 99.99 % at 3.9996
	 */
	static const double v[] = {40, 15, 50, 20, 35}, sorted[] = {15, 20, 35, 40, 50};
	struct stat_summary s;

	(void)state;
	assert_int_equal(summarize(&s, v, 5), 0);
	assert_int_equal(s.n, 5);
	assert_near(s.mean, 32, 1e-12);
	assert_near(s.median, 35, 1e-12);
	assert_near(s.stddev, 14.404860290887934, 1e-12);
	assert_near(s.ci_high - s.mean, 2.7764451052 * 14.404860290887934 / sqrt(5), 1e-8);
	assert_near(s.mean - s.ci_low, s.ci_high - s.mean, 1e-12);
	assert_near(s.percentile[STAT_P50], 35, 1e-12);
	assert_near(stat_percentile(sorted, 5, 1), 15.2, 1e-12);
	assert_near(stat_percentile(sorted, 5, 90), 46, 1e-12);
	assert_near(stat_percentile(sorted, 5, 99.99), 49.996, 1e-12);
	assert_near(s.min, 15, 0);
	assert_near(s.max, 50, 0);
}

static void one_sample_has_no_deviation(void **state)
{
	const double v = 3;
	struct stat_summary s;

	(void)state;
	assert_int_equal(summarize(&s, &v, 1), 0);
	assert_true(isnan(s.stddev) && isnan(s.ci_low) && isnan(s.ci_high));
	assert_true(s.mean == 3 && s.median == 3 && s.percentile[STAT_P50] == 3);
}

/* Beyond a percentile that is told lies at least one sample. */
static void few_samples_have_no_far_percentiles(void **state)
{
	static const uint64_t least[STAT_PERCENTILES] = {100, 20, 1, 10, 20, 100, 1000, 10000};
	double v[200];
	struct stat_summary s;

	(void)state;
	for (unsigned i = 0; i < STAT_PERCENTILES; i++) {
		assert_true(stat_percentile_known(least[i], stat_percentile_at[i]));
		assert_false(least[i] > 1 &&
			     stat_percentile_known(least[i] - 1, stat_percentile_at[i]));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = i;
	assert_int_equal(summarize(&s, v, 200), 0);
	assert_true(s.percentile[STAT_P99] > 190 && isnan(s.percentile[STAT_P999]));
	assert_int_equal(summarize(&s, v, 99), 0);
	assert_true(s.percentile[STAT_P95] > 90 && isnan(s.percentile[STAT_P99]));
}

/*
 * A run on a device that drifts: figures of repeats that begin somewhere in the drift, follow it,
 * and have noise of their own.
 */
static void drifting_run(struct penstock_random *r, double *v, unsigned n, double drift,
			 double keeps, double noise)
{
	double at = drift * normal(r);

	for (unsigned i = 0; i < n; i++) {
		v[i] = 100 + at + noise * normal(r);
		at = keeps * at + drift * sqrt(1 - keeps * keeps) * normal(r);
	}
}

static double mean_of(const double *v, unsigned n)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += v[i];
	return sum / n;
}

/* The promise: of 20 pairs of runs the intervals of 18 overlap. */
static void intervals_of_runs_that_drift_overlap(void **state)
{
	static const struct {
		double drift, keeps, noise;
	} devices[] = {{0, 0, 3}, {5, 0.3, 2}, {5, 0.6, 2}, {10, 0.7, 3}};
	struct penstock_random r;

	(void)state;
	penstock_random_seed(&r, 20);
	for (unsigned d = 0; d < ARRAY_SIZE(devices); d++) {
		unsigned overlap = 0, plain = 0, pairs = 2000;

		for (unsigned i = 0; i < pairs; i++) {
			double v[2][10], apart;
			struct stat_summary s[2];

			for (unsigned k = 0; k < 2; k++) {
				drifting_run(&r, v[k], 10, devices[d].drift, devices[d].keeps,
					     devices[d].noise);
				assert_int_equal(summarize(&s[k], v[k], 10), 0);
			}
			apart = fabs(mean_of(v[0], 10) - mean_of(v[1], 10));
			overlap += apart <= stat_drift_half(v[0], 10) + stat_drift_half(v[1], 10);
			plain += s[0].ci_low <= s[1].ci_high && s[1].ci_low <= s[0].ci_high;
		}
		print_message("# drift %.0f %%, keeps %.1f: %.1f of 20 pairs overlap, %.1f without "
			      "regard to the drift\n",
			      devices[d].drift, devices[d].keeps, 20.0 * overlap / pairs,
			      20.0 * plain / pairs);
		assert_true(20 * overlap >= 18 * pairs);
	}
	assert_true(isnan(stat_drift_half((double[]){1, 2}, 2)));
	assert_true(stat_drift_half((double[]){2, 2, 2}, 3) == 0);
}

static void an_interval_needs_three_samples_and_is_not_below_zero(void **state)
{
	static const double v[] = {1, 9, 1};
	struct stat_summary s;

	(void)state;
	assert_int_equal(summarize(&s, v, 2), 0);
	assert_true(isnan(s.ci_low) && isnan(s.ci_high) && s.stddev > 5);
	assert_int_equal(summarize(&s, v, 3), 0);
	assert_true(s.ci_low == 0 && s.ci_high > 10);
}

static void moments_of_parts_are_those_of_the_whole(void **state)
{
	struct stat_moments a = {0}, b = {0}, all = {0};
	struct stat_summary x, y;
	struct penstock_random r;

	(void)state;
	penstock_random_seed(&r, 1);
	stat_moments_merge(&all, &a);
	for (unsigned i = 0; i < 1000; i++) {
		double v = 1e9 + normal(&r);

		stat_moments_add(i < 300 ? &a : &b, v);
		stat_moments_add(&all, v);
	}
	stat_moments_merge(&a, &b);
	stat_moments_summary(&x, &a);
	stat_moments_summary(&y, &all);
	assert_near(x.mean, y.mean, 1e-6);
	assert_near(x.stddev, y.stddev, 1e-6);
	assert_true(x.min == y.min && x.max == y.max && x.n == 1000);
}

static void nineteen_of_twenty_intervals_contain_the_truth(void **state)
{
	struct penstock_random r;
	unsigned hits = 0;

	(void)state;
	penstock_random_seed(&r, 2);
	for (unsigned i = 0; i < 2000; i++) {
		struct stat_summary s;
		double v[8];

		for (unsigned k = 0; k < 8; k++)
			v[k] = 5 + 3 * normal(&r);
		assert_int_equal(summarize(&s, v, 8), 0);
		hits += s.ci_low <= 5 && 5 <= s.ci_high;
	}
	assert_in_range(hits, 1860, 1940); /* 1900; the standard deviation is 9.7 */
}

/* -------------------------------------------------------------- two samples */

static void small_rank_tests_are_exact(void **state)
{
	static const double a[] = {1.1, 2.2, 3.3, 9, 10}, b[] = {4, 5, 6, 7};
	static const double c[] = {1, 3, 5, 7, 9, 11, 2.5}, d[] = {2, 4, 6, 8, 10, 12, 14, 16};
	static const double e[] = {1, 2, 3}, f[] = {4, 5, 6};
	struct stat_rank t;

	(void)state;
	/* p by enumeration of all orders */
	assert_int_equal(stat_rank_test(&t, a, 5, b, 4), 0);
	assert_true(t.exact && t.u == 8);
	assert_near(t.p, 0.7301587301587301, 1e-12);
	assert_int_equal(stat_rank_test(&t, c, 7, d, 8), 0);
	assert_near(t.p, 0.18927738927738927, 1e-12);
	assert_int_equal(stat_rank_test(&t, e, 3, f, 3), 0);
	assert_near(t.p, 0.1, 1e-12);
	assert_int_equal(stat_rank_test(&t, f, 3, e, 3), 0);
	assert_true(t.u == 9);
	assert_near(t.p, 0.1, 1e-12);
	assert_int_equal(stat_rank_test(&t, e, 3, f, 0), -EINVAL);
}

static void ties_are_corrected_for(void **state)
{
	static const double base_a[] = {1, 2, 2, 3, 5, 5, 5, 8},
			    base_b[] = {2, 3, 3, 4, 5, 6, 8, 9};
	double a[32], b[32], same[40];
	struct stat_rank t;

	(void)state;
	for (unsigned i = 0; i < 32; i++) {
		a[i] = base_a[i % 8];
		b[i] = base_b[i % 8];
	}
	assert_int_equal(stat_rank_test(&t, a, 32, b, 32), 0);
	assert_true(!t.exact && t.u == 368);
	assert_near(t.p, 0.050243885952573, 1e-12);
	for (unsigned i = 0; i < 40; i++)
		same[i] = 7;
	assert_int_equal(stat_rank_test(&t, same, 40, same, 40), 0);
	assert_near(t.p, 1, 0);
}

static void tails_are_compared_by_whose_the_largest_values_are(void **state)
{
	double a[200], b[200], p;
	struct penstock_random r;
	unsigned wrong = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		a[i] = 1 + i;
		b[i] = 1.5 + i;
	}
	assert_int_equal(stat_tail_test(&p, a, 200, b, 200), 0);
	assert_near(p, 1, 0);
	for (unsigned i = 0; i < 10; i++)
		b[i] = 1000 + i;
	assert_int_equal(stat_tail_test(&p, a, 200, b, 200), 0);
	/* All 8 are b's: twice C(200, 8) / C(400, 8). */
	assert_near(p, 0.00727456, 1e-7);
	assert_int_equal(stat_tail_test(&p, b, 200, a, 200), 0);
	assert_near(p, 0.00727456, 1e-7);
	assert_int_equal(stat_tail_test(&p, a, 4, b, 4), -EINVAL);
	penstock_random_seed(&r, 61);
	for (unsigned t = 0; t < 500; t++) {
		for (unsigned i = 0; i < 400; i++)
			(i < 200 ? a : b)[i % 200] = floor(20 * exp(normal(&r)));
		assert_int_equal(stat_tail_test(&p, a, 200, b, 200), 0);
		wrong += p < 0.05;
	}
	assert_in_range(wrong, 0, 30);
}

static void equal_distributions_rarely_look_different(void **state)
{
	struct penstock_random r;
	unsigned alarms = 0;

	(void)state;
	penstock_random_seed(&r, 6);
	for (unsigned i = 0; i < 1000; i++) {
		double a[30], b[40];
		struct stat_rank t;

		for (unsigned k = 0; k < 30; k++)
			a[k] = exp(normal(&r));
		for (unsigned k = 0; k < 40; k++)
			b[k] = exp(normal(&r));
		assert_int_equal(stat_rank_test(&t, a, 30, b, 40), 0);
		alarms += t.p < 0.05;
	}
	assert_in_range(alarms, 25, 75);
}

static void the_ratio_of_figures_has_an_interval_around_it(void **state)
{
	static const enum stat_figure figures[] = {STAT_MEDIAN, STAT_MEAN, STAT_99TH};
	struct stat_ratio q, again;
	struct penstock_random r;
	double a[200], b[200];
	const struct stat_sample x = {a, 200, 1}, y = {b, 200, 1}, none = {a, 0, 1};

	(void)state;
	penstock_random_seed(&r, 7);
	for (unsigned i = 0; i < 200; i++) {
		a[i] = exp(0.1 * normal(&r));
		b[i] = 1.2 * exp(0.1 * normal(&r));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(figures); i++) {
		assert_int_equal(stat_ratio(&q, figures[i], &x, &y, NAN, 1000, 1), 0);
		assert_true(q.low < q.ratio && q.ratio < q.high && q.p < 0.01);
		assert_true(q.low < 1.2 && 1.2 < q.high && q.high - q.low < (i == 2 ? 0.4 : 0.1));
		assert_int_equal(stat_ratio(&again, figures[i], &x, &y, NAN, 1000, 1), 0);
		assert_memory_equal(&q, &again, sizeof(q)); /* one seed, one answer */
		assert_int_equal(stat_ratio(&again, figures[i], &x, &y, 2, 1000, 1), 0);
		assert_near(again.ratio, 2, 1e-12); /* what is known better moves the interval */
		assert_near(again.low, q.low * 2 / q.ratio, 1e-9);
	}
	assert_int_equal(stat_ratio(&q, STAT_MEDIAN, &none, &y, NAN, 1000, 1), -EINVAL);
}

static void figures_are_those_of_sorted_values(void **state)
{
	static const double unit = 1;
	struct penstock_random r;
	struct stat_ratio q;
	double a[501], b[501];

	(void)state;
	penstock_random_seed(&r, 71);
	for (unsigned t = 0; t < 200; t++) {
		size_t n = 1 + penstock_random_below(&r, 500);
		const struct stat_sample one = {&unit, 1, 1}, s = {a, n, 1};

		for (size_t i = 0; i < n; i++)
			b[i] = a[i] = 1 + (double)penstock_random_below(&r, t % 2 ? 1000000 : 7);
		stat_sort(b, n);
		assert_int_equal(stat_ratio(&q, STAT_99TH, &one, &s, NAN, 1, 1), 0);
		assert_near(q.ratio, stat_percentile(b, n, 99), 1e-9);
		assert_int_equal(stat_ratio(&q, STAT_MEDIAN, &one, &s, NAN, 1, 1), 0);
		assert_near(q.ratio, stat_percentile(b, n, 50), 1e-9);
	}
}

/* Values that remember the one before, of the same distribution: how often are they "different"? */
static unsigned false_ratios(enum stat_figure of, size_t block, double memory)
{
	struct penstock_random r;
	unsigned wrong = 0;

	penstock_random_seed(&r, 72);
	for (unsigned t = 0; t < 200; t++) {
		double v[2][200], z = 0;
		const struct stat_sample a = {v[0], 200, block}, b = {v[1], 200, block};
		struct stat_ratio q;

		for (unsigned i = 0; i < 400; i++) {
			z = memory * z + sqrt(1 - memory * memory) * normal(&r);
			v[i / 200][i % 200] = exp(0.2 * z);
		}
		assert_int_equal(stat_ratio(&q, of, &a, &b, NAN, 400, t), 0);
		wrong += (q.low > 1 || q.high < 1) && q.p < 0.05;
	}
	return wrong;
}

static void equal_runs_rarely_have_a_ratio_other_than_one(void **state)
{
	(void)state;
	assert_in_range(false_ratios(STAT_MEAN, 1, 0), 1, 20);
	assert_in_range(false_ratios(STAT_99TH, 1, 0), 0, 20);
	/* In blocks they count as what they are worth; one by one they would not. */
	assert_in_range(false_ratios(STAT_MEAN, 10, 0.6), 0, 30);
	assert_in_range(false_ratios(STAT_MEAN, 1, 0.6), 40, 200);
}

static void a_handful_is_compared_by_students_t(void **state)
{
	static const double a[] = {1, 1.02, 0.98}, b[] = {1.2, 1.23, 1.18}, flat[] = {2, 2};
	const struct stat_sample x = {a, 3, 1}, y = {b, 3, 1}, one = {a, 1, 1}, same = {flat, 2, 1};
	struct stat_ratio q;

	(void)state;
	assert_int_equal(stat_ratio_few(&q, &x, &y, NAN), 0);
	/* Welch's test of the logarithms, by hand. */
	assert_near(q.ratio, 1.20332, 1e-5);
	assert_near(q.p, 0.00037999, 1e-7);
	assert_near(q.low, 1.148786, 1e-5);
	assert_near(q.high, 1.260440, 1e-5);
	assert_int_equal(stat_ratio_few(&q, &one, &y, NAN), -EINVAL);
	/* Two equal values say nothing of how far a third would be. */
	assert_int_equal(stat_ratio_few(&q, &same, &same, NAN), 0);
	assert_near(q.p, 1, 0);
}

/* ------------------------------------------------------------------- shapes */

enum noise { LOGNORMAL, GAMMA2, EXPONENTIAL, UNIFORM, LAPLACE, NR_NOISE };

static double noise(struct penstock_random *r, enum noise kind, double sigma)
{
	switch (kind) {
	case GAMMA2: /* shifted by a fixed cost, as latencies are */
		return 1e5 - 1e5 * sigma * log(uniform(r) * uniform(r));
	case EXPONENTIAL:
		return 1e5 - 1e5 * sigma * log(uniform(r));
	case UNIFORM:
		return 1e5 * (1 + sigma * uniform(r));
	case LAPLACE:
		return 1e5 * exp((uniform(r) < 0.5 ? 1 : -1) * sigma * log(uniform(r)));
	default:
		return 1e5 * exp(sigma * normal(r));
	}
}

/* Of @trials sets of @n values with one peak: how many are said to have two. */
static unsigned false_peaks(struct penstock_random *r, enum noise kind, double sigma, unsigned n,
			    unsigned trials)
{
	CLEANUP_FREE struct penstock_hist *h = calloc(1, sizeof(*h));
	unsigned alarms = 0;

	assert_non_null(h);
	for (unsigned i = 0; i < T_FEWER(trials); i++) {
		struct stat_shape s;

		memset(h, 0, sizeof(*h));
		for (unsigned k = 0; k < n; k++)
			penstock_hist_add(h, (uint64_t)noise(r, kind, sigma));
		assert_int_equal(stat_shape(&s, h), 0);
		alarms += s.bimodal;
	}
	return alarms;
}

static void one_peak_is_not_called_two(void **state)
{
	static const double sigmas[] = {0.01, 0.1, 0.3, 1};
	static const unsigned sizes[] = {30, 60, 200, 2000};
	struct penstock_random r;

	(void)state;
	penstock_random_seed(&r, 8);
	for (unsigned i = 0; i < NR_NOISE * 4; i++) {
		enum noise kind = (enum noise)(i % NR_NOISE);
		unsigned n = sizes[i / NR_NOISE], alarms = 0;

		for (unsigned k = 0; k < ARRAY_SIZE(sigmas); k++)
			alarms += false_peaks(&r, kind, sigmas[k], n, 50);
		if (alarms > 6) /* of 200 */
			fail_msg("kind %u, n %u: %u of 200", kind, n, alarms);
	}
}

/* The usual shape of latencies, in the usual numbers of operations. */
static void of_lognormal_latencies_2_in_100_look_like_two_peaks_at_most(void **state)
{
	static const double sigmas[] = {0.05, 0.1, 0.3, 0.6, 1};
	struct penstock_random r;

	(void)state;
	penstock_random_seed(&r, 81);
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(sigmas); i++) {
		unsigned alarms = false_peaks(&r, LOGNORMAL, sigmas[i / 2], i % 2 ? 60 : 200, 500);

		if (alarms > 10)
			fail_msg("sigma %g: %u of 500", sigmas[i / 2], alarms);
	}
}

/* Of 100 sets of @n values with two peaks: how many are seen, in the right place. */
static unsigned peaks_found(struct penstock_random *r, double slow, double share, double sigma,
			    unsigned n)
{
	CLEANUP_FREE struct penstock_hist *h = calloc(1, sizeof(*h));
	unsigned found = 0;

	assert_non_null(h);
	for (unsigned i = 0; i < 100; i++) {
		struct stat_shape s;

		memset(h, 0, sizeof(*h));
		for (unsigned k = 0; k < n; k++)
			penstock_hist_add(h,
					  (uint64_t)(1e6 * (k < (unsigned)(share * n) ? slow : 1) *
						     exp(sigma * normal(r))));
		assert_int_equal(stat_shape(&s, h), 0);
		if (!s.bimodal)
			continue;
		assert_true(s.peak[0].ns < s.split_ns && s.split_ns < s.peak[1].ns);
		found += fabs(log(s.peak[0].ns / 1e6)) < 0.3 &&
			 fabs(log(s.peak[1].ns / 1e6 / slow)) < 0.3 &&
			 fabs(s.peak[1].share - share) < 0.1;
	}
	return found;
}

static void two_peaks_are_found_with_their_shares(void **state)
{
	static const struct {
		double slow, share, sigma;
		unsigned n, least; /* of 100 */
	} cases[] = {
		/* twice as slow, as wide as an eye still tells them apart */
		{2, 0.5, 0.1, 60, 98},
		{2, 0.5, 0.15, 60, 78},
		{2, 0.5, 0.1, 200, 100},
		{2, 0.5, 0.15, 200, 98},
		{2, 0.5, 0.2, 200, 60},
		{2, 0.2, 0.1, 60, 90},
		{2, 0.1, 0.1, 200, 95},
		{2, 0.06, 0.1, 200, 88},
		/* further apart, nearer */
		{3, 0.2, 0.1, 200, 100},
		{10, 0.1, 0.2, 200, 98},
		{10, 0.06, 0.2, 200, 95},
		{3, 0.5, 0.05, 60, 100},
		{5, 0.06, 0.1, 2000, 100},
		{100, 0.3, 0.3, 5000, 100},
		{1.5, 0.4, 0.02, 200, 100},
		{1.5, 0.4, 0.1, 200, 80},
	};
	struct penstock_random r;

	(void)state;
	penstock_random_seed(&r, 9);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned found =
			peaks_found(&r, cases[i].slow, cases[i].share, cases[i].sigma, cases[i].n);

		if (found < cases[i].least)
			fail_msg("case %u: %u of 100", i, found);
	}
}

static void a_few_outliers_or_few_values_are_not_a_peak(void **state)
{
	CLEANUP_FREE struct penstock_hist *h = calloc(1, sizeof(*h));
	struct stat_shape s;
	struct penstock_random r;

	(void)state;
	assert_non_null(h);
	assert_int_equal(stat_shape(&s, h), 0);
	assert_false(s.bimodal);
	penstock_random_seed(&r, 10);
	for (unsigned k = 0; k < 29; k++)
		penstock_hist_add(h, k % 2 ? 1000 : 100000);
	assert_int_equal(stat_shape(&s, h), 0);
	assert_false(s.bimodal);
	memset(h, 0, sizeof(*h));
	for (unsigned k = 0; k < 200; k++)
		penstock_hist_add(h, k < 6 ? 1000000000 : (uint64_t)(1e5 * exp(0.1 * normal(&r))));
	assert_int_equal(stat_shape(&s, h), 0);
	assert_false(s.bimodal);
	memset(h, 0, sizeof(*h));
	for (unsigned k = 0; k < 200; k++)
		penstock_hist_add(h, 4711);
	assert_int_equal(stat_shape(&s, h), 0);
	assert_false(s.bimodal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_quantiles_are_those_of_the_tables),
		cmocka_unit_test(a_summary_is_what_numpy_and_scipy_say),
		cmocka_unit_test(one_sample_has_no_deviation),
		cmocka_unit_test(few_samples_have_no_far_percentiles),
		cmocka_unit_test(intervals_of_runs_that_drift_overlap),
		cmocka_unit_test(an_interval_needs_three_samples_and_is_not_below_zero),
		cmocka_unit_test(moments_of_parts_are_those_of_the_whole),
		cmocka_unit_test(nineteen_of_twenty_intervals_contain_the_truth),
		cmocka_unit_test(small_rank_tests_are_exact),
		cmocka_unit_test(ties_are_corrected_for),
		cmocka_unit_test(tails_are_compared_by_whose_the_largest_values_are),
		cmocka_unit_test(equal_distributions_rarely_look_different),
		cmocka_unit_test(the_ratio_of_figures_has_an_interval_around_it),
		cmocka_unit_test(figures_are_those_of_sorted_values),
		cmocka_unit_test(equal_runs_rarely_have_a_ratio_other_than_one),
		cmocka_unit_test(a_handful_is_compared_by_students_t),
		cmocka_unit_test(one_peak_is_not_called_two),
		cmocka_unit_test(of_lognormal_latencies_2_in_100_look_like_two_peaks_at_most),
		cmocka_unit_test(two_peaks_are_found_with_their_shares),
		cmocka_unit_test(a_few_outliers_or_few_values_are_not_a_peak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
