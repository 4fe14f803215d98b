/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_SPIN_H
#define PENSTOCK_CORE_SPIN_H

/*
 * Looking for a while before going to sleep: a thread that sleeps costs two system calls and
 * some microseconds, which is more than a small operation takes.  How long is learned from
 * how long waits last, slept through or not: twice that where they are short, and less each time
 * where they are long, so that a wait for a slow disk, or on a machine whose processors have
 * other things to do, costs next to nothing.
 *
 * Who is waited for may need this very processor, where there are more threads than processors: so
 * it is offered to others after a moment.  Not for a while, though, where somebody took it for
 * longer than any hand-over takes.
 */
#include <sched.h>

#include "base/util.h"

enum {
	SPIN_MIN_NS = 1000,
	SPIN_START_NS = 5000,
	SPIN_MAX_NS = 30000,
	SPIN_WORTH_NS = 50000,
	SPIN_ALONE_NS = 1000,   /* until the processor is offered, */
	SPIN_LOST_NS = 200000,  /* which took too long, */
	SPIN_LOST_TIMES = 1000, /* so many times of looking without that */
};

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

static __thread unsigned spin_keep; /* times of looking in which the processor is kept */

/* Look with @is_ready until it says yes, at most @ns. */
static inline bool spin_until(unsigned ns, bool (*is_ready)(void *arg), void *arg)
{
	uint64_t start = clock_ns(), now = start, before;
	bool yes;

	while (!(yes = is_ready(arg)) && now - start < ns) {
		before = now;
		if (now - start < SPIN_ALONE_NS || spin_keep)
			for (unsigned i = 0; i < 4; i++)
				spin_pause();
		else
			sched_yield();
		now = clock_ns();
		if (now - before > SPIN_LOST_NS)
			spin_keep = SPIN_LOST_TIMES;
	}
	spin_keep -= spin_keep > 0;
	return yes;
}

/* How long to look next time, after a wait of @waited. */
static inline unsigned spin_learn(unsigned ns, uint64_t waited)
{
	if (waited > SPIN_WORTH_NS)
		return (unsigned)max_u64(ns / 2, SPIN_MIN_NS);
	return (unsigned)min_u64(max_u64(ns, 2 * waited), SPIN_MAX_NS);
}

#endif
