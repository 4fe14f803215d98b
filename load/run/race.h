/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_RUN_RACE_H
#define SLUICE_RUN_RACE_H

/*
 * Find the best point of a grid by measuring few of its points, and those that
 * matter most often.  Knows nothing of I/O: a probe is one measurement of a point,
 * and its score is higher when it is better.  Scores are logarithms, so that a
 * difference of 0.01 is one per cent.
 *
 *  1. Screen.  A fraction of the grid, drawn so that every value of every axis
 *     comes equally often, is probed once.  Axes that do not interact add up, so
 *     this predicts all points.
 *  2. Race.  The most promising points are probed round by round, in random
 *     order.  Two points are compared only within the rounds both were in, so a
 *     device that becomes slower with time treats all alike.  A point that is
 *     worse than the leader at 95 % is dropped.  Points beside the leader that
 *     were never tried join.
 *  3. It ends when one point is left, when those that are left differ by less
 *     than matters, or when the budget is used.  Of points that cannot be told
 *     apart the cheapest wins.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#define RACE_AXES 8
#define RACE_SURE 3 /* rounds in which two points were together before their interval counts */

struct race_job {
	unsigned nr_axes;
	unsigned levels[RACE_AXES]; /* of each axis; the last one varies fastest */
	/* One measurement of @point.  Returns 0 or -errno, which ends the race. */
	int (*probe)(void *arg, unsigned point, double *ret_score, struct sluice_err *err);
	double (*cost)(void *arg, unsigned point);  /* what it takes; less is cheaper */
	double (*spent)(void *arg);                 /* of the budget */
	void (*round)(void *arg, unsigned nr_left); /* optional: a round is over */
	void *arg;
	double budget;   /* what may be spent */
	double tie;      /* differences below this do not matter: 0.01 */
	bool exhaustive; /* probe all points ... */
	unsigned loops;  /* ... so many times, whatever that takes */
	uint64_t seed;
	const atomic_int *stop; /* optional: end with what there is */
};

struct race_point {
	bool left;          /* not dropped */
	unsigned dropped;   /* in which round, from 1 on; 0: never */
	unsigned first;     /* round of its first score */
	unsigned nr;        /* scores */
	double *scores;     /* of rounds first, first + 1, ... */
	double mean;        /* of them */
	unsigned shared;    /* rounds it was in together with the leader */
	double behind;      /* the leader, in the rounds of both; 0 for the leader itself ... */
	double behind_half; /* ... with half its 95 % interval; INFINITY: not known */
};

enum race_end {
	RACE_CLEAR, /* one is left: the others were worse at 95 %, or far behind at a first look */
	RACE_TIED,  /* those left differ by less than matters; the winner is the cheapest */
	RACE_BUDGET,
	RACE_STOPPED, /* by job->stop, or by a probe that failed */
	RACE_ALL,     /* exhaustive: everything was measured */
};

struct race_result {
	unsigned nr_points;
	struct race_point *points; /* of the whole grid; nr == 0: never tried */
	unsigned tried, rounds, probes;
	unsigned leader; /* highest score */
	unsigned winner; /* the leader, or a cheaper one that cannot be told from it */
	unsigned equals; /* points that cannot be told from the leader, itself included */
	enum race_end end;
	/* What each axis is worth: effect[axis][level], 0 on average. */
	double *effect[RACE_AXES];
};

/*
 * Returns 0, or -errno of a probe, of memory, or -ENODATA when nothing was
 * probed.  race_fini() is due either way.
 */
int race_run(const struct race_job *job, struct race_result *res, struct sluice_err *err);
void race_fini(struct race_result *res);

/* How much better the best level of an axis is than its worst, as far as is known: 0.1 is 10 %. */
double race_importance(const struct race_job *job, const struct race_result *res, unsigned axis);
/* The level of @point on @axis. */
unsigned race_level(const struct race_job *job, unsigned point, unsigned axis);

#endif
