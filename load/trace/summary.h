/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_SUMMARY_H
#define PENSTOCK_TRACE_SUMMARY_H

/* What is in a trace: counts, sizes, reuse, working set.  Memory is bounded; see reuse.h. */
#include <stdatomic.h>

#include "base/hist.h"
#include "load/trace/reuse.h"
#include "load/trace/trace.h"

struct trace_sum {
	uint64_t rows, bytes;
};

/* How often a value came, in bins of 1/32 of an octave: within 3 %. */
#define TRACE_BINS (64 * 32)
struct trace_bins {
	uint64_t count;
	uint64_t bin[TRACE_BINS];
};
void trace_bins_add(struct trace_bins *b, uint64_t v, uint64_t weight);
/* The smallest value that the share @p (0..1) of all does not exceed; 0 when empty. */
uint64_t trace_bins_quantile(const struct trace_bins *b, double p);
/* How many are at most @v, as far as bins can tell. */
uint64_t trace_bins_upto(const struct trace_bins *b, uint64_t v);

struct trace_window {
	uint64_t rows;
	uint64_t read_bytes, write_bytes;
	uint64_t objects, bytes; /* different ones that were touched: the working set */
};

struct trace_summary {
	enum trace_format format;
	uint64_t rows, bytes;
	struct trace_bad bad;
	uint64_t first_ns, last_ns;      /* earliest and latest */
	uint64_t backwards, back_max_ns; /* rows earlier than the one before, by how much at most */
	uint64_t failed;
	/* by operation, tier (the last: none), phase */
	struct trace_sum sum[TRACE_OPS][TRACE_TIERS + 1][TRACE_PHASES];
	struct penstock_hist sizes;
	/*
	 * Reuse of what is used; moves between tiers (phase Evict) are no uses unless one tier
	 * alone is looked at.
	 */
	struct reuse_totals keys;
	uint64_t first_reads, reads;         /* reads of what was not there before; all */
	struct trace_bins objects, distance; /* of the other reads, in objects and bytes */
	uint64_t window_ns;                  /* width */
	unsigned nr_windows;
	struct trace_window window[REUSE_WINDOWS];
};

struct trace_summary_opts {
	unsigned tiers;  /* bit n: rows of tier n; bit TRACE_TIERS: those without; 0: all rows */
	size_t max_keys; /* exact up to so many; 0: REUSE_KEYS */
	const atomic_int *stop; /* not 0: -EINTR; NULL: never */
};

/* Read all of @path.  The result is freed by free(). */
int trace_summary_make(struct trace_summary **out, const char *path,
		       const struct trace_reader_opts *ro, const struct trace_summary_opts *o,
		       struct penstock_err *err);

/* Of all operations, tiers or phases with -1. */
struct trace_sum trace_summary_sum(const struct trace_summary *s, int op, int tier, int phase);

#endif
