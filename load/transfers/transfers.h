/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRANSFERS_TRANSFERS_H
#define PENSTOCK_TRANSFERS_TRANSFERS_H

/*
 * Transfers: operations on ranges of files, and the one runner that carries them out.
 *
 * A source yields operations: what, which file, where, how much, and not before
 * when.  run_transfers() carries them out through the public API with a bounded
 * number in flight and counts.  bench, io, sweep and tune differ only in their
 * sources.
 *
 *	struct op_source + struct transfers_job -> run_transfers() -> struct run_series[]
 *
 * Time.  A latency is the time from submission to completion as the caller sees
 * it, opening and closing the file included where the job says so.  Counted time
 * is the time in which an operation was in flight or waited for its turn, by any
 * worker; what a source does in prepare() and finish() is in it only while
 * others are in flight.  It begins with the first operation that is not warm-up,
 * or with its wait, and ends with the last one that was counted; one that ends
 * after the deadline is not.  CPU time of prepare() and finish() is left out.
 *
 * Rounds.  Each worker does one operation, all beginning together once all are
 * prepared, and finish() comes when all have ended.  A round counts only if it was
 * completed by all workers that had an operation.  Its time is that from its
 * first beginning to its last end.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "load/bed/bed_file.h"
#include "load/bed/buffers.h"
#include "load/measure/series.h"

struct load_op {
	bool read;       /* else write */
	bool warmup;     /* carried out, not counted */
	uint32_t series; /* where to count it: index < transfers_job.nr_series */
	uint32_t file;   /* index < transfers_job.nr_files */
	uint64_t offset;
	uint64_t len;        /* at most that of a buffer */
	uint64_t not_before; /* ns since counted time began; 0: at once, as is all warm-up */
	uint64_t tag;        /* the source's own */
	/* By the runner, for finish(). */
	uint64_t took_ns;  /* its latency */
	uint64_t round_ns; /* of all workers together */
};

struct op_source {
	/*
	 * The next operation of @worker: 1, or 0 when there is none left, or
	 * -errno.  One call at a time, from any worker's thread; must be quick.
	 */
	int (*next)(void *arg, unsigned worker, struct load_op *op, struct penstock_err *err);
	/*
	 * Optional: before the submission, and after a completion without error; in the
	 * worker's thread.
	 */
	int (*prepare)(void *arg, const struct load_op *op, void *buf, struct penstock_err *err);
	int (*finish)(void *arg, const struct load_op *op, void *buf, struct penstock_err *err);
	void *arg;
};

/* What the handle of one worker reports. */
struct transfers_handle_info {
	struct penstock_stats stats;
	struct penstock_file_info file;
	struct penstock_buf_info buf;
	uint32_t done_flags; /* PENSTOCK_DONE_* of all its operations together */
};

struct transfers_job {
	struct op_source source;
	const struct bed_file *files; /* they exist */
	unsigned nr_files;
	bool open_each;   /* open and close the file in each operation, as DeepSpeed does */
	bool rounds;      /* workers wait for each other; with open_each, depth 1, no not_before */
	unsigned workers; /* threads with a handle each, >= 1 */
	unsigned depth;   /* operations in flight per worker, >= 1 */
	struct penstock_opts opts;
	const struct bed_buffers *buffers; /* workers * depth, in their order */
	unsigned nr_series;
	uint64_t runtime_ns;    /* of counted operations; 0: until the source ends */
	const atomic_int *stop; /* optional: end with what there is when it is not 0 */
	/* Optional: called a few times a second, by the thread that called run_transfers(). */
	void (*progress)(void *arg, uint64_t bytes);
	void *progress_arg;
	struct transfers_handle_info
		*handles; /* optional: of each worker, zeroed; filled where it could begin */
};

/*
 * Carry it out.  @series are nr_series structs, zeroed or of an earlier run of the same
 * work, behind which this one is counted; the caller frees them with
 * series_fini() whatever is returned: 0, or -errno with one line in @err when an
 * operation or the source failed, which ends the run.  What was counted up to
 * there is in @series, marked partial, as it is when stop was set.
 */
int run_transfers(const struct transfers_job *job, struct run_series *series,
		  struct penstock_err *err);

#endif
