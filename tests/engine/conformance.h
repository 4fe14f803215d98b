/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_CONFORMANCE_H
#define PENSTOCK_TESTS_CONFORMANCE_H

/* The fixture of the conformance suite and small words for operations. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/random.h"
#include "tests/common/t.h"

extern const char *cf_engine; /* as given: "threads", "fault:inner=threads,..." */
extern bool cf_null;          /* it moves nothing: no look at the data */
extern bool cf_fault;         /* it is slower and retries; counters are not exact */

/* Of the running test; cf_teardown() ends what is left of them. */
extern struct penstock_io *cf_io;
extern struct penstock_file *cf_file;
extern const char *cf_path; /* a path in the test directory where nothing is yet */

extern const struct t_group cf_transfer, cf_large, cf_files, cf_tickets, cf_together, cf_limits,
	cf_memory, cf_corners;

void cf_setup(void);
void cf_teardown(void);

/* Options of the engine under test; small blocks, so that small transfers have several. */
struct penstock_opts cf_opts(void);
/* Open cf_io; NULL for cf_opts(). */
void cf_open(const struct penstock_opts *opts);
/* Close cf_io, with this result. */
void cf_close(int want);
/* Open cf_file on cf_io. */
void cf_file_open(int oflags);

struct penstock_op cf_op(enum penstock_opcode code, void *buf, uint64_t len, uint64_t offset);
struct penstock_op cf_path_op(enum penstock_opcode code, const char *path, void *buf, uint64_t len,
			      uint64_t offset);

/* Submit and wait; the operation must be taken. */
struct penstock_done cf_async(const struct penstock_op *op);
struct penstock_done cf_sync(const struct penstock_op *op);
/* The same, alternating by @turn; it must succeed with @want bytes. */
#define CF_DO(op, want, turn) cf_do((op), (int64_t)(want), (turn), __FILE__, __LINE__)
struct penstock_done cf_do(const struct penstock_op *op, int64_t want, unsigned turn,
			   const char *file, int line);
uint64_t cf_submit(const struct penstock_op *op);

/*
 * Hold the only I/O thread of the handle inside a callback: what is submitted
 * while the gate is shut is not finished, however long one waits.
 */
void cf_gate_shut(void);
void cf_gate_open(void);

#endif
