/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_RING_H
#define PENSTOCK_TESTS_RING_H

/* The fixture of the tests of the ring: a process with CUDA in use, and small words. */
#include <fcntl.h>

#include "base/random.h"
#include "tests/common/t.h"
#include "tests/gpu/standin/standin.h"

extern const char *rg_engine; /* as given */
extern bool rg_faulty;        /* it is the engine "fault": counters are not exact */

/* Of the running test; rg_teardown() ends what is left of them. */
extern struct penstock_io *rg_io;
extern struct penstock_file *rg_file;
extern const char *rg_path; /* a path where nothing is yet */
extern CUcontext rg_ctx[STANDIN_DEVICES];
extern unsigned long rg_errors; /* calls that the driver may have refused */

extern const struct t_group rg_transfer, rg_load, rg_order, rg_fault, rg_pieces;

void rg_setup(void);
/* Also checks that nothing is left, and that the driver was used as it wants to be. */
void rg_teardown(void);

/* Open rg_io with @opts (engine added), NULL: small blocks and two threads. */
struct penstock_opts rg_opts(void);
void rg_open(const struct penstock_opts *opts);
void rg_close(int want);
void rg_file_open(int oflags);

/* Memory of a device, freed by the teardown; contents are a pattern nobody else uses. */
CUdeviceptr rg_alloc(int device, size_t len);
void rg_free(CUdeviceptr ptr);
/* What is in there: the address for the test's own eyes. */
unsigned char *rg_see(CUdeviceptr ptr, size_t len);

struct penstock_op rg_op(enum penstock_opcode code, CUdeviceptr buf, uint64_t len, uint64_t offset);
uint64_t rg_submit(const struct penstock_op *op);
struct penstock_done rg_wait(uint64_t ticket);
/* Submit and wait, or penstock_run(), in turns; the result must be @want. */
#define RG_DO(op, want, turn) rg_do((op), (int64_t)(want), (turn), __FILE__, __LINE__)
struct penstock_done rg_do(const struct penstock_op *op, int64_t want, unsigned turn,
			   const char *file, int line);

#endif
