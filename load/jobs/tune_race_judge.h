/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_TUNE_RACE_JUDGE_H
#define SLUICE_JOBS_TUNE_RACE_JUDGE_H

/* Who leads, who is worse for sure, and who cannot be told apart: see tune_race.h. */
#include "load/jobs/tune_race.h"

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

#endif
