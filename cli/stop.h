/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_STOP_H
#define SLUICE_CLI_STOP_H

/*
 * The first SIGINT, SIGTERM or SIGHUP ends a job cleanly; one that comes more than a second
 * later kills.  Returns what is not 0 from then on: the number of the signal.
 */
#include <stdatomic.h>

const atomic_int *cli_stop_catch(void);

#endif
