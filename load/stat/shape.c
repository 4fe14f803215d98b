/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a latency distribution bimodal?
 *
 * The density of the logarithm of the latency is estimated with Gaussian kernels
 * of several widths: Silverman's (0.9 sigma n^-0.2, sigma the smaller of the
 * standard deviation and a 1.34th of the interquartile range, both of the
 * logarithms), which is made for one peak and hides two that are near each other,
 * and fractions of it.  Each local minimum of such a density cuts the values in
 * two.  The answer is yes when for one of them
 *
 *  - both sides hold at least 5 % of the values, and at least 5 of them,
 *  - the peaks of the two sides are at least a factor of 1.25 apart,
 *  - the minimum is lower than 0.6 of the lower peak, and
 *  - that is not chance, which either of two tests may show.
 *
 * The dip of Hartigan and Hartigan (1985) sees peaks of similar size: how far the
 * distribution is at least from all those with one peak.  A small peak is seen by
 * counting.  If there were one peak only, the density would not rise again on the
 * way from the higher peak through the minimum to the lower one, so values that
 * fall into the valley or onto the lower peak would fall into the valley at least
 * as often as its share of the width of both; it has to be emptier than that.  The
 * places are chosen by the same values, so the chance of a false alarm is larger
 * than MAX_CHANCE; tests/unit/load/stat/stat.c counts that it stays below 2 %.
 *
 * Of several such cuts the one least likely by chance is reported.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/stat/stat.h"

#define GRID       1024
#define MIN_SHARE  0.05
#define MIN_SIDE   5
#define MIN_APART  0.2231 /* log(1.25) */
#define MAX_DEPTH  0.6
#define MAX_CHANCE 0.008
#define VALLEY     0.25 /* it is where the density has not risen by more than that */
#define PEAK       0.5  /* and it where it has by at least that */
#define MIN_DIP    0.45 /* times sqrt(n); even uniform values reach it only 2 times in 100 */
/* Below two buckets of the histogram the kernel would see the buckets. */
#define MIN_WIDTH (2.0 / (1 << PENSTOCK_HIST_BITS))

static const double widths[] = {1, 0.7, 0.5};

struct density {
	double n, from, step; /* values; log(ns) of the first point of the grid */
	double count[GRID];   /* values near each point */
	double below[GRID];   /* values left of the middle of each point */
	double at[GRID];      /* the density, not normalised */
};

static double grid_x(const struct density *d, unsigned i)
{
	return d->from + d->step * i;
}

static double log_middle(const struct penstock_hist_bucket *b)
{
	return log(fmax((double)(b->low + b->high) / 2, 1));
}

static double silverman(const struct penstock_hist *h)
{
	double n = (double)h->count, sigma, quartiles;
	struct stat_moments m = {0};
	struct penstock_hist_bucket b;

	for (unsigned pos = 0; penstock_hist_next(h, &pos, &b);) {
		struct stat_moments same = {b.count, log_middle(&b), 0, 0, 0};

		stat_moments_merge(&m, &same);
	}
	sigma = sqrt(m.m2 / (n - 1));
	quartiles = log(fmax(penstock_hist_percentile(h, 75), 1)) -
		    log(fmax(penstock_hist_percentile(h, 25), 1));
	if (quartiles > 0)
		sigma = fmin(sigma, quartiles / 1.34);
	return 0.9 * sigma * pow(n, -0.2);
}

/* Put the values on a grid that leaves @air at both ends. */
static void shape_collect(struct density *d, const struct penstock_hist *h, double air)
{
	double first = log(fmax((double)h->min, 1)) - air;
	double last = log(fmax((double)h->max, 1)) + air, sum = 0;
	struct penstock_hist_bucket b;

	d->n = (double)h->count;
	d->from = first;
	d->step = (last - first) / (GRID - 1);
	for (unsigned pos = 0; penstock_hist_next(h, &pos, &b);) {
		double i = (log_middle(&b) - first) / d->step + 0.5;

		d->count[i < 0 ? 0 : i >= GRID ? GRID - 1 : (unsigned)i] += (double)b.count;
	}
	for (unsigned i = 0; i < GRID; i++) {
		d->below[i] = sum + d->count[i] / 2;
		sum += d->count[i];
	}
}

static void estimate(struct density *d, double width)
{
	double kernel[GRID];
	unsigned reach = 0;

	width = fmax(width, d->step); /* far outliers stretch the grid */
	for (; reach < GRID && reach * d->step < 5 * width; reach++) {
		double z = reach * d->step / width;

		kernel[reach] = exp(-z * z / 2);
	}
	memset(d->at, 0, sizeof(d->at));
	for (unsigned k = 0; k < GRID; k++) {
		unsigned low = k < reach ? 0 : k - reach + 1;

		for (unsigned i = low; d->count[k] > 0 && i < GRID && i < k + reach; i++)
			d->at[i] += d->count[k] * kernel[i < k ? k - i : i - k];
	}
}

/* Index of the highest point of [from, to). */
static unsigned highest(const struct density *d, unsigned from, unsigned to)
{
	unsigned best = from;

	for (unsigned i = from; i < to; i++)
		if (d->at[i] > d->at[best])
			best = i;
	return best;
}

/* From @i on in direction @step, as long as the density stays above (or below) @level. */
static unsigned walk(const struct density *d, unsigned i, int step, bool above, double level)
{
	while (i > 0 && i < GRID - 1 && (d->at[i + (unsigned)step] > level) == above)
		i += (unsigned)step;
	return i;
}

/* P(X <= @k) of a binomial distribution. */
static double binomial_cdf(unsigned k, unsigned n, double p)
{
	double sum = 0;

	for (unsigned i = 0; i <= k; i++)
		sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) + i * log(p) +
			   (n - i) * log1p(-p));
	return fmin(sum, 1);
}

/*
 * With one peak only, the valley around @v would have its share of the values
 * between there and the far side of the lower peak @p.  How likely is so few?
 */
static double chance(const struct density *d, unsigned v, unsigned p)
{
	int to = p > v ? 1 : -1;
	double rise = d->at[p] - d->at[v], low = d->at[v] + VALLEY * rise;
	double high = d->at[v] + PEAK * rise, in_valley, on_peak, valley, peak;
	unsigned v1 = walk(d, v, -to, false, low), v2 = walk(d, v, to, false, low);
	unsigned p1 = walk(d, p, -to, true, high), p2 = walk(d, p, to, true, high);
	double share;

	in_valley = fabs(d->below[v2] - d->below[v1]);
	on_peak = fabs(d->below[p2] - d->below[p1]);
	valley = fabs((double)v2 - v1);
	peak = fabs((double)p2 - p1);
	share = valley / (valley + peak);
	if (share <= 0 || share >= 1 || on_peak < 1)
		return 1;
	if (in_valley + on_peak > 1000) { /* as certain with so many of them */
		double less = 1000 / (in_valley + on_peak);

		in_valley *= less;
		on_peak *= less;
	}
	return binomial_cdf((unsigned)in_valley, (unsigned)(in_valley + on_peak + 0.5), share);
}

/* ---------------------------------------------------------------------- dip */

/* How far @sign times the distribution is above its convex minorant on [from, to]. */
static double gap(const struct density *d, unsigned from, unsigned to, double sign)
{
	unsigned hull[GRID], nr = 0;
	double most = 0;

	for (unsigned i = from; i <= to; i++) {
		while (nr > 1) {
			unsigned a = hull[nr - 2], b = hull[nr - 1];
			double left = sign * (d->below[b] - d->below[a]) * (i - b);
			double right = sign * (d->below[i] - d->below[b]) * (b - a);

			if (left < right)
				break;
			nr--;
		}
		hull[nr++] = i;
	}
	for (unsigned k = 0; k + 1 < nr; k++) {
		unsigned a = hull[k], b = hull[k + 1];
		double slope = (d->below[b] - d->below[a]) / (b - a);

		for (unsigned i = a + 1; i < b; i++)
			most = fmax(most, sign * (d->below[i] - d->below[a] - slope * (i - a)));
	}
	return most;
}

/* Convex up to the peak, concave behind it: half the larger gap at the best place for a peak. */
static double dip(const struct density *d)
{
	unsigned low = 0, high = GRID - 1;

	while (high - low > 1) { /* the left gap grows with the place, the right one shrinks */
		unsigned mid = (low + high) / 2;

		if (gap(d, 0, mid, 1) < gap(d, mid, GRID - 1, -1))
			low = mid;
		else
			high = mid;
	}
	return fmin(fmax(gap(d, 0, low, 1), gap(d, low, GRID - 1, -1)),
		    fmax(gap(d, 0, high, 1), gap(d, high, GRID - 1, -1))) /
	       (2 * d->n);
}

/* --------------------------------------------------------------------- cuts */

/* Judge a cut at grid point @i: how likely it is by chance, or 1 when it does not count. */
static double shape_judge(struct stat_shape *ret, const struct density *d, unsigned i)
{
	unsigned l = highest(d, 0, i), r = highest(d, i + 1, GRID);
	double below = d->below[i], above = d->n - below;

	if (fmin(below, above) < fmax(MIN_SHARE * d->n, MIN_SIDE) ||
	    grid_x(d, r) - grid_x(d, l) < MIN_APART ||
	    d->at[i] >= MAX_DEPTH * fmin(d->at[l], d->at[r]))
		return 1;
	*ret = (struct stat_shape){
		.bimodal = true,
		.peak = {{exp(grid_x(d, l)), below / d->n}, {exp(grid_x(d, r)), above / d->n}},
		.split_ns = exp(grid_x(d, i)),
	};
	return chance(d, i, d->at[l] < d->at[r] ? l : r);
}

int stat_shape(struct stat_shape *ret, const struct penstock_hist *h)
{
	CLEANUP_FREE struct density *d = NULL;
	double best, width;

	*ret = (struct stat_shape){.bimodal = false};
	if (h->count < STAT_SHAPE_MIN)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	width = fmax(silverman(h), MIN_WIDTH);
	shape_collect(d, h, 3 * width);
	best = dip(d) * sqrt(d->n) > MIN_DIP ? 1 : MAX_CHANCE;
	for (unsigned w = 0; w < ARRAY_SIZE(widths); w++) {
		estimate(d, fmax(width * widths[w], MIN_WIDTH));
		for (unsigned i = 1; i + 1 < GRID; i++) {
			struct stat_shape cut;
			double p;

			if (d->at[i] > d->at[i - 1] || d->at[i] > d->at[i + 1])
				continue;
			p = shape_judge(&cut, d, i);
			if (p < best) {
				best = p;
				*ret = cut;
			}
		}
	}
	return 0;
}
