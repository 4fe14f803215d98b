/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_GATE_H
#define SLUICE_MEASURE_GATE_H

/*
 * Where something that is counted begins, processes that are one run wait for each other.  Who
 * knows of the others says how; without that nobody waits.
 */
void gate_set(void (*wait)(void));
void gate_wait(void);

#endif
