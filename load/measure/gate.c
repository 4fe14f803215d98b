/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/gate.h"

#include <stdatomic.h>

#include "base/util.h"

static uint64_t (*gate)(void); /* set before any thread is there */

void gate_set(uint64_t (*wait)(void))
{
	gate = wait;
}

static atomic_uint_fast64_t moved_far, moved_ns; /* 0: nobody says */

uint64_t gate_wait(void)
{
	uint64_t passed;

	if (!gate)
		return clock_ns();
	passed = gate();
	gate_quiet(); /* the time at the gate is that of others */
	return passed;
}

bool gate_listens(void)
{
	return gate;
}

void gate_moved(uint64_t how_far)
{
	if (!gate || (atomic_load(&moved_ns) && atomic_load(&moved_far) == how_far))
		return;
	atomic_store(&moved_far, how_far);
	atomic_store(&moved_ns, clock_ns());
}

void gate_quiet(void)
{
	atomic_store(&moved_ns, 0);
}

uint64_t gate_still_ns(void)
{
	uint64_t since = atomic_load(&moved_ns), now = clock_ns();

	return !since ? GATE_QUIET : now > since ? now - since : 0;
}
