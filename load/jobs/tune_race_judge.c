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
#include "load/jobs/tune_race.h"

#include <math.h>

#include "base/util.h"
#include "load/stat/stat.h"

#define TO_LEAD    3     /* rounds that a point needs for it, unless nobody has them */
#define CONFIDENCE 0.995 /* of Student's t, on either side */
#define PRIOR      4.0   /* rounds that the variance of all counts for */
#define KNOWN_BY   8.0   /* degrees of freedom that this variance needs for that */
#define REMEMBER   256   /* numbers of rounds whose t is worth remembering within a judgement */

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

static struct pair compare_points(const struct tune_race_point *a, const struct tune_race_point *b)
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
		struct pair d = compare_points(&res->points[i], &res->points[res->leader]);

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
		return stat_t_quantile(CONFIDENCE, df);
	if (noise->t[n] <= 0)
		noise->t[n] = stat_t_quantile(CONFIDENCE, df);
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

/* The strongest that is left; the model takes away most of what was luck. */
static void find_leader(struct tune_race_result *res)
{
	const struct tune_race_point *p = res->points;

	for (unsigned i = 0; i < res->nr_points; i++)
		if (p[i].nr && p[i].left &&
		    (!p[res->leader].nr || !p[res->leader].left ||
		     p[i].strength > p[res->leader].strength))
			res->leader = i;
}

static bool worse(const struct tune_race_job *job, const struct tune_race_point *p)
{
	return p->shared >= TUNE_RACE_MIN_SHARED && p->behind > job->tie &&
	       p->behind > p->behind_half;
}

/*
 * It differs from the leader by less than matters, at 95 %.  Twice the tie, so that an interval
 * of that width decides: what is further behind than the tie is worse then, the rest is the same.
 */
static bool judge_same(const struct tune_race_job *job, const struct tune_race_point *p)
{
	return p->shared >= TUNE_RACE_MIN_SHARED &&
	       fabs(p->behind) + p->behind_half <= 2 * job->tie;
}

/* In a few rounds not worse, and by all that is known not behind by more than twice the tie and
 * @more? */
static bool as_good(const struct tune_race_job *job, const struct tune_race_result *res,
		    unsigned point, double more)
{
	const struct tune_race_point *p = &res->points[point], *leader = &res->points[res->leader];

	if (p == leader)
		return true;
	if (!p->nr || !p->left || worse(job, p) ||
	    leader->strength - p->strength > 2 * job->tie + more)
		return false;
	return judge_same(job, p) || p->nr >= (leader->nr < TO_LEAD ? leader->nr : TO_LEAD);
}

/* A standard error of the difference between two that were measured so often. */
static double error_of(const struct tune_race_result *res, unsigned point)
{
	double n = res->points[point].nr, m = res->points[res->leader].nr;

	return res->df > 0 && n > 0 ? res->noise * sqrt(1 / n + 1 / m) : 0;
}

static void find_winner(const struct tune_race_job *job, struct tune_race_result *res)
{
	double cost = job->cost(job->arg, res->leader);

	res->winner = res->leader;
	for (unsigned i = 0; i < res->nr_points; i++) {
		if (!as_good(job, res, i, 0) || job->cost(job->arg, i) >= cost)
			continue;
		cost = job->cost(job->arg, i);
		res->winner = i;
	}
}

void tune_race_judge(const struct tune_race_job *job, struct tune_race_result *res)
{
	struct noise noise = find_noise(res);

	find_leader(res);
	for (unsigned i = 0; i < res->nr_points; i++) {
		struct tune_race_point *p = &res->points[i];
		struct pair d;

		if (!p->nr || !p->left)
			continue;
		d = compare_points(p, &res->points[res->leader]);
		p->against = res->leader;
		p->shared = d.n;
		p->behind = i == res->leader ? 0 : d.mean;
		p->behind_half = i == res->leader ? 0 : half_of(&d, &noise);
		if (!job->exhaustive && worse(job, p)) {
			p->left = false;
			p->dropped = res->rounds;
		}
	}
	find_winner(job, res);
}

bool tune_race_may_win(const struct tune_race_job *job, const struct tune_race_result *res,
		       unsigned point)
{
	const struct tune_race_point *p = &res->points[point];
	if (point == res->winner || job->cost(job->arg, point) < job->cost(job->arg, res->winner))
		return !judge_same(job, p);
	return p->behind - p->behind_half < -2 * job->tie;
}

void tune_race_choose(const struct tune_race_job *job, struct tune_race_result *res)
{
	for (unsigned i = 0; i < res->nr_points; i++) {
		struct tune_race_point *p = &res->points[i];

		p->equal = as_good(job, res, i, error_of(res, i));
		if (p->equal)
			res->equals++;
		else if (p->nr && (!p->left || worse(job, p)))
			res->worse++;
		else if (p->nr)
			res->open++;
	}
}
