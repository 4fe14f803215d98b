/* SPDX-License-Identifier: Apache-2.0 */
/* How much larger is one set of samples than another: by bootstrap, and by Student's t for few. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/util.h"
#include "load/stat/stat.h"

/* ------------------------------------------------------------------ figures */

/* Move the @k-th smallest of @v to its place, smaller ones before it (Hoare). */
static void select_kth(double *v, size_t n, size_t k)
{
	size_t low = 0, high = n - 1;

	while (low < high) {
		double pivot = v[low + (high - low) / 2];
		size_t i = low, j = high;

		for (;;) {
			double t;

			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i >= j)
				break;
			t = v[i];
			v[i++] = v[j];
			v[j--] = t;
		}
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
}

/* As stat_percentile(), without sorting all of @v. */
static double percentile(double *v, size_t n, double p)
{
	double at = (double)(n - 1) * p / 100, next;
	size_t k = (size_t)at;

	select_kth(v, n, k);
	if (k + 1 >= n)
		return v[k];
	next = v[k + 1];
	for (size_t i = k + 2; i < n; i++)
		next = fmin(next, v[i]);
	return v[k] + (next - v[k]) * (at - (double)k);
}

/* Changes the order of @v. */
static double figure(enum stat_figure of, double *v, size_t n)
{
	double sum = 0;

	if (of != STAT_MEAN)
		return percentile(v, n, of == STAT_MEDIAN ? 50 : 99);
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return sum / (double)n;
}

/* ---------------------------------------------------------------- bootstrap */

/* The figure of as many values resampled with replacement, in blocks of neighbours. */
static double resampled(enum stat_figure of, double *scratch, const struct stat_sample *s,
			struct penstock_random *r)
{
	for (size_t i = 0; i < s->n;) {
		size_t from = penstock_random_below(r, s->n);

		for (size_t k = 0; k < (s->block ? s->block : 1) && i < s->n; k++)
			scratch[i++] = s->v[(from + k) % s->n];
	}
	return figure(of, scratch, s->n);
}

/*
 * Twice the share of the draws on the wrong side of 1; where there is none, what a
 * normal distribution of their logarithms would have there.
 */
static double bootstrap_p(const double *sorted, unsigned n, double ratio)
{
	struct stat_moments m = {0};
	unsigned below = 0, above = 0, wrong;

	for (unsigned i = 0; i < n; i++) {
		below += sorted[i] <= 1;
		above += sorted[i] >= 1;
		if (isfinite(log(sorted[i])))
			stat_moments_add(&m, log(sorted[i]));
	}
	wrong = below < above ? below : above;
	if (wrong || m.n < 2 || m.m2 <= 0)
		return fmin(1, 2 * fmax(wrong, 1) / n);
	return fmin(1.0 / n,
		    2 * stat_normal_cdf(-fabs(log(ratio)) / sqrt(m.m2 / (double)(m.n - 1))));
}

static double figure_of_sample(enum stat_figure of, double *scratch, const struct stat_sample *s)
{
	memcpy(scratch, s->v, s->n * sizeof(*scratch));
	return figure(of, scratch, s->n);
}

int stat_ratio(struct stat_ratio *ret, enum stat_figure of, const struct stat_sample *a,
	       const struct stat_sample *b, double centre, unsigned rounds, uint64_t seed)
{
	size_t max_n = a->n > b->n ? a->n : b->n;
	CLEANUP_FREE double *scratch = max_n ? calloc(max_n, sizeof(*scratch)) : NULL;
	CLEANUP_FREE double *ratios = rounds ? calloc(rounds, sizeof(*ratios)) : NULL;
	struct penstock_random r;
	double base, scale;

	if (!a->n || !b->n || !rounds)
		return -EINVAL;
	if (!scratch || !ratios)
		return -ENOMEM;
	base = figure_of_sample(of, scratch, a);
	scale = figure_of_sample(of, scratch, b);
	if (!(base > 0) || !(scale > 0))
		return -EINVAL;
	ret->ratio = centre > 0 ? centre : scale / base;
	scale = ret->ratio / (scale / base);
	penstock_random_seed(&r, seed);
	for (unsigned i = 0; i < rounds; i++) {
		double x = resampled(of, scratch, a, &r), y = resampled(of, scratch, b, &r);

		ratios[i] = x > 0 ? scale * y / x : INFINITY;
	}
	stat_sort(ratios, rounds);
	ret->low = stat_percentile(ratios, rounds, 2.5);
	ret->high = stat_percentile(ratios, rounds, 97.5);
	ret->p = bootstrap_p(ratios, rounds, ret->ratio);
	return 0;
}

/* -------------------------------------------------------------- Student's t */

static int log_moments(struct stat_moments *m, const struct stat_sample *s)
{
	*m = (struct stat_moments){0};
	for (size_t i = 0; i < s->n; i++) {
		if (!(s->v[i] > 0))
			return -EINVAL;
		stat_moments_add(m, log(s->v[i]));
	}
	return m->n > 1 ? 0 : -EINVAL;
}

int stat_ratio_few(struct stat_ratio *ret, const struct stat_sample *a, const struct stat_sample *b,
		   double centre)
{
	struct stat_moments x, y;
	double vx, vy, error, df, half;

	if (log_moments(&x, a) < 0 || log_moments(&y, b) < 0)
		return -EINVAL;
	vx = x.m2 / (double)(x.n - 1) / (double)x.n;
	vy = y.m2 / (double)(y.n - 1) / (double)y.n;
	error = sqrt(vx + vy);
	ret->ratio = centre > 0 ? centre : exp(y.mean - x.mean);
	if (error <= 0) { /* all the same: nothing is known of how they vary */
		ret->low = ret->high = ret->ratio;
		ret->p = 1;
		return 0;
	}
	df = (vx + vy) * (vx + vy) / (vx * vx / (double)(x.n - 1) + vy * vy / (double)(y.n - 1));
	half = stat_t_quantile(0.975, df) * error;
	ret->low = ret->ratio * exp(-half);
	ret->high = ret->ratio * exp(half);
	ret->p = 2 * stat_t_cdf(-fabs(log(ret->ratio)) / error, df);
	return 0;
}
