/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_PROGRAM_H
#define PENSTOCK_BASE_PROGRAM_H

/* Another program, run for what it prints. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct penstock_program {
	char *const *argv;      /* a path, or a name in PATH */
	const char *dir;        /* where it works; NULL: here */
	size_t max_output;      /* it must print fewer bytes than this; 0: any number */
	uint64_t limit_ns;      /* how long it may take; 0: any time */
	const atomic_int *stop; /* set, it is asked to end by SIGTERM; NULL: never */
};

/*
 * Run it to its end, in a process group of its own, with nothing to read; what it says on its
 * standard error is lost.  Returns 0 with its @status as of waitpid(), 0 too where somebody else
 * has waited for it; or -errno, -E2BIG and -ETIMEDOUT where a bound was passed: all of it is killed
 * then.
 * *@text, to be freed in any case, is what it printed, in @max_output + 1 bytes where there is a
 * bound: no copy of them is left elsewhere.  NULL: nothing.
 */
int penstock_program_run(const struct penstock_program *p, char **text, int *status);

#endif
