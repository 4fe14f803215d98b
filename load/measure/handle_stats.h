/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_HANDLE_STATS_H
#define SLUICE_MEASURE_HANDLE_STATS_H

/* The counters of several handles as those of one. */
#include <sluice/sluice.h>

/* Add @one to @sum, which is zeroed before the first. */
void handle_stats_add(struct sluice_stats *sum, const struct sluice_stats *one);

#endif
