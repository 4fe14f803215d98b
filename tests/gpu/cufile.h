/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_GPU_CUFILE_H
#define PENSTOCK_TESTS_GPU_CUFILE_H

/* The fixture of the tests of the cuFile engine, on top of that of the pinned pool. */
#include "tests/gpu/fixture.h"
#include "tests/gpu/standin/cufile.h"

extern struct standin_cufile *cf; /* the stand-in's control */

void cf_setup(void);
void cf_teardown(void); /* also checks that nothing is registered any more */
struct penstock_stats cf_stats(void);

extern const struct t_group cf_transfer, cf_fault, cf_direct, cf_driver;

#endif
