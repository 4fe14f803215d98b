/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_SWEEP_WORK_H
#define PENSTOCK_JOBS_SWEEP_WORK_H

/* A sweep while it runs: what sweep.c, which walks, and sweep_setup.c share. */
#include <stdio.h>

#include "load/jobs/sweep.h"
#include "load/jobs/trial.h"

struct sweep {
	const struct sweep_job *job;
	struct sweep_result *res;
	unsigned nr_points; /* in one direction */
	struct trials trials;
	double *worker_sec;
	bool *known; /* [index * loops + loop]: measured, perhaps by an earlier job */
	FILE *state;
	uint64_t start_ns;
	const char *name;          /* what is being measured */
	uint64_t done_bytes;       /* by this process */
	uint64_t left_bytes;       /* when it began */
	uint64_t done[2], left[2]; /* the same in measurements: of writes, of reads */
	bool measures_limit;       /* beside them ... */
	uint64_t limit_writes;     /* ... with so many bytes */
	struct limit limit[2];
};

int sweep_alloc_points(struct sweep *w, struct penstock_err *err);
/* Count bytes that are of no measurement, for a process that goes on with this, too. */
int sweep_add_wear(struct sweep *w, uint64_t bytes, struct penstock_err *err);
/* What trials of this job need. */
struct trials_job sweep_trials_job(const struct sweep_job *job);
void sweep_count_left(struct sweep *w);
/* Remove files and folders, free all but the result. */
void sweep_close(struct sweep *w);

/*
 * The state file of a sweep: a first line with the settings of the job, then one
 * line of JSON per measurement, and some with what was written beside measurements.  A line
 * that is cut off, as by a crash, is dropped.
 *
 * Whoever writes to it holds a lock on it, so a sweep cannot be resumed while it runs.
 */

/* One measurement: what one run of a configuration yielded. */
struct sweep_sample {
	unsigned index; /* into the result's points */
	uint32_t loop;
	double sec;             /* until the last worker was done */
	double elapsed_sec;     /* of the sweep when it was over, earlier processes included */
	double *worker_sec;     /* of each */
	struct run_series *run; /* CPU time, stats, memory, file */
	int64_t resident, unknown;
};

/* Does @file hold the state of this very job?  0; -EINVAL, with what differs; -errno. */
int sweep_state_check(const struct sweep_job *job, const char *file, struct penstock_err *err);

/* Make the file, which must not exist, or open it at its end.  -EBUSY: a sweep is using it. */
int sweep_state_open(FILE **out, const struct sweep_job *job, struct penstock_err *err);
int sweep_state_add(FILE *f, const struct sweep_job *job, const struct sweep_sample *m,
		    struct penstock_err *err);
/* Note bytes that were written and are of no measurement, so that a later process can tell all. */
int sweep_state_add_wear(FILE *f, const struct sweep_job *job, uint64_t bytes,
			 struct penstock_err *err);
/* Call @add for each measurement in the file, and add what was written beside them to *@wear. */
int sweep_state_load(const struct sweep_job *job,
		     int (*add)(void *arg, const struct sweep_sample *m, struct penstock_err *err),
		     void *arg, uint64_t *wear, struct penstock_err *err);

#endif
