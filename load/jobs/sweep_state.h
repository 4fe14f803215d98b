/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_SWEEP_STATE_H
#define SLUICE_JOBS_SWEEP_STATE_H

/*
 * The state file of a sweep: a first line with the settings of the job, then one
 * line of JSON per measurement, and for each process one with the names of the work
 * folders it made and some with what it wrote beside measurements.  A line that is cut off, as by a
 * crash, is dropped.
 *
 * Whoever writes to it holds a lock on it, so a sweep cannot be resumed while it runs.
 */
#include <stdio.h>

#include "load/jobs/sweep.h"

/* What the names of work folders begin with; mkdtemp() adds the rest. */
#define SWEEP_WORK "sluice-sweep-"

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
int sweep_state_check(const struct sweep_job *job, const char *file, struct sluice_err *err);

/* Make the file, which must not exist, or open it at its end.  -EBUSY: a sweep is using it. */
int sweep_state_open(FILE **out, const struct sweep_job *job, struct sluice_err *err);
int sweep_state_add(FILE *f, const struct sweep_job *job, const struct sweep_sample *m,
		    struct sluice_err *err);
/* Note the names of the work folders, so that a later process can remove what a crash left. */
int sweep_state_add_work(FILE *f, const struct sweep_job *job, char *const *dirs,
			 struct sluice_err *err);
/* Remove the work folders of earlier processes that are still there, with our file in them. */
void sweep_state_remove_work(const struct sweep_job *job);
/* Note bytes that were written and are of no measurement, so that a later process can tell all. */
int sweep_state_add_wear(FILE *f, const struct sweep_job *job, uint64_t bytes,
			 struct sluice_err *err);
/* All that earlier processes noted of these. */
uint64_t sweep_state_wear(const struct sweep_job *job);
/* Call @add for each measurement in the file. */
int sweep_state_load(const struct sweep_job *job,
		     int (*add)(void *arg, const struct sweep_sample *m, struct sluice_err *err),
		     void *arg, struct sluice_err *err);

#endif
