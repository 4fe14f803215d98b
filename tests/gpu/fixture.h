/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_FIXTURE_H
#define PENSTOCK_TESTS_FIXTURE_H

/* The fixture of the tests of the pinned pool: a process with CUDA in use, and small words. */
#include <fcntl.h>

#include "base/random.h"
#include "tests/common/t.h"
#include "tests/gpu/standin/standin.h"

extern const char *fixture_engine; /* as given */
extern bool fixture_faulty;        /* it is the engine "fault": counters are not exact */

/* Of the running test; fixture_teardown() ends what is left of them. */
extern struct penstock_io *fixture_io;
extern struct penstock_file *fixture_file;
extern const char *fixture_path; /* a path where nothing is yet */
extern CUcontext fixture_ctx[STANDIN_DEVICES];
extern unsigned long fixture_errors; /* calls that the driver may have refused */

extern const struct t_group pinned_pool_transfer, pinned_pool_load, pinned_pool_order,
	pinned_pool_fault, pinned_pool_pieces;

void fixture_setup(void);
/* Also checks that nothing is left, and that the driver was used as it wants to be. */
void fixture_teardown(void);

/* Open fixture_io with @opts (engine added), NULL: small blocks and two threads. */
struct penstock_opts fixture_opts(void);
void fixture_open(const struct penstock_opts *opts);
void fixture_close(int want);
void fixture_file_open(int oflags);

/* Memory of a device, freed by the teardown; contents are a pattern nobody else uses. */
CUdeviceptr fixture_alloc(int device, size_t len);
void fixture_free(CUdeviceptr ptr);
/* What is in there: the address for the test's own eyes. */
unsigned char *fixture_see(CUdeviceptr ptr, size_t len);

struct penstock_op fixture_op(enum penstock_opcode code, CUdeviceptr buf, uint64_t len,
			      uint64_t offset);
uint64_t fixture_submit(const struct penstock_op *op);
struct penstock_done fixture_wait(uint64_t ticket);
/* Submit and wait, or penstock_run(), in turns; the result must be @want. */
#define FIXTURE_DO(op, want, turn) fixture_do((op), (int64_t)(want), (turn), __FILE__, __LINE__)
struct penstock_done fixture_do(const struct penstock_op *op, int64_t want, unsigned turn,
				const char *file, int line);

#endif
