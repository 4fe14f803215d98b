/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_TUNE_H
#define PENSTOCK_JOBS_TUNE_H

/*
 * The job of `penstock tune': the best configuration of a space for a goal, found
 * by a race (tune_race.h) on real files (trial.h).
 *
 *	struct tune_job -> tune_check() -> tune_run() -> struct tune_result
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/probe.h>

#include "load/jobs/config_space.h"
#include "load/jobs/tune_race.h"
#include "load/measure/series.h"

enum tune_goal { TUNE_BOTH, TUNE_READ, TUNE_WRITE, TUNE_LATENCY, TUNE_CPU };
extern const char *const tune_goal_words[]; /* in this order; NULL-terminated */

enum tune_step { TUNE_PREPARE, TUNE_RACE };

struct tune_job {
	const char *const *folders;
	unsigned nr_folders;
	const struct config_space *space;
	enum tune_goal goal;
	bool read, write;   /* directions that are measured; at least one */
	uint64_t io_size;   /* of an operation; 0: what the budget allows, at most 400M */
	uint64_t floor;     /* bytes per second, for latency and CPU; 0: a share of the default's */
	double budget_sec;  /* of all, the preparation included */
	uint64_t max_write; /* bytes of wear, of all; 0: no limit.  Not of an exhaustive search */
	bool exhaustive;
	uint32_t loops; /* of that */
	uint64_t seed;
	uint32_t memory;
	bool lock;
	struct penstock_opts opts; /* what the space does not say */
	uint64_t limit;            /* of the device, bytes per second; 0: not known */
	bool measure_limit;
	const atomic_int *stop;
	/* Optional: @done of @total bytes, or thousandths of a second. */
	void (*progress)(void *arg, enum tune_step step, uint64_t done, uint64_t total,
			 unsigned left);
	void *progress_arg;
	/* Optional: the folders to measure in are there; called once, with progress_arg. */
	void (*began)(void *arg);
};

/* One configuration, as far as it was measured. */
struct tune_point {
	struct run_series dir[2]; /* write, read */
};

struct tune_result {
	struct tune_race_job race_job; /* for tune_race_level() and tune_race_importance() */
	struct tune_race_result race;
	struct tune_point *points; /* race.nr_points */
	uint64_t op_size;          /* used */
	unsigned ops;              /* per probe and folder */
	double floor;              /* used; 0: none.  Of both directions together */
	double floor_share;        /* of what the default settings did; 0: as the job says */
	double limit[2];           /* write, read; 0: not known */
	char limit_how[2][160];
	double spent_sec;
	uint64_t bytes_written;
	bool wear_limit_hit;             /* max_write ended it, not the time */
	struct penstock_path_info *info; /* of each folder */
	bool began;                      /* if not, nothing was made and nothing is left */
};

/* Is it possible?  0, -EINVAL, -ENOTSUP; creates nothing. */
int tune_check(const struct tune_job *job, struct penstock_err *err);
/*
 * Returns 0 or -errno with the reason in @err.  What was measured is in @res in
 * both cases (res->race.probes); tune_fini() is due either way.
 */
int tune_run(const struct tune_job *job, struct tune_result *res, struct penstock_err *err);
void tune_fini(struct tune_result *res);

/* The options of a point. */
struct penstock_opts tune_opts(const struct tune_job *job, unsigned point, uint32_t *ret_memory);
/* Bytes per second of a point in a direction; 0: not measured. */
double tune_speed(const struct tune_result *res, unsigned point, bool read);

struct tune_plan {
	uint64_t space;        /* on disk */
	uint64_t write_most;   /* bytes that are never exceeded ... */
	uint64_t write_likely; /* ... and those that a device of that speed takes in the budget */
	uint64_t limit_writes; /* of write_most: to measure the limit */
	double seconds;        /* of an exhaustive search, about; 0: the budget says it */
};
/* What a run would do with a device of @speed bytes per second. */
void tune_plan(const struct tune_job *job, double speed, struct tune_plan *ret);

#endif
