/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_MAKER_H
#define PENSTOCK_BASE_MAKER_H

/*
 * Which process made something where there are no locks: so that what a dead one has left is told
 * from what a living one uses.
 */
#include <stdbool.h>
#include <stdint.h>

struct penstock_maker {
	char where[192]; /* host, boot and PIDs' name space: what a process number has a meaning in
			  */
	int pid;
	uint64_t started; /* in ticks since boot */
};

void penstock_maker_self(struct penstock_maker *m);
/* Is that on this machine, since it was booted? */
bool penstock_maker_is_here(const struct penstock_maker *m);
/* Of one that is: does it still run? */
bool penstock_maker_runs(const struct penstock_maker *m);

#endif
