/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_TUNE_PLAN_H
#define PENSTOCK_JOBS_TUNE_PLAN_H

/* The sizes and shares of a search that follow from its job alone: see tune.h. */
#include "load/jobs/trial.h"
#include "load/jobs/tune.h"

#define TUNE_SMALLEST (16ull << 20) /* operation that the search chooses itself */

/* A probe is many small operations, and not one. */
bool tune_small_ops(const struct tune_job *job);
unsigned tune_probe_ops(const struct tune_job *job);

/* Files and operations, the latter as large as they may become. */
struct trials_job tune_trials_job(const struct tune_job *job);

/* Seconds to measure the limit of a direction, most of the budget being for the race; 0: too few.
 */
double tune_limit_sec(const struct tune_job *job);
/* The bytes it may write: most of max_write is for the race. */
uint64_t tune_limit_writes(const struct tune_job *job);
/* What max_write leaves to the race where @written was written before. */
uint64_t tune_race_writes(const struct tune_job *job, uint64_t written);

#endif
