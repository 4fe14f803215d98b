/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons are of the differences within rounds.  Few rounds tell little about how
 * much these vary, but all points together do: the variance of each is taken together with
 * that of all, which counts as a few rounds more (the moderated t test).  A point that was
 * unlucky once has a large variance of its own, and stays.
 *
 * Looking after every round gives chance many tries, so each look is at 99 %: with about ten of
 * them, an error in one of them is as rare as 95 % says (Pocock's bound).
 */
#include "load/jobs/tune_race_judge.h"

#include <limits.h>
#include <math.h>

#include "base/util.h"
#include "load/stat/stat.h"

#define LEADERS  20    /* that are tried before one is kept */
#define TO_LEAD  3     /* rounds that a point needs for it, unless nobody has them */
#define LOOK     0.995 /* of Student's t, on either side */
#define PRIOR    4.0   /* rounds that the variance of all counts for */
#define KNOWN_BY 8.0   /* degrees of freedom that this variance needs for that */
#define REMEMBER 256   /* numbers of rounds whose t is worth remembering within a judgement */

/* The differences of two points in the rounds both were in. */
struct pair {
	unsigned n;
	double mean;    /* b ahead of a */
	double squares; /* of the deviations from it */
};

/* The variance of such differences, of all points together. */
struct noise {
	double variance;
	double df;          /* that it counts for */
	double t[REMEMBER]; /* Student's t for so many rounds; 0: not yet known */
};

static struct pair compare(const struct tune_race_point *a, const struct tune_race_point *b)
{
	struct stat_moments m = {.n = 0};

	for (unsigned i = 0, k = 0; i < a->nr && k < b->nr;) {
		if (a->rounds[i] == b->rounds[k])
			stat_moments_add(&m, b->scores[k++] - a->scores[i++]);
		else if (a->rounds[i] < b->rounds[k])
			i++;
		else
			k++;
	}
	return (struct pair){(unsigned)m.n, m.n ? m.mean : b->mean - a->mean, m.m2};
}

static struct noise find_noise(const struct tune_race_result *res)
{
	double squares = 0, df = 0;

	for (unsigned i = 0; i < res->nr_points; i++) {
		struct pair d = compare(&res->points[i], &res->points[res->leader]);

		if (i == res->leader || d.n < 2)
			continue;
		squares += d.squares;
		df += d.n - 1;
	}
	if (df <= 0)
		return (struct noise){.df = 0};
	return (struct noise){.variance = squares / df,
			      .df = df >= KNOWN_BY ? PRIOR : PRIOR * df / KNOWN_BY};
}

static double student(struct noise *noise, unsigned n)
{
	double df = noise->df + n - 1;

	if (n >= REMEMBER)
		return stat_t_quantile(LOOK, df);
	if (noise->t[n] <= 0)
		noise->t[n] = stat_t_quantile(LOOK, df);
	return noise->t[n];
}

/* Half of the interval of a mean of differences. */
static double half_of(const struct pair *d, struct noise *noise)
{
	double df = noise->df + d->n - 1;

	if (!d->n || df < 1)
		return INFINITY;
	return student(noise, d->n) * sqrt((noise->df * noise->variance + d->squares) / df / d->n);
}

/* Rounds that one must have been in together with the leader for its luck to be no reason. */
static unsigned enough(const struct tune_race_result *res)
{
	unsigned nr = res->points[res->leader].nr;

	return nr <= TO_LEAD ? nr : nr / 2 > TO_LEAD ? nr / 2 : TO_LEAD;
}

/* May @p lead instead: ahead in enough rounds, or ahead at 95 %? */
static bool leads(const struct tune_race_result *res, const struct tune_race_point *p,
		  struct noise *noise)
{
	struct pair d = compare(&res->points[res->leader], p);

	return p->left && d.n && d.mean > 0 &&
	       (d.n >= enough(res) || (d.n >= TUNE_RACE_SURE && d.mean > half_of(&d, noise)));
}

/* Nobody left is ahead of the leader in the rounds both were in, but for luck. */
static void find_leader(struct tune_race_result *res, struct noise *noise)
{
	if (!res->points[res->leader].nr)
		for (unsigned i = 0; i < res->nr_points; i++)
			if (res->points[i].nr)
				res->leader = i;
	/* Ahead of one another in a circle is possible, so it ends somewhere. */
	for (unsigned i = 0, pass = 0; i < res->nr_points; i++) {
		if (i == res->leader || !leads(res, &res->points[i], noise))
			continue;
		res->leader = i;
		if (pass++ < LEADERS)
			i = UINT_MAX; /* from the start */
	}
}

static bool worse(const struct tune_race_job *job, const struct tune_race_point *p)
{
	return p->shared >= TUNE_RACE_SURE && p->behind > job->tie && p->behind > p->behind_half;
}

void tune_race_judge(const struct tune_race_job *job, struct tune_race_result *res)
{
	struct noise noise = find_noise(res);

	find_leader(res, &noise);
	for (unsigned i = 0; i < res->nr_points; i++) {
		struct tune_race_point *p = &res->points[i];
		struct pair d;

		if (!p->nr || !p->left)
			continue;
		d = compare(p, &res->points[res->leader]);
		p->against = res->leader;
		p->shared = d.n;
		p->behind = i == res->leader ? 0 : d.mean;
		p->behind_half = i == res->leader ? 0 : half_of(&d, &noise);
		if (!job->exhaustive && worse(job, p)) {
			p->left = false;
			p->dropped = res->rounds;
		}
	}
}

/*
 * It differs from the leader by less than matters, at 95 %.  Twice the tie, so that an interval
 * of that width decides: what is further behind than the tie is worse then, the rest is the same.
 */
static bool same(const struct tune_race_job *job, const struct tune_race_point *p)
{
	return p->shared >= TUNE_RACE_SURE && fabs(p->behind) + p->behind_half <= 2 * job->tie;
}

bool tune_race_undecided(const struct tune_race_job *job, const struct tune_race_result *res,
			 unsigned point)
{
	const struct tune_race_point *p = &res->points[point];

	return p->left && point != res->leader && !same(job, p);
}

/* Can it be told from the leader, by what is known? */
static bool equal(const struct tune_race_job *job, const struct tune_race_result *res,
		  const struct tune_race_point *p)
{
	double most = p->behind <= p->behind_half ? 2 * job->tie : job->tie;

	return same(job, p) || (p->behind <= most && p->shared >= enough(res));
}

void tune_race_choose(const struct tune_race_job *job, struct tune_race_result *res)
{
	double cheapest = INFINITY;

	res->winner = res->leader;
	for (unsigned i = 0; i < res->nr_points; i++) {
		const struct tune_race_point *p = &res->points[i];
		double cost;

		if (!p->nr)
			continue;
		if (i != res->leader && (!p->left || worse(job, p))) {
			res->worse++;
		} else if (i != res->leader && !equal(job, res, p)) {
			res->open++;
		} else {
			res->equals++;
			cost = job->cost(job->arg, i);
			if (cost < cheapest) {
				cheapest = cost;
				res->winner = i;
			}
		}
	}
}
