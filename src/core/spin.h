/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CORE_SPIN_H
#define SLUICE_CORE_SPIN_H

/*
 * Looking for a while before going to sleep: a thread that sleeps costs two system calls and
 * some microseconds, which is more than a small operation takes.  How long is learned: longer
 * where that paid, shorter where it did not, so that a wait for a slow disk, or on a machine
 * whose processors have other things to do, costs next to nothing.
 */
#include "base/util.h"

enum { SPIN_MIN_NS = 1000, SPIN_START_NS = 5000, SPIN_MAX_NS = 20000 };

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* Look with @there until it says yes, at most @ns; returns how long to look next time. */
static inline unsigned spin_until(unsigned ns, bool (*there)(void *arg), void *arg)
{
	uint64_t end = clock_ns() + ns;
	bool yes;

	while (!(yes = there(arg)) && clock_ns() < end)
		for (unsigned i = 0; i < 4; i++)
			spin_pause();
	return (unsigned)(yes ? min_u64(2ull * ns, SPIN_MAX_NS) : max_u64(ns / 2, SPIN_MIN_NS));
}

#endif
