/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_EXTERNAL_PROGRAM_H
#define PENSTOCK_JOBS_EXTERNAL_PROGRAM_H

/* Other programs that do the same work beside us. */
#include <stdatomic.h>
#include <stdbool.h>

/* Is it there: a name in PATH, or a path? */
bool external_program_exists(const char *name);
/*
 * Run it in @dir until it ends; a stop ends it.  Its status, or 128 and the signal; or -errno. What
 * it has said is in *@ret, to be freed; NULL: nothing.
 */
int external_program_run(char *const argv[], const char *dir, const atomic_int *stop, char **ret);

#endif
