/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_SWEEP_WORK_H
#define SLUICE_JOBS_SWEEP_WORK_H

/* A sweep while it runs: what sweep.c, which walks, and sweep_setup.c share. */
#include <stdio.h>

#include "load/jobs/sweep.h"
#include "load/jobs/sweep_state.h"
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
	const char *name;    /* what is being measured */
	uint64_t done_bytes; /* by this process */
	uint64_t left_bytes; /* when it began */
};

int sweep_stopped(const struct sweep_job *job, struct sluice_err *err);

int sweep_alloc_points(struct sweep *w, struct sluice_err *err);
/* Count bytes that are of no measurement, for a process that goes on with this, too. */
int sweep_add_wear(struct sweep *w, uint64_t bytes, struct sluice_err *err);
/* What trials of this job need. */
struct trials_job sweep_trials_job(const struct sweep_job *job);
void sweep_count_left(struct sweep *w);
/* Remove files and folders, free all but the result. */
void sweep_close(struct sweep *w);

#endif
