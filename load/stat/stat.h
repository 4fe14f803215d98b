/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_STAT_STAT_H
#define PENSTOCK_STAT_STAT_H

/*
 * What can be said about samples: one set (struct stat_summary), two sets
 * (stat_rank_test(), stat_ratio(), stat_ratio_few()), and the shape of a distribution
 * (stat_shape()).  Pure functions; random ones take a seed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hist.h"

/* The percentiles of every summary, and how results call them ("p99.9"). */
#define STAT_PERCENTILES 8
extern const double stat_percentile_at[STAT_PERCENTILES];
extern const char *const stat_percentile_name[STAT_PERCENTILES];
enum { STAT_P1, STAT_P5, STAT_P50, STAT_P90, STAT_P95, STAT_P99, STAT_P999, STAT_P9999 };

/* Of two samples the interval would be 13 times their deviation wide, which tells nobody a thing.
 */
#define STAT_CI_MIN 3
struct stat_summary {
	uint64_t n;
	double mean, median, min, max;
	double stddev;                       /* with n - 1; NAN for n < 2 */
	double ci_low, ci_high;              /* Student's t at 95 %; NAN below STAT_CI_MIN */
	double percentile[STAT_PERCENTILES]; /* NAN: too few for it */
};

/*
 * Do @n samples tell percentile @p (0..100)?  At least one of them must be beyond it: 100 for p99,
 * 1000 for p99.9.  The median is always told.
 */
bool stat_percentile_known(uint64_t n, double p);

/* Mean and deviation of a stream, without keeping it (Welford); zeroed is empty. */
struct stat_moments {
	uint64_t n;
	double mean, m2, min, max;
};
void stat_moments_add(struct stat_moments *m, double v);
void stat_moments_merge(struct stat_moments *m, const struct stat_moments *other);
/* All of a summary but median and percentiles, which become NAN. */
void stat_moments_summary(struct stat_summary *ret, const struct stat_moments *m);

/*
 * Half of the 95 % interval of the mean of @n figures that were taken one after the other.  Where
 * neighbours resemble each other, as on a device that drifts, they count for fewer.  NAN below
 * STAT_CI_MIN.
 */
double stat_drift_half(const double *v, size_t n);

/* Percentile @p (0..100) of sorted samples, linear between neighbours as numpy's. */
double stat_percentile(const double *sorted, size_t n, double p);
void stat_sort(double *v, size_t n);
double stat_median(double *v, size_t n); /* sorts @v */

/* Student's t: P(T <= @t) with @df degrees of freedom, and its inverse. */
double stat_t_cdf(double t, double df);
double stat_t_quantile(double p, double df);
/* The two-sided factor at 95 % for @n samples: 1.972 for 200. */
double stat_t95(uint64_t n);
/* P(Z <= z) of the normal distribution. */
double stat_normal_cdf(double z);

/*
 * Mann-Whitney: are values of @a and @b drawn from the same distribution?  Two
 * sided.  Exact without ties and with at most STAT_EXACT_MAX samples each, else
 * by the normal approximation with the corrections for ties and continuity.
 */
#define STAT_EXACT_MAX 20
struct stat_rank {
	double u; /* of a: pairs in which a's value is larger, ties count half */
	double p; /* of a difference as large as this by chance */
	bool exact;
};
int stat_rank_test(struct stat_rank *ret, const double *a, size_t na, const double *b, size_t nb);

/*
 * Are the largest values of @a and @b drawn from the same distribution?  Looks at the
 * largest 2 % of all, or STAT_TAIL_MIN of them, and asks how likely it is that so many
 * or so few are a's (Fisher's exact test, two-sided).  -EINVAL when there are too few.
 */
#define STAT_TAIL_MIN 8
int stat_tail_test(double *ret_p, const double *a, size_t na, const double *b, size_t nb);

/*
 * How much larger a figure of @b is than that of @a: the ratio, its 95 % interval,
 * and the chance of one as far from 1 without a difference (two-sided).  @centre:
 * the ratio, where it is known from more than these samples, and the interval goes
 * around it; NAN: that of the samples.
 */
enum stat_figure { STAT_MEDIAN, STAT_MEAN, STAT_99TH };
struct stat_sample {
	const double *v;
	size_t n;
	size_t block; /* neighbours that resemble each other are drawn together; 0, 1: each alone */
};
struct stat_ratio {
	double ratio, low, high, p;
};
/*
 * By @rounds bootstrap samples (percentile method, circular blocks).  Returns 0,
 * -ENOMEM, or -EINVAL when there are no samples or a figure is not above 0.
 */
int stat_ratio(struct stat_ratio *ret, enum stat_figure of, const struct stat_sample *a,
	       const struct stat_sample *b, double centre, unsigned rounds, uint64_t seed);
/*
 * By Welch's t test of the logarithms, for a handful of samples.  Returns 0, or -EINVAL
 * when there are fewer than two of one, or one is not above 0.
 */
int stat_ratio_few(struct stat_ratio *ret, const struct stat_sample *a, const struct stat_sample *b,
		   double centre);

/*
 * Has the distribution two separate peaks?  See shape.c for the method.  With
 * fewer than STAT_SHAPE_MIN values the answer is no.
 */
#define STAT_SHAPE_MIN 30
struct stat_peak {
	double ns;    /* where it is highest */
	double share; /* of all values, 0..1 */
};
struct stat_shape {
	bool bimodal;
	struct stat_peak peak[2]; /* when bimodal: the faster one first */
	double split_ns;          /* between them */
};
int stat_shape(struct stat_shape *ret, const struct penstock_hist *h);

#endif
