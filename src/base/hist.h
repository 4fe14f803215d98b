/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_HIST_H
#define PENSTOCK_BASE_HIST_H

/*
 * A histogram of durations in nanoseconds, from 0 to beyond two hours, in
 * buckets no wider than 1/128 of their value: whatever is read out of it is
 * within 1 %, and its middle within 0.4 %.  Adding costs a few instructions, and
 * histograms of threads, runs and machines can be added up without loss.
 */
#include <stdbool.h>
#include <stdint.h>

#define PENSTOCK_HIST_BITS 7  /* an octave is cut into 2^7 buckets */
#define PENSTOCK_HIST_TOP  43 /* values from 2^43 ns (2.4 h) on are counted in the last bucket */
#define PENSTOCK_HIST_SIZE ((PENSTOCK_HIST_TOP - PENSTOCK_HIST_BITS + 1) << PENSTOCK_HIST_BITS)

/* Of the middle of a bucket, against any value in it. */
#define PENSTOCK_HIST_ERROR (1.0 / (2 << PENSTOCK_HIST_BITS))

struct penstock_hist {
	uint64_t count;
	uint64_t min, max; /* exact; 0 when empty */
	uint64_t bucket[PENSTOCK_HIST_SIZE];
};

/* Values [low, high). */
struct penstock_hist_bucket {
	uint64_t low, high, count;
};

void penstock_hist_add(struct penstock_hist *h, uint64_t ns);
void penstock_hist_merge(struct penstock_hist *h, const struct penstock_hist *other);

/*
 * The next bucket with something in it: start with *@pos = 0 and go on until it
 * returns false.
 */
bool penstock_hist_next(const struct penstock_hist *h, unsigned *pos,
			struct penstock_hist_bucket *ret);

/*
 * Add what such a bucket of another one held.  min and max become no better known than by it.
 * False: there is no bucket with these bounds, and nothing was added.
 */
bool penstock_hist_add_bucket(struct penstock_hist *h, const struct penstock_hist_bucket *b);

/*
 * Percentile @p (0..100), interpolated between neighbours as numpy does, the
 * values of a bucket being spread over it.  0 when empty.
 */
double penstock_hist_percentile(const struct penstock_hist *h, double p);

#endif
