/* SPDX-License-Identifier: Apache-2.0 */
/* Two sets of samples, by their ranks: the test of Mann and Whitney, and one of the tails. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/util.h"
#include "load/stat/stat.h"

struct ranked {
	double v;
	bool of_a;
};

static int rank_by_value(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return (x->v > y->v) - (x->v < y->v);
}

/* Sum of the ranks of a; ties share their mean rank.  *@ties: sum of t^3 - t. */
static double rank_sum(struct ranked *all, size_t n, double *ties)
{
	double sum = 0;

	*ties = 0;
	qsort(all, n, sizeof(*all), rank_by_value);
	for (size_t i = 0, end; i < n; i = end) {
		double t, rank;

		for (end = i + 1; end < n && all[end].v == all[i].v;)
			end++;
		t = (double)(end - i);
		rank = (double)i + (t + 1) / 2;
		*ties += t * t * t - t;
		for (size_t k = i; k < end; k++)
			sum += all[k].of_a ? rank : 0;
	}
	return sum;
}

/*
 * P(U <= u) over all orders of na and nb different values.  The number of orders
 * with a given U is a coefficient of the Gaussian binomial; here by the
 * recurrence over the largest value, whose owner is a or b.
 */
static double exact_cdf(double u, size_t na, size_t nb)
{
	static const unsigned size = STAT_EXACT_MAX * STAT_EXACT_MAX + 1;
	/* ways[j][k]: with i values of a (the loop) and j of b, the share of orders with U = k */
	CLEANUP_FREE double *ways = calloc((STAT_EXACT_MAX + 1) * size, sizeof(*ways));
	double p = 0;

	if (!ways)
		return NAN;
	for (size_t j = 0; j <= nb; j++)
		ways[j * size] = 1;
	for (size_t i = 1; i <= na; i++) {
		for (size_t j = 1; j <= nb; j++) {
			double of_a = (double)i / (double)(i + j);
			double *now = ways + j * size, *less = now - size;

			/* largest is a's: it beats all j of b; from the top, for now[] holds i - 1
			 */
			for (size_t k = i * j + 1; k-- > 0;)
				now[k] = (k >= j ? now[k - j] * of_a : 0) + less[k] * (1 - of_a);
		}
	}
	for (size_t k = 0; (double)k <= u; k++)
		p += ways[nb * size + k];
	return p;
}

static double normal_p(double u, double na, double nb, double ties)
{
	double n = na + nb, mean = na * nb / 2;
	double var = na * nb / 12 * (n + 1 - ties / (n * (n - 1)));
	double away = fabs(u - mean) - 0.5; /* continuity */

	if (var <= 0 || away <= 0)
		return 1;
	return 2 * stat_normal_cdf(-away / sqrt(var));
}

static struct ranked *merge_samples(const double *a, size_t na, const double *b, size_t nb)
{
	struct ranked *all = calloc(na + nb + 1, sizeof(*all));

	for (size_t i = 0; all && i < na + nb; i++)
		all[i] = (struct ranked){i < na ? a[i] : b[i - na], i < na};
	return all;
}

int stat_rank_test(struct stat_rank *ret, const double *a, size_t na, const double *b, size_t nb)
{
	size_t n = na + nb;
	CLEANUP_FREE struct ranked *all = merge_samples(a, na, b, nb);
	double ties, small;

	if (!na || !nb)
		return -EINVAL;
	if (!all)
		return -ENOMEM;
	ret->u = rank_sum(all, n, &ties) - (double)na * ((double)na + 1) / 2;
	ret->exact = ties == 0 && na <= STAT_EXACT_MAX && nb <= STAT_EXACT_MAX;
	small = fmin(ret->u, (double)na * (double)nb - ret->u);
	ret->p = ret->exact ? 2 * exact_cdf(small, na, nb)
			    : normal_p(ret->u, (double)na, (double)nb, ties);
	if (isnan(ret->p))
		return -ENOMEM;
	ret->p = fmin(ret->p, 1);
	return 0;
}

/* --------------------------------------------------------------------- tail */

static double log_choose(double n, double k)
{
	return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* P(X <= @x) when @t of @n values, @na of them marked, are drawn: marked ones among them. */
static double hypergeometric_cdf(size_t x, size_t t, size_t na, size_t n)
{
	double sum = 0;

	for (size_t i = t > n - na ? t - (n - na) : 0; i <= x && i <= na; i++)
		sum += exp(log_choose((double)na, (double)i) +
			   log_choose((double)(n - na), (double)(t - i)) -
			   log_choose((double)n, (double)t));
	return fmin(sum, 1);
}

int stat_tail_test(double *ret_p, const double *a, size_t na, const double *b, size_t nb)
{
	size_t n = na + nb, top = n / 50 > STAT_TAIL_MIN ? n / 50 : STAT_TAIL_MIN, of_a = 0;
	CLEANUP_FREE struct ranked *all = merge_samples(a, na, b, nb);
	double low, high;

	if (!na || !nb || top >= n)
		return -EINVAL;
	if (!all)
		return -ENOMEM;
	qsort(all, n, sizeof(*all), rank_by_value);
	while (top < n && all[n - top - 1].v >= all[n - top].v) /* ties belong together */
		top++;
	for (size_t i = n - top; i < n; i++)
		of_a += all[i].of_a;
	low = hypergeometric_cdf(of_a, top, na, n);
	high = hypergeometric_cdf(top - of_a, top, nb, n);
	*ret_p = fmin(1, 2 * fmin(low, high));
	return 0;
}
