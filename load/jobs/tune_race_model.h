/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_TUNE_RACE_MODEL_H
#define SLUICE_JOBS_TUNE_RACE_MODEL_H

/* What the scores of some points say about all: see tune_race.h. */
#include "base/random.h"
#include "load/jobs/tune_race.h"

/* Set @in of @nr points so that each value of each axis comes as often as the others. */
void tune_race_deal(const struct tune_race_job *job, struct sluice_random *random, unsigned nr,
		    bool *in);

/*
 * Set .mean of all points: the mean of their scores, after that was taken away which the
 * points of a round have in common.  What is probed late on a device that becomes slower is
 * not worse for that.
 */
void tune_race_level_out(struct tune_race_result *res);

/*
 * Fit "score = base + effect of each axis" to the points that were tried; fills res->effect,
 * res->noise and the strength of all points.
 */
void tune_race_model(const struct tune_race_job *job, struct tune_race_result *res);

#endif
