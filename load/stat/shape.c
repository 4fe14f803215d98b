/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a latency distribution bimodal?
 *
 * The density of the logarithm of the latency is estimated with a Gaussian
 * kernel, whose width is Silverman's (0.9 sigma n^-0.2, sigma the smaller of the
 * standard deviation and a 1.34th of the interquartile range, both of the
 * logarithms).  Each local minimum of that density cuts the values in two.  The
 * answer is yes when for one of them
 *
 *  - both sides hold at least 5 % of the values, and at least 10 of them,
 *  - the peaks of the two sides are at least a factor of 1.25 apart, and
 *  - the minimum is lower than half of the lower peak.
 *
 * A single log-normal, gamma or exponential distribution does not look like that
 * by chance (tests/unit/stat.c counts), while a cache, a second tier or a
 * throttled device does.  Of several such cuts the deepest is reported.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/stat/stat.h"

#define GRID      512
#define MIN_SHARE 0.05
#define MIN_SIDE  10
#define MIN_APART 0.2231 /* log(1.25) */
#define MAX_DEPTH 0.5
/* Below two buckets of the histogram the kernel would see the buckets. */
#define MIN_WIDTH (2.0 / (1 << SLUICE_HIST_BITS))

struct point {
	double x, weight; /* log(ns), number of values */
};

struct density {
	struct point *points;
	unsigned nr;
	double n, from, step, width;
	double at[GRID];
};

static double grid_x(const struct density *d, unsigned i)
{
	return d->from + d->step * i;
}

static void collect(struct density *d, const struct sluice_hist *h)
{
	struct sluice_hist_bucket b;

	for (unsigned pos = 0; sluice_hist_next(h, &pos, &b);) {
		double mid = (double)(b.low + b.high) / 2;

		d->points[d->nr++] = (struct point){log(mid < 1 ? 1 : mid), (double)b.count};
	}
	d->n = (double)h->count;
}

static double kernel_width(const struct density *d, const struct sluice_hist *h)
{
	double mean = 0, var = 0, sigma, quartiles;

	for (unsigned i = 0; i < d->nr; i++)
		mean += d->points[i].x * d->points[i].weight / d->n;
	for (unsigned i = 0; i < d->nr; i++)
		var += (d->points[i].x - mean) * (d->points[i].x - mean) * d->points[i].weight /
		       (d->n - 1);
	sigma = sqrt(var);
	quartiles = log(fmax(sluice_hist_percentile(h, 75), 1)) -
		    log(fmax(sluice_hist_percentile(h, 25), 1));
	if (quartiles > 0)
		sigma = fmin(sigma, quartiles / 1.34);
	return fmax(0.9 * sigma * pow(d->n, -0.2), MIN_WIDTH);
}

static void estimate(struct density *d)
{
	double first = d->points[0].x - 3 * d->width;
	double last = d->points[d->nr - 1].x + 3 * d->width;

	d->from = first;
	d->step = (last - first) / (GRID - 1);
	d->width = fmax(d->width, d->step); /* far outliers stretch the grid */
	for (unsigned i = 0; i < GRID; i++) {
		double sum = 0;

		for (unsigned k = 0; k < d->nr; k++) {
			double z = (grid_x(d, i) - d->points[k].x) / d->width;

			if (fabs(z) < 5)
				sum += d->points[k].weight * exp(-z * z / 2);
		}
		d->at[i] = sum;
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

static double mass_below(const struct density *d, double x)
{
	double sum = 0;

	for (unsigned i = 0; i < d->nr && d->points[i].x < x; i++)
		sum += d->points[i].weight;
	return sum;
}

/* Judge a cut at grid point @i: how deep it is (0 is deepest), or 1 when it does not count. */
static double judge(struct stat_shape *ret, const struct density *d, unsigned i)
{
	unsigned l = highest(d, 0, i), r = highest(d, i + 1, GRID);
	double below = mass_below(d, grid_x(d, i)), above = d->n - below;
	double depth = d->at[i] / fmin(d->at[l], d->at[r]);

	if (fmin(below, above) < fmax(MIN_SHARE * d->n, MIN_SIDE) ||
	    grid_x(d, r) - grid_x(d, l) < MIN_APART || depth >= MAX_DEPTH)
		return 1;
	*ret = (struct stat_shape){
		.bimodal = true,
		.peak = {{exp(grid_x(d, l)), below / d->n}, {exp(grid_x(d, r)), above / d->n}},
		.split_ns = exp(grid_x(d, i)),
	};
	return depth;
}

int stat_shape(struct stat_shape *ret, const struct sluice_hist *h)
{
	CLEANUP_FREE struct point *points = NULL;
	CLEANUP_FREE struct density *d = NULL;
	double best = 1;

	*ret = (struct stat_shape){.bimodal = false};
	if (h->count < STAT_SHAPE_MIN)
		return 0;
	points = calloc(SLUICE_HIST_SIZE, sizeof(*points));
	d = calloc(1, sizeof(*d));
	if (!points || !d)
		return -ENOMEM;
	d->points = points;
	collect(d, h);
	d->width = kernel_width(d, h);
	estimate(d);
	for (unsigned i = 1; i + 1 < GRID; i++) {
		struct stat_shape cut;
		double depth;

		if (d->at[i] > d->at[i - 1] || d->at[i] > d->at[i + 1])
			continue;
		depth = judge(&cut, d, i);
		if (depth < best) {
			best = depth;
			*ret = cut;
		}
	}
	return 0;
}
