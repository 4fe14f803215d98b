/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of tune_race.h; tune_race_model.c predicts and explains, tune_race_judge.c compares.
 */
#include "load/jobs/tune_race.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"

#define ALL_BELOW    12 /* grids so small are probed whole in the first round */
#define ROUND_MAX    8  /* points of a round: the leader, ... */
#define ROUND_BETTER 4  /* ... the best of the others, and the cheapest that may be as good */
#define DEAL         6  /* times that a value of the longest axis comes in the first round */

struct tune_race {
	const struct tune_race_job *job;
	struct tune_race_result *res;
	struct penstock_random random;
	unsigned *order; /* points of the round, room for all ... */
	unsigned nr;     /* ... their number ... */
	bool *in;        /* ... and whether a point is one of them */
	bool over;       /* budget or stop */
};

/* ------------------------------------------------------------------- probes */

static bool out_of_budget(struct tune_race *r)
{
	const struct tune_race_job *job = r->job;

	if (asked_to_stop(job->stop)) {
		r->res->end = TUNE_RACE_STOPPED;
		r->over = true;
	} else if (!job->exhaustive && job->spent(job->arg) >= job->budget) {
		r->res->end = TUNE_RACE_BUDGET;
		r->over = true;
	}
	return r->over;
}

static int probe(struct tune_race *r, unsigned point, struct penstock_err *err)
{
	struct tune_race_point *p = &r->res->points[point];
	double score;
	int rc = r->job->probe(r->job->arg, point, &score, err);

	if (rc < 0)
		return rc;
	if (ARRAY_GROW(p->scores, p->nr) < 0 || ARRAY_GROW(p->rounds, p->nr) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r->res->tried += !p->nr;
	p->rounds[p->nr] = r->res->rounds;
	p->scores[p->nr++] = score;
	r->res->probes++;
	return 0;
}

/* Probe those of the round in random order.  One that ends early counts for those it met. */
static int run_round(struct tune_race *r, struct penstock_err *err)
{
	int rc = 0;

	for (unsigned i = r->nr; i > 1; i--) {
		unsigned k = (unsigned)penstock_random_below(&r->random, i), t = r->order[k];

		r->order[k] = r->order[i - 1];
		r->order[i - 1] = t;
	}
	for (unsigned i = 0; i < r->nr && rc == 0 && !out_of_budget(r); i++)
		rc = probe(r, r->order[i], err);
	r->res->rounds++;
	tune_race_remove_drift(r->res);
	tune_race_model(r->job, r->res);
	tune_race_judge(r->job, r->res);
	return rc;
}

/* -------------------------------------------------------------- who is in it */

static void clear_round(struct tune_race *r)
{
	r->nr = 0;
	for (unsigned i = 0; i < r->res->nr_points; i++)
		r->in[i] = false;
}

static void enter_point(struct tune_race *r, unsigned point)
{
	r->in[point] = true;
	r->order[r->nr++] = point;
}

/*
 * The first round: all of a small grid; of a large one a draw in which each
 * value of an axis comes equally often, by dealing the values of each axis.
 */
static void first_round(struct tune_race *r)
{
	const struct tune_race_job *job = r->job;
	unsigned n = r->res->nr_points, most = 1, deal = n;

	for (unsigned a = 0; a < job->nr_axes; a++)
		most = job->levels[a] > most ? job->levels[a] : most;
	if (!job->exhaustive && n > ALL_BELOW) {
		deal = DEAL * most > (n + 1) / 2 ? (n + 1) / 2 : DEAL * most;
	}
	clear_round(r);
	if (deal < n)
		tune_race_draw_screen(job, &r->random, deal, r->in);
	for (unsigned i = 0; i < n; i++)
		if (deal == n || r->in[i])
			enter_point(r, i);
}

static bool better(const struct tune_race *r, unsigned a, unsigned b)
{
	return r->res->points[a].strength > r->res->points[b].strength;
}

static bool cheaper(const struct tune_race *r, unsigned a, unsigned b)
{
	return r->job->cost(r->job->arg, a) < r->job->cost(r->job->arg, b);
}

/*
 * Does the model, give or take twice its error, leave room for it to be recommended: as good as the
 * leader and cheaper than the winner, or better?
 */
static bool may_be_good(const struct tune_race *r, unsigned point)
{
	const struct tune_race_result *res = r->res;
	double behind = res->points[res->leader].strength - res->points[point].strength;
	double params = (double)res->tried - res->df;
	double error = 2 * res->noise * sqrt(2 * params / (double)res->tried);
	double most = point == res->winner || cheaper(r, point, res->winner) ? 2 * r->job->tie
									     : -2 * r->job->tie;

	return res->df <= 0 || behind <= most + error;
}

/* More rounds with it may change who is recommended. */
static bool stays_in_race(const struct tune_race *r, unsigned point)
{
	const struct tune_race_point *p = &r->res->points[point];

	if (!p->left || point == r->res->leader)
		return false;
	if (p->shared < TUNE_RACE_MIN_SHARED)
		return may_be_good(r, point);
	return tune_race_may_win(r->job, r->res, point);
}

/* Up to @most more points, those that come @before others first. */
static void enter_points(struct tune_race *r, unsigned most,
			 bool (*before)(const struct tune_race *, unsigned, unsigned))
{
	while (most-- > 0) {
		int found = -1;

		for (unsigned i = 0; i < r->res->nr_points; i++)
			if (!r->in[i] && stays_in_race(r, i) &&
			    (found < 0 || before(r, i, (unsigned)found)))
				found = (int)i;
		if (found < 0)
			return;
		enter_point(r, (unsigned)found);
	}
}

/* The leader and others that matter; the leader alone: nobody does any more. */
static void next_round(struct tune_race *r)
{
	clear_round(r);
	enter_point(r, r->res->leader);
	enter_points(r, ROUND_BETTER, better);
	enter_points(r, ROUND_MAX - r->nr, cheaper);
}

static unsigned nr_left(const struct tune_race *r)
{
	unsigned nr = 1;

	for (unsigned i = 0; i < r->res->nr_points; i++)
		nr += stays_in_race(r, i);
	return nr;
}

/* ---------------------------------------------------------------------- run */

static void round_over(const struct tune_race *r)
{
	if (r->job->round)
		r->job->round(r->job->arg, nr_left(r));
}

static int race_run_all(struct tune_race *r, struct penstock_err *err)
{
	int rc = 0;

	for (unsigned i = 1; i < r->job->loops && rc == 0 && !r->over; i++) {
		round_over(r);
		rc = run_round(r, err);
	}
	if (!r->over && rc == 0)
		r->res->end = TUNE_RACE_ALL;
	return rc;
}

static int run_race(struct tune_race *r, struct penstock_err *err)
{
	int rc = 0;

	for (next_round(r); r->nr > 1 && rc == 0 && !r->over; next_round(r)) {
		round_over(r);
		rc = run_round(r, err);
	}
	return rc;
}

static int race_run(struct tune_race *r, struct penstock_err *err)
{
	int rc;

	for (unsigned i = 0; i < r->res->nr_points; i++)
		r->res->points[i].left = true;
	penstock_random_seed(&r->random, r->job->seed);
	first_round(r);
	rc = run_round(r, err);
	if (rc == 0 && !r->over)
		rc = r->job->exhaustive ? race_run_all(r, err) : run_race(r, err);
	if (rc < 0)
		r->res->end = TUNE_RACE_STOPPED;
	if (!r->res->probes)
		return rc < 0 ? rc : penstock_fail(err, -ENODATA, "nothing was measured");
	tune_race_choose(r->job, r->res);
	if (rc == 0 && !r->over && !r->job->exhaustive)
		r->res->end = r->res->equals > 1 ? TUNE_RACE_TIED : TUNE_RACE_CLEAR;
	return rc;
}

int tune_race_run(const struct tune_race_job *job, struct tune_race_result *res,
		  struct penstock_err *err)
{
	struct tune_race r = {.job = job, .res = res};
	unsigned n = 1;
	int rc;

	*res = (struct tune_race_result){.end = TUNE_RACE_CLEAR};
	for (unsigned a = 0; a < job->nr_axes; a++) {
		n *= job->levels[a];
		res->effect[a] = calloc(job->levels[a], sizeof(double));
		if (!res->effect[a])
			return penstock_fail(err, -ENOMEM, "out of memory");
	}
	res->points = calloc(n, sizeof(*res->points));
	r.order = calloc(n, sizeof(*r.order));
	r.in = calloc(n, sizeof(*r.in));
	res->nr_points = res->points ? n : 0;
	rc = res->points && r.order && r.in ? race_run(&r, err)
					    : penstock_fail(err, -ENOMEM, "out of memory");
	free(r.order);
	free(r.in);
	return rc;
}

void tune_race_fini(struct tune_race_result *res)
{
	for (unsigned i = 0; i < res->nr_points; i++) {
		free(res->points[i].scores);
		free(res->points[i].rounds);
	}
	for (unsigned a = 0; a < TUNE_RACE_AXES; a++)
		free(res->effect[a]);
	free(res->points);
	*res = (struct tune_race_result){.nr_points = 0};
}
