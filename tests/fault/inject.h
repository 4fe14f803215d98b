/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_INJECT_H
#define PENSTOCK_TESTS_INJECT_H

/*
 * Calls of the library into libc, liburing and libaio, one of which fails.
 * wrap.args has the linker lead them all here (--wrap); inject.c has one
 * wrapper each, with the errors that call may meet in real life.
 */
#include <stdbool.h>

/*
 * Let the @nth call from now on fail, with the @variant-th of its errors.  With
 * @for_good later calls of the same function fail as well.
 */
void inject_arm(unsigned long nth, unsigned variant, bool for_good);
void inject_disarm(void);

/* What became of it. */
enum inject_result {
	INJECT_NOT_REACHED, /* there were fewer calls */
	INJECT_PASSED,      /* the call has no such variant, so it was let through */
	INJECT_FAILED,
};
enum inject_result inject_result(void);
/* Name of the function and the errno value it was given. */
const char *inject_name(void);
int inject_errno(void);
/* libaio contexts that were set up and not destroyed. */
int inject_nr_contexts(void);

#endif
