/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_RAM_H
#define PENSTOCK_MEASURE_RAM_H

/*
 * How much memory there is for this process: the machine's, or less where a control
 * group (of a container, a job of a scheduler) has a limit.
 */
#include <stdint.h>

struct ram {
	uint64_t total, available; /* 0: the kernel does not say */
};

/* @root: where /proc and /sys are, "" but for tests. */
struct ram ram_read(const char *root);
uint64_t ram_available(void);

/*
 * The part of it that may be taken where nobody said how much: at most @most, half of all,
 * and less than what is free, in whole quarters of a GiB.
 */
uint64_t ram_share(const struct ram *r, uint64_t most);

#endif
