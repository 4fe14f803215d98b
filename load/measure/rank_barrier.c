/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/rank_barrier.h"

#include <stdatomic.h>

#include "base/util.h"

static uint64_t (*barrier)(void); /* set before any thread starts */

void rank_barrier_set(uint64_t (*wait)(void))
{
	barrier = wait;
}

static atomic_uint_fast64_t progress, progress_ns; /* progress_ns is 0: no rank reports */

uint64_t rank_barrier_wait(void)
{
	uint64_t passed;

	if (!barrier)
		return clock_ns();
	passed = barrier();
	rank_progress_end(); /* the time at the barrier belongs to other ranks */
	return passed;
}

bool rank_progress_watched(void)
{
	return barrier;
}

void rank_progress_report(uint64_t how_far)
{
	if (!barrier || (atomic_load(&progress_ns) && atomic_load(&progress) == how_far))
		return;
	atomic_store(&progress, how_far);
	atomic_store(&progress_ns, clock_ns());
}

void rank_progress_end(void)
{
	atomic_store(&progress_ns, 0);
}

uint64_t rank_progress_stalled_ns(void)
{
	uint64_t since = atomic_load(&progress_ns), now = clock_ns();

	return !since ? RANK_PROGRESS_NONE : now > since ? now - since : 0;
}
