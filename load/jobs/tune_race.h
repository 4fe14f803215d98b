/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_TUNE_RACE_H
#define PENSTOCK_JOBS_TUNE_RACE_H

/*
 * Find the best point of a grid by measuring few of its points, and those that
 * matter most often.  Knows nothing of I/O: a probe is one measurement of a point,
 * and its score is higher when it is better.  Scores are logarithms, so that a
 * difference of 0.01 is one per cent.
 *
 *  1. Screen.  A fraction of the grid, drawn so that every value of every axis
 *     comes equally often, is probed once.  Axes that do not interact add up, so
 *     this predicts all points, and how far the predictions are off says who may
 *     be as good as the best.  The rest is set aside.
 *  2. Race.  In every round the leader, those that may be better, and the cheapest of those
 *     that may be as good are probed in random order: what time there is goes to
 *     the few that matter.  Two points are compared only within the rounds both were in,
 *     so a device that becomes slower with time treats all alike.  A point that
 *     is worse than the leader at 95 % is dropped, and another one may come in.
 *  3. It ends when nobody may be better than the leader, or cheaper and as good; or
 *     when the budget is used.  Of those that cannot be told from the leader the
 *     cheapest that is not seen to be behind by more than twice the tie wins.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "base/random.h"

#define TUNE_RACE_AXES 8
#define TUNE_RACE_MIN_SHARED                                                       \
	2 /* rounds in which two points were together before their interval counts \
	   */

struct tune_race_job {
	unsigned nr_axes;
	unsigned levels[TUNE_RACE_AXES]; /* of each axis; the last one varies fastest */
	/* One measurement of @point.  Returns 0 or -errno, which ends the race. */
	int (*probe)(void *arg, unsigned point, double *ret_score, struct penstock_err *err);
	double (*cost)(void *arg, unsigned point);  /* what it takes; less is cheaper */
	double (*spent)(void *arg);                 /* of the budget */
	void (*round)(void *arg, unsigned nr_left); /* optional: a round is over */
	void *arg;
	double budget; /* what may be spent */
	double tie; /* 0.01: nobody is worse by less than this, nor equal by more than twice that */
	bool exhaustive; /* probe all points ... */
	unsigned loops;  /* ... so many times, whatever that takes */
	uint64_t seed;
	const atomic_int *stop; /* optional: end with what there is */
};

struct tune_race_point {
	bool left;        /* not dropped */
	bool equal;       /* at the end: cannot be told from the leader */
	unsigned dropped; /* in which round, from 1 on; 0: never */
	unsigned nr;      /* scores */
	double *scores;
	unsigned *rounds; /* of the scores, ascending */
	double mean;      /* of the scores, less what all of a round have in common */
	double strength;  /* the mean together with what the model predicts; of all points */
	/* Compared with the leader, or with the one that led when it was dropped: */
	unsigned against;
	unsigned shared;    /* rounds both were in */
	double behind;      /* in these; 0 for the leader itself ... */
	double behind_half; /* ... with half its 95 % interval; INFINITY: not known */
};

enum tune_race_end {
	TUNE_RACE_CLEAR, /* one is left */
	TUNE_RACE_TIED,  /* several are, and nobody may be better, or cheaper and as good */
	TUNE_RACE_BUDGET,
	TUNE_RACE_STOPPED, /* by job->stop, or by a probe that failed */
	TUNE_RACE_ALL,     /* exhaustive: everything was measured */
};

struct tune_race_result {
	unsigned nr_points;
	struct tune_race_point *points; /* of the whole grid; nr == 0: never tried */
	unsigned tried, rounds, probes;
	unsigned leader; /* nobody left is ahead of it */
	unsigned winner; /* the leader, or a cheaper one that cannot be told from it */
	/* How the points stand to the leader: these and those not tried are all. */
	unsigned equals; /* cannot be told from it, itself included */
	unsigned worse;  /* at 95 % */
	unsigned open;   /* neither: they promised less, and were set aside */
	enum tune_race_end end;
	/* What each axis is worth: effect[axis][level], 0 on average ... */
	double *effect[TUNE_RACE_AXES];
	double noise; /* ... what that leaves unexplained of a score; INFINITY: not known ... */
	double df;    /* ... and from how many degrees of freedom that is known */
};

/*
 * Returns 0, or -errno of a probe, of memory, or -ENODATA when nothing was
 * probed.  tune_race_fini() is due either way.
 */
int tune_race_run(const struct tune_race_job *job, struct tune_race_result *res,
		  struct penstock_err *err);
void tune_race_fini(struct tune_race_result *res);

/*
 * How much better the best level of an axis is than its worst: 0.1 is 10 %.  *@margin: half of the
 * 95 % interval of that; INFINITY: not known.
 */
double tune_race_importance(const struct tune_race_job *job, const struct tune_race_result *res,
			    unsigned axis, double *margin);
/* The level of @point on @axis. */
unsigned tune_race_level(const struct tune_race_job *job, unsigned point, unsigned axis);

/* ---- tune_race_judge.c: who leads, who is worse for sure, and who cannot be told apart ---- */

/* After a round: find the leader, compare all with it, drop what is worse (not if exhaustive). */
void tune_race_judge(const struct tune_race_job *job, struct tune_race_result *res);

/*
 * May @point, which was compared with the leader, be recommended after more rounds: as better than
 * it, or as cheaper than the winner and as good?
 */
bool tune_race_may_win(const struct tune_race_job *job, const struct tune_race_result *res,
		       unsigned point);

/* At the end: how many stand how to the leader. */
void tune_race_choose(const struct tune_race_job *job, struct tune_race_result *res);

/* ---- tune_race_model.c: what the scores of some points say about all ---- */

/* Set @in of @nr points so that each value of each axis comes as often as the others. */
void tune_race_draw_screen(const struct tune_race_job *job, struct penstock_random *random,
			   unsigned nr, bool *in);

/*
 * Set .mean of all points: the mean of their scores, after that was taken away which the
 * points of a round have in common.  What is probed late on a device that becomes slower is
 * not worse for that.
 */
void tune_race_remove_drift(struct tune_race_result *res);

/*
 * Fit "score = base + effect of each axis" to the points that were tried; fills res->effect,
 * res->noise and the strength of all points.
 */
void tune_race_model(const struct tune_race_job *job, struct tune_race_result *res);

#endif
