/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_COPY_TRIAL_H
#define PENSTOCK_CORE_COPY_TRIAL_H

/*
 * Straight, or through a few megabytes of memory that stays hot?  A virtual disk may be faster by
 * the second way, which costs a copy.  Found out for each device and kind of pages: when
 * enough has gone the way that is known to be good, large transfers that have the device for
 * themselves take both in turns, and then all take the faster one.  Until so much has gone that
 * way that it costs little to try again: others come and go on such a disk and its host.
 */
#include <stdbool.h>
#include <stdint.h>

enum {
	COPY_TRIAL_FROM = 64 << 20,    /* bytes of a transfer that tells something */
	COPY_TRIAL_BEFORE = 256 << 20, /* bytes to be moved before anything is tried */
	COPY_TRIAL_RUNS = 3,           /* transfers of each way */
	COPY_TRIAL_SHARE = 64, /* what has gone the slower way is no more of what follows, */
};
#define COPY_TRIAL_AGAIN (16ull << 30) /* which is so many bytes at least */

/* Of one device, for memory on one kind of pages. */
struct copy_trial {
	uint64_t seen; /* bytes, before the next trial */
	uint64_t wait; /* for so many since the last one; 0: there was none */
	uint64_t bytes[2], ns[2];
	unsigned runs[2]; /* straight, copied */
	unsigned begun;   /* transfers, ever: tells whether one was alone */
	unsigned active;
	bool copied; /* the result of the last trial: copying is faster */
};

/* Which way for the next transfer of @len bytes?  @good: the way to begin with. */
bool copy_trial_choose(struct copy_trial *s, uint64_t len, bool good);
/* One that had the device for itself took that long. */
void copy_trial_record(struct copy_trial *s, bool copied, uint64_t len, uint64_t ns);

#endif
