/* SPDX-License-Identifier: Apache-2.0 */
/* The search of race.h; race_model.c has what predicts and explains. */
#include "load/run/race.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "load/run/race_model.h"
#include "load/stat/stat.h"

#define ALL_BELOW 12   /* grids so small are raced whole */
#define FIELD     8    /* points that start the race */
#define JOIN      4    /* neighbours that join in a round ... */
#define CROWD     12   /* ... while there are fewer than this */
#define LEADERS   20   /* that are tried before one is kept */
#define HOPELESS  0.35 /* so far behind (30 %) one round is enough */

struct race {
	const struct race_job *job;
	struct race_result *res;
	struct sluice_random random;
	unsigned *order; /* points of the round, room for all */
	double *predicted;
	bool over; /* budget or stop */
};

/* ------------------------------------------------------------------- probes */

static bool out_of_budget(struct race *r)
{
	const struct race_job *job = r->job;

	if (job->stop && atomic_load(job->stop)) {
		r->res->end = RACE_STOPPED;
		r->over = true;
	} else if (!job->exhaustive && job->spent(job->arg) >= job->budget) {
		r->res->end = RACE_BUDGET;
		r->over = true;
	}
	return r->over;
}

static int probe(struct race *r, unsigned point, struct sluice_err *err)
{
	struct race_point *p = &r->res->points[point];
	double score, *room;
	int rc = r->job->probe(r->job->arg, point, &score, err);

	if (rc < 0)
		return rc;
	room = reallocarray(p->scores, p->nr + 1, sizeof(*room));
	if (!room)
		return sluice_fail(err, -ENOMEM, "out of memory");
	p->scores = room;
	if (!p->nr) {
		p->first = r->res->rounds;
		r->res->tried++;
	}
	p->mean += (score - p->mean) / (p->nr + 1);
	p->scores[p->nr++] = score;
	r->res->probes++;
	return 0;
}

static void shuffle(struct race *r, unsigned *v, unsigned nr)
{
	for (unsigned i = nr; i > 1; i--) {
		unsigned k = (unsigned)sluice_random_below(&r->random, i), t = v[k];

		v[k] = v[i - 1];
		v[i - 1] = t;
	}
}

/* Probe all that are left, in random order.  A round that ends early counts for those it met. */
static int run_round(struct race *r, struct sluice_err *err)
{
	unsigned nr = 0;
	int rc = 0;

	for (unsigned i = 0; i < r->res->nr_points; i++)
		if (r->res->points[i].left)
			r->order[nr++] = i;
	shuffle(r, r->order, nr);
	for (unsigned i = 0; i < nr && rc == 0 && !out_of_budget(r); i++)
		rc = probe(r, r->order[i], err);
	r->res->rounds++;
	return rc;
}

/* --------------------------------------------------------------- comparison */

/*
 * How far @a is behind @b in the rounds of both, and half the interval of that.
 * Returns the number of these rounds.
 */
static unsigned behind(const struct race_point *a, const struct race_point *b, double *ret_mean,
		       double *ret_half)
{
	unsigned from = a->first > b->first ? a->first : b->first;
	unsigned to = a->first + a->nr < b->first + b->nr ? a->first + a->nr : b->first + b->nr;
	unsigned n = to > from ? to - from : 0;
	double sum = 0, squares = 0;

	for (unsigned i = from; i < to; i++) {
		double d = b->scores[i - b->first] - a->scores[i - a->first];

		sum += d;
		squares += d * d;
	}
	*ret_mean = n ? sum / n : b->mean - a->mean;
	*ret_half =
		n < 2 ? INFINITY
		      : stat_t95(n) * sqrt(fmax(0, squares / n - *ret_mean * *ret_mean) / (n - 1));
	return n;
}

/* Nobody left is ahead of the leader in the rounds both were in. */
static void find_leader(struct race *r)
{
	struct race_result *res = r->res;
	unsigned most = 0;
	double d, half;

	for (unsigned i = 0; i < res->nr_points; i++)
		if (res->points[i].left && res->points[i].nr > most)
			most = res->points[i].nr;
	/* A newcomer that was lucky once does not lead. */
	most = most > RACE_SURE ? RACE_SURE : most;
	if (!res->points[res->leader].left || res->points[res->leader].nr < most)
		for (unsigned i = 0; i < res->nr_points; i++)
			if (res->points[i].left && res->points[i].nr >= most)
				res->leader = i;
	/* Ahead of one another in a circle is possible, so it ends somewhere. */
	for (unsigned i = 0, pass = 0; i < res->nr_points; i++) {
		const struct race_point *p = &res->points[i];

		if (!p->left || p->nr < most || !behind(&res->points[res->leader], p, &d, &half) ||
		    d <= 0)
			continue;
		res->leader = i;
		if (pass++ < LEADERS)
			i = UINT_MAX; /* from the start */
	}
}

static unsigned nr_left(const struct race *r)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < r->res->nr_points; i++)
		nr += r->res->points[i].left;
	return nr;
}

/* Compare with the leader; drop what is worse for sure, and by more than nothing. */
static void drop(struct race *r)
{
	struct race_result *res = r->res;

	find_leader(r);
	for (unsigned i = 0; i < res->nr_points; i++) {
		struct race_point *p = &res->points[i];
		unsigned n;

		if (!p->nr)
			continue;
		n = p->shared = behind(p, &res->points[res->leader], &p->behind, &p->behind_half);
		if (!p->left)
			continue;
		if (i == res->leader)
			p->behind = p->behind_half = 0;
		else if (!r->job->exhaustive && ((n && p->behind > HOPELESS) ||
						 (n >= RACE_SURE && p->behind > r->job->tie &&
						  p->behind - p->behind_half > 0))) {
			p->left = false;
			p->dropped = res->rounds;
		}
	}
}

/* All that are left are so near to the leader that more rounds would change nothing. */
static bool all_equal(const struct race *r)
{
	for (unsigned i = 0; i < r->res->nr_points; i++) {
		const struct race_point *p = &r->res->points[i];

		if (p->left && p->behind + p->behind_half > r->job->tie)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------- who may race */

/* The untried point with the highest prediction among those that @wanted says. */
static int most_promising(const struct race *r, bool (*wanted)(const struct race *, unsigned))
{
	int found = -1;

	for (unsigned i = 0; i < r->res->nr_points; i++)
		if (!r->res->points[i].nr && !r->res->points[i].left && wanted(r, i) &&
		    (found < 0 || r->predicted[i] > r->predicted[found]))
			found = (int)i;
	return found;
}

/* Differs from the leader in one axis. */
static bool beside_leader(const struct race *r, unsigned point)
{
	unsigned different = 0;

	for (unsigned a = 0; a < r->job->nr_axes; a++)
		different += race_level(r->job, point, a) != race_level(r->job, r->res->leader, a);
	return different == 1;
}

static bool anywhere(const struct race *r, unsigned point)
{
	(void)r;
	(void)point;
	return true;
}

/* Let untried points in, but none that is predicted to be far behind. */
static unsigned let_in(struct race *r, unsigned most, bool (*wanted)(const struct race *, unsigned))
{
	unsigned nr = 0;

	for (; nr < most; nr++) {
		int i = most_promising(r, wanted);

		if (i < 0 || r->predicted[i] < r->res->points[r->res->leader].mean - HOPELESS)
			break;
		r->res->points[i].left = true;
	}
	return nr;
}

/*
 * The first round: all of a small grid; of a large one a draw in which each
 * value of an axis comes equally often, by dealing the values of each axis.
 */
static int screen(struct race *r, struct sluice_err *err)
{
	const struct race_job *job = r->job;
	unsigned n = r->res->nr_points, most = 1, deal = n;

	for (unsigned a = 0; a < job->nr_axes; a++)
		most = job->levels[a] > most ? job->levels[a] : most;
	if (!job->exhaustive && n > ALL_BELOW) {
		deal = 4 * most < (n + 7) / 8 ? (n + 7) / 8 : 4 * most;
		deal = deal > (n + 2) / 3 ? (n + 2) / 3 : deal;
	}
	for (unsigned i = 0; i < n; i++)
		r->res->points[i].left = deal == n;
	if (deal < n)
		race_deal(job, &r->random, deal, r->res->points);
	return run_round(r, err);
}

/* After the screen: the best that were tried, and the best that are predicted. */
static void line_up(struct race *r)
{
	struct race_result *res = r->res;

	find_leader(r);
	if (race_model(r->job, res, r->predicted) < 0)
		return;
	for (unsigned i = 0; i < res->nr_points; i++) {
		struct race_point *p = &res->points[i];
		unsigned better = 0;

		for (unsigned k = 0; k < res->nr_points; k++)
			better += res->points[k].nr && res->points[k].mean > p->mean;
		if (p->left && p->nr && better >= FIELD / 2) {
			p->left = false;
			p->dropped = res->rounds;
		}
	}
	let_in(r, FIELD - FIELD / 2, anywhere);
}

/* ---------------------------------------------------------------------- run */

static int run_all(struct race *r, struct sluice_err *err)
{
	int rc = 0;

	for (unsigned i = 1; i < r->job->loops && rc == 0 && !r->over; i++) {
		if (r->job->round)
			r->job->round(r->job->arg, r->res->nr_points);
		rc = run_round(r, err);
	}
	drop(r);
	if (!r->over && rc == 0)
		r->res->end = RACE_ALL;
	return rc;
}

static int run_race(struct race *r, struct sluice_err *err)
{
	int rc = 0;

	line_up(r);
	while (rc == 0 && !r->over) {
		if (r->job->round)
			r->job->round(r->job->arg, nr_left(r));
		rc = run_round(r, err);
		drop(r);
		if (rc < 0 || r->over || race_model(r->job, r->res, r->predicted) < 0)
			break;
		/* A neighbour is worth a look once the leader has proved itself. */
		if (r->res->points[r->res->leader].nr >= 2 && nr_left(r) < CROWD &&
		    let_in(r, JOIN, beside_leader))
			continue;
		if (nr_left(r) == 1)
			r->res->end = RACE_CLEAR;
		else if (all_equal(r))
			r->res->end = RACE_TIED;
		else
			continue;
		break;
	}
	return rc;
}

/* Can it be told from the leader, by what is known? */
static bool equal(const struct race *r, const struct race_point *p)
{
	double most = p->behind - p->behind_half <= 0 ? 2 * r->job->tie : r->job->tie;

	return p->left && p->nr && p->behind <= most &&
	       (p->behind_half < INFINITY || r->res->rounds < 2);
}

static void choose(struct race *r)
{
	struct race_result *res = r->res;
	double cheapest = INFINITY;

	res->winner = res->leader;
	for (unsigned i = 0; i < res->nr_points; i++) {
		double cost;

		if (i != res->leader && !equal(r, &res->points[i]))
			continue;
		res->equals++;
		cost = r->job->cost(r->job->arg, i);
		if (cost < cheapest) {
			cheapest = cost;
			res->winner = i;
		}
	}
	if (res->end == RACE_TIED && res->equals == 1)
		res->end = RACE_CLEAR;
}

int race_run(const struct race_job *job, struct race_result *res, struct sluice_err *err)
{
	struct race r = {.job = job, .res = res};
	unsigned n = 1;
	int rc;

	*res = (struct race_result){.end = RACE_CLEAR};
	for (unsigned a = 0; a < job->nr_axes; a++) {
		n *= job->levels[a];
		res->effect[a] = calloc(job->levels[a], sizeof(double));
		if (!res->effect[a])
			return sluice_fail(err, -ENOMEM, "out of memory");
	}
	res->points = calloc(n, sizeof(*res->points));
	r.order = calloc(n, sizeof(*r.order));
	r.predicted = calloc(n, sizeof(*r.predicted));
	rc = res->points && r.order && r.predicted ? 0 : sluice_fail(err, -ENOMEM, "out of memory");
	if (rc == 0) {
		res->nr_points = n;
		sluice_random_seed(&r.random, job->seed);
		rc = screen(&r, err);
	}
	if (rc == 0 && !r.over)
		rc = job->exhaustive ? run_all(&r, err) : run_race(&r, err);
	if (rc < 0)
		res->end = RACE_STOPPED;
	if (res->probes) {
		drop(&r);
		race_model(job, res, r.predicted);
		choose(&r);
	} else if (rc == 0) {
		rc = sluice_fail(err, -ENODATA, "nothing was measured");
	}
	free(r.order);
	free(r.predicted);
	return rc;
}

void race_fini(struct race_result *res)
{
	for (unsigned i = 0; i < res->nr_points; i++)
		free(res->points[i].scores);
	for (unsigned a = 0; a < RACE_AXES; a++)
		free(res->effect[a]);
	free(res->points);
	*res = (struct race_result){.nr_points = 0};
}
