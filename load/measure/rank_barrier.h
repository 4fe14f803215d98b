/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_RANK_BARRIER_H
#define PENSTOCK_MEASURE_RANK_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * All ranks of a run wait for each other here before counted work begins.  load/hosts sets the
 * wait; without it rank_barrier_wait() returns at once.  It returns the moment at which the
 * barrier opened, by clock_ns(): counted time begins then, whenever the scheduler runs the thread.
 */
void rank_barrier_set(uint64_t (*wait)(void));
uint64_t rank_barrier_wait(void);

/*
 * Work that may take long reports its progress again and again, by any number that changes when
 * something was done, and calls rank_progress_end() at its end.  So other ranks can tell a slow
 * rank from a rank whose storage does not answer.
 */
bool rank_progress_watched(void); /* does any rank read the reports? */
void rank_progress_report(uint64_t how_far);
void rank_progress_end(void);
#define RANK_PROGRESS_NONE UINT64_MAX
uint64_t rank_progress_stalled_ns(
	void); /* since that number changed, or RANK_PROGRESS_NONE: no rank reports */

#endif
