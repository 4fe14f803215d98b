/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_SWEEP_STATE_H
#define SLUICE_JOBS_SWEEP_STATE_H

/*
 * The state file of a sweep: a first line with the settings of the job, then one
 * line of JSON per measurement, and some with what was written beside measurements.  A line
 * that is cut off, as by a crash, is dropped.
 *
 * Whoever writes to it holds a lock on it, so a sweep cannot be resumed while it runs.
 */
#include <stdio.h>

#include "load/jobs/sweep.h"

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
/* Note bytes that were written and are of no measurement, so that a later process can tell all. */
int sweep_state_add_wear(FILE *f, const struct sweep_job *job, uint64_t bytes,
			 struct sluice_err *err);
/* Call @add for each measurement in the file, and add what was written beside them to *@wear. */
int sweep_state_load(const struct sweep_job *job,
		     int (*add)(void *arg, const struct sweep_sample *m, struct sluice_err *err),
		     void *arg, uint64_t *wear, struct sluice_err *err);

#endif
