/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_STAGE_H
#define PENSTOCK_CORE_STAGE_H

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
	STAGE_FROM = 64 << 20,    /* bytes of a transfer that tells something */
	STAGE_BEFORE = 256 << 20, /* bytes to be moved before anything is tried */
	STAGE_TURNS = 3,          /* transfers of each way */
	STAGE_SHARE = 64,         /* what has gone the slower way is no more of what follows, */
};
#define STAGE_AGAIN (16ull << 30) /* which is so many bytes at least */

/* Of one device, for memory on one kind of pages. */
struct stage {
	uint64_t seen; /* bytes, before the next trial */
	uint64_t wait; /* for so many since the last one; 0: there was none */
	uint64_t bytes[2], ns[2];
	unsigned turns[2]; /* straight, staged */
	unsigned begun;    /* transfers, ever: tells whether one was alone */
	unsigned active;
	bool staged; /* what came out of it */
};

/* Which way for the next transfer of @len bytes?  @good: the way to begin with. */
bool stage_choose(struct stage *s, uint64_t len, bool good);
/* One that had the device for itself took that long. */
void stage_note(struct stage *s, bool staged, uint64_t len, uint64_t ns);

#endif
