/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An additive model: axes that do not interact add up, in logarithms.  It is fitted by
 * going round the axes, each explaining what the others leave (backfitting).
 */
#include "load/jobs/tune_race.h"

#include <math.h>
#include <stdlib.h>

#include "base/util.h"
#include "load/stat/stat.h"

#define SWEEPS 30 /* of backfitting: the effects of few axes settle in less ... */
#define LEVELS 10 /* ... and means need not be exact to tell who promises more */

unsigned tune_race_level(const struct tune_race_job *job, unsigned point, unsigned axis)
{
	for (unsigned a = job->nr_axes; a-- > axis + 1;)
		point /= job->levels[a];
	return point % job->levels[axis];
}

/* A shuffled list in which each of @levels comes equally often. */
static void shuffle_levels(unsigned *shuffled, unsigned nr, unsigned levels,
			   struct penstock_random *random)
{
	for (unsigned i = 0; i < nr; i++)
		shuffled[i] = i % levels;
	for (unsigned i = nr; i > 1; i--) {
		unsigned k = (unsigned)penstock_random_below(random, i), t = shuffled[k];

		shuffled[k] = shuffled[i - 1];
		shuffled[i - 1] = t;
	}
}

void tune_race_draw_screen(const struct tune_race_job *job, struct penstock_random *random,
			   unsigned nr, bool *in)
{
	CLEANUP_FREE unsigned *at = calloc(nr, sizeof(*at));
	CLEANUP_FREE unsigned *shuffled = calloc(nr, sizeof(*shuffled));

	in[0] = true; /* at least one, whatever memory says */
	if (!at || !shuffled)
		return;
	in[0] = false;
	for (unsigned a = 0; a < job->nr_axes; a++) {
		shuffle_levels(shuffled, nr, job->levels[a], random);
		for (unsigned i = 0; i < nr; i++)
			at[i] = at[i] * job->levels[a] + shuffled[i];
	}
	/* Two hands may be the same point: then there is one point less. */
	for (unsigned i = 0; i < nr; i++)
		in[at[i]] = true;
}

/* What the scores of each round have in common, beyond what the means of their points say. */
static void fit_rounds(const struct tune_race_result *res, double *common, unsigned *nr)
{
	for (unsigned k = 0; k < res->rounds; k++)
		common[k] = nr[k] = 0;
	for (unsigned i = 0; i < res->nr_points; i++) {
		const struct tune_race_point *p = &res->points[i];

		for (unsigned k = 0; k < p->nr; k++) {
			common[p->rounds[k]] += p->scores[k] - p->mean;
			nr[p->rounds[k]]++;
		}
	}
	for (unsigned k = 0; k < res->rounds; k++)
		common[k] = nr[k] ? common[k] / nr[k] : 0;
}

static void fit_means(struct tune_race_result *res, const double *common)
{
	for (unsigned i = 0; i < res->nr_points; i++) {
		struct tune_race_point *p = &res->points[i];
		double sum = 0;

		for (unsigned k = 0; k < p->nr; k++)
			sum += p->scores[k] - (common ? common[p->rounds[k]] : 0);
		p->mean = p->nr ? sum / p->nr : 0;
	}
}

void tune_race_remove_drift(struct tune_race_result *res)
{
	CLEANUP_FREE double *common = calloc(res->rounds + 1, sizeof(*common));
	CLEANUP_FREE unsigned *nr = calloc(res->rounds + 1, sizeof(*nr));

	fit_means(res, NULL);
	for (unsigned sweep = 0; common && nr && sweep < LEVELS; sweep++) {
		fit_rounds(res, common, nr);
		fit_means(res, common);
	}
}

/* The mean of what the other axes leave unexplained, for each level of @axis. */
static void fit_axis(const struct tune_race_job *job, struct tune_race_result *res, unsigned axis,
		     double base)
{
	for (unsigned l = 0; l < job->levels[axis]; l++) {
		double sum = 0, weight = 0;

		for (unsigned i = 0; i < res->nr_points; i++) {
			double residual = res->points[i].mean - base, w = sqrt(res->points[i].nr);

			if (!res->points[i].nr || tune_race_level(job, i, axis) != l)
				continue;
			for (unsigned a = 0; a < job->nr_axes; a++)
				if (a != axis)
					residual -= res->effect[a][tune_race_level(job, i, a)];
			sum += w * residual;
			weight += w;
		}
		/* One more of 0 keeps a level that was seen once from being believed at once. */
		res->effect[axis][l] = sum / (weight + 0.2);
	}
}

static double predict(const struct tune_race_job *job, const struct tune_race_result *res,
		      double base, unsigned point)
{
	for (unsigned a = 0; a < job->nr_axes; a++)
		base += res->effect[a][tune_race_level(job, point, a)];
	return base;
}

/*
 * What the model does not explain, per probe: noise, and axes that do interact.  By that a
 * prediction is worth as many probes as there are points for each of its parameters.
 */
static void find_strengths(const struct tune_race_job *job, struct tune_race_result *res,
			   double base)
{
	double squares = 0, params = 1, worth;

	for (unsigned a = 0; a < job->nr_axes; a++)
		params += job->levels[a] - 1;
	res->df = (double)res->tried - params;
	worth = res->df > 0 ? res->tried / params : 0.1;
	for (unsigned i = 0; i < res->nr_points; i++) {
		struct tune_race_point *p = &res->points[i];
		double predicted = predict(job, res, base, i);

		p->strength = (p->nr * p->mean + worth * predicted) / (p->nr + worth);
		squares += p->nr * (p->mean - predicted) * (p->mean - predicted);
	}
	res->noise = res->df > 0 ? sqrt(squares / res->df) : INFINITY;
}

void tune_race_model(const struct tune_race_job *job, struct tune_race_result *res)
{
	double sum = 0, weight = 0, base;

	for (unsigned i = 0; i < res->nr_points; i++) {
		double w = sqrt(res->points[i].nr);

		sum += w * res->points[i].mean;
		weight += w;
	}
	base = weight > 0 ? sum / weight : 0;
	for (unsigned sweep = 0; sweep < SWEEPS; sweep++)
		for (unsigned a = 0; a < job->nr_axes; a++)
			fit_axis(job, res, a, base);
	find_strengths(job, res, base);
}

/* The probes with level @l of an axis. */
static double probes_at(const struct tune_race_job *job, const struct tune_race_result *res,
			unsigned axis, unsigned l)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < res->nr_points; i++)
		if (tune_race_level(job, i, axis) == l)
			nr += res->points[i].nr;
	return nr;
}

double tune_race_importance(const struct tune_race_job *job, const struct tune_race_result *res,
			    unsigned axis, double *margin)
{
	double low = INFINITY, high = -INFINITY, n_low = 1, n_high = 1;

	for (unsigned l = 0; l < job->levels[axis]; l++) {
		double e = res->effect[axis][l], nr = probes_at(job, res, axis, l);

		if (nr > 0 && e < low) {
			low = e;
			n_low = nr;
		}
		if (nr > 0 && e > high) {
			high = e;
			n_high = nr;
		}
	}
	*margin = res->df < 1 ? INFINITY
			      : stat_t_quantile(0.975, res->df) * res->noise *
					sqrt(1 / n_low + 1 / n_high);
	return high > low ? exp(high - low) - 1 : 0;
}
