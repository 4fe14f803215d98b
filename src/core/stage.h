/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CORE_STAGE_H
#define SLUICE_CORE_STAGE_H

/*
 * Straight, or through a few megabytes of memory that stays hot?  A virtual disk may be faster by
 * the second way, which costs a copy.  Found out for each device and kind of pages: when
 * enough has gone the way that is known to be good, large transfers that have the device for
 * themselves take both in turns, and then all take the faster one.
 */
#include <stdbool.h>
#include <stdint.h>

enum {
	STAGE_FROM = 64 << 20,    /* bytes of a transfer that tells something */
	STAGE_BEFORE = 256 << 20, /* bytes to be moved before anything is tried */
	STAGE_TURNS = 3,          /* transfers of each way */
};

/* Of one device, for memory on one kind of pages. */
struct stage {
	uint64_t seen; /* bytes, before the trial */
	uint64_t bytes[2], ns[2];
	unsigned turns[2]; /* straight, staged */
	unsigned begun;    /* transfers, ever: tells whether one was alone */
	unsigned active;
	bool known, staged; /* the trial is over: what came out */
};

/* Which way for the next transfer of @len bytes?  @good: the way to begin with. */
bool stage_choose(struct stage *s, uint64_t len, bool good);
/* One that had the device for itself took that long. */
void stage_note(struct stage *s, bool staged, uint64_t len, uint64_t ns);

#endif
