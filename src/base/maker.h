/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_BASE_MAKER_H
#define SLUICE_BASE_MAKER_H

/*
 * Which process made something where there are no locks: so that what a dead one has left is told
 * from what a living one uses.
 */
#include <stdbool.h>
#include <stdint.h>

struct sluice_maker {
	char where[192]; /* host, boot and PIDs' name space: what a process number has a meaning in
			  */
	int pid;
	uint64_t started; /* in ticks since boot */
};

void sluice_maker_self(struct sluice_maker *m);
/* Is that on this machine, since it was booted? */
bool sluice_maker_is_here(const struct sluice_maker *m);
/* Of one that is: does it still run? */
bool sluice_maker_runs(const struct sluice_maker *m);

#endif
