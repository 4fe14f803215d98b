/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_GATE_H
#define PENSTOCK_MEASURE_GATE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Where something that is counted begins, processes that are one run wait for each other.  Who
 * knows of the others says how; without that nobody waits.  Returns when it was passed, by
 * clock_ns(): that is the beginning, whenever the thread gets a processor after it.
 */
void gate_set(uint64_t (*wait)(void));
uint64_t gate_wait(void);

/*
 * Who does something that may take long says again and again how far it is, by any number that
 * changes when something was done, and gate_quiet() at its end.  So others can tell one that is
 * slow from one whose storage does not answer.
 */
bool gate_listens(void); /* is there anybody? */
void gate_moved(uint64_t how_far);
void gate_quiet(void);
#define GATE_QUIET UINT64_MAX
uint64_t gate_still_ns(void); /* since that number changed, or GATE_QUIET: nobody says */

#endif
