/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_GATE_H
#define SLUICE_MEASURE_GATE_H

#include <stdint.h>

/*
 * Where something that is counted begins, processes that are one run wait for each other.  Who
 * knows of the others says how; without that nobody waits.  Returns when it was passed, by
 * clock_ns(): that is the beginning, whenever the thread gets a processor after it.
 */
void gate_set(uint64_t (*wait)(void));
uint64_t gate_wait(void);

#endif
