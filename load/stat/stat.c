/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of one set of samples, and Student's t, which their intervals need. */
#include "load/stat/stat.h"

#include <math.h>
#include <stdlib.h>

#include "base/util.h"

const double stat_percentile_at[STAT_PERCENTILES] = {1, 5, 50, 90, 95, 99, 99.9, 99.99};
const char *const stat_percentile_name[STAT_PERCENTILES] = {"p1",  "p5",  "p50",   "p90",
							    "p95", "p99", "p99.9", "p99.99"};

/* ------------------------------------------------------------- Student's t */

/*
 * Continued fraction of the incomplete beta function (Abramowitz and Stegun
 * 26.5.8), evaluated by Lentz's method; converges fast for x < (a+1)/(a+b+2).
 */
static double beta_fraction(double x, double a, double b)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1), f;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	f = d;
	for (int m = 1; m < 10000; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));

		for (int i = 0; i < 2; i++) {
			double k = i ? odd : even;

			d = 1 + k * d;
			c = 1 + k / c;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = fabs(c) < tiny ? tiny : c;
			f *= c * d;
		}
		if (fabs(c * d - 1) < 1e-15)
			break;
	}
	return f;
}

/* Regularised incomplete beta function. */
static double beta_inc(double x, double a, double b)
{
	double front;

	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(x, a, b) / a;
	return 1 - front * beta_fraction(1 - x, b, a) / b;
}

double stat_t_cdf(double t, double df)
{
	double tail = beta_inc(df / (df + t * t), df / 2, 0.5) / 2;

	return t > 0 ? 1 - tail : tail;
}

double stat_t_quantile(double p, double df)
{
	double low = 0, high = 1;

	if (p < 0.5)
		return -stat_t_quantile(1 - p, df);
	if (p == 0.5)
		return 0;
	while (stat_t_cdf(high, df) < p && high < 1e12)
		high *= 2;
	for (int i = 0; i < 200 && high - low > 1e-13 * high; i++) {
		double mid = (low + high) / 2;

		if (stat_t_cdf(mid, df) < p)
			low = mid;
		else
			high = mid;
	}
	return (low + high) / 2;
}

double stat_t95(uint64_t n)
{
	return n > 1 ? stat_t_quantile(0.975, (double)(n - 1)) : NAN;
}

double stat_normal_cdf(double z)
{
	return erfc(-z / sqrt(2)) / 2;
}

/* ------------------------------------------------------------------ moments */

void stat_moments_add(struct stat_moments *m, double v)
{
	double delta = v - m->mean;

	m->min = m->n && m->min < v ? m->min : v;
	m->max = m->n && m->max > v ? m->max : v;
	m->n++;
	m->mean += delta / (double)m->n;
	m->m2 += delta * (v - m->mean);
}

void stat_moments_merge(struct stat_moments *m, const struct stat_moments *other)
{
	double n = (double)m->n + (double)other->n, delta = other->mean - m->mean;

	if (!other->n)
		return;
	if (!m->n) {
		*m = *other;
		return;
	}
	m->m2 += other->m2 + delta * delta * (double)m->n * (double)other->n / n;
	m->mean += delta * (double)other->n / n;
	m->min = m->min < other->min ? m->min : other->min;
	m->max = m->max > other->max ? m->max : other->max;
	m->n += other->n;
}

void stat_moments_summary(struct stat_summary *ret, const struct stat_moments *m)
{
	double half;

	*ret = (struct stat_summary){.n = m->n, .mean = m->mean, .min = m->min, .max = m->max};
	ret->stddev = m->n > 1 ? sqrt(m->m2 / (double)(m->n - 1)) : NAN;
	half = m->n >= STAT_CI_MIN ? stat_t95(m->n) * ret->stddev / sqrt((double)m->n) : NAN;
	ret->ci_low = m->mean - half;
	if (m->min >= 0 && ret->ci_low < 0) /* of times and rates: none is below 0 */
		ret->ci_low = 0;
	ret->ci_high = m->mean + half;
	ret->median = NAN;
	for (unsigned i = 0; i < STAT_PERCENTILES; i++)
		ret->percentile[i] = NAN;
}

/* --------------------------------------------------------------- one sample */

static int stat_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void stat_sort(double *v, size_t n)
{
	if (n)
		qsort(v, n, sizeof(*v), stat_by_value);
}

double stat_percentile(const double *sorted, size_t n, double p)
{
	double at = (double)(n - 1) * p / 100;
	size_t k = (size_t)at;

	if (k + 1 >= n)
		return sorted[n - 1];
	return sorted[k] + (sorted[k + 1] - sorted[k]) * (at - (double)k);
}

double stat_median(double *v, size_t n)
{
	stat_sort(v, n);
	return stat_percentile(v, n, 50);
}

bool stat_percentile_known(uint64_t n, double p)
{
	/* 1000 times 0.1 % is not quite 1 in binary */
	return p == 50 || (double)n * fmin(p, 100 - p) / 100 > 1 - 1e-9;
}

/*
 * The correlation of neighbours, corrected for its bias of about -1/n, says how many independent
 * figures these are worth, as for a first-order process; it is never counted in their favour.
 */
double stat_drift_half(const double *v, size_t n)
{
	struct stat_moments m = {0};
	double c = 0, r, worth;

	for (size_t i = 0; i < n; i++)
		stat_moments_add(&m, v[i]);
	if (n < STAT_CI_MIN)
		return NAN;
	if (m.m2 <= 0)
		return 0;
	for (size_t i = 1; i < n; i++)
		c += (v[i] - m.mean) * (v[i - 1] - m.mean);
	r = fmax(0, c / m.m2 + 1 / (double)n);
	worth = fmax(2, (double)n * (1 - r) / (1 + r));
	return stat_t_quantile(0.975, worth - 1) * sqrt(m.m2 / (double)(n - 1) / worth);
}
