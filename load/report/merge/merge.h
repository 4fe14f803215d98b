/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_MERGE_MERGE_H
#define PENSTOCK_REPORT_MERGE_MERGE_H

/*
 * Results of several processes as one, of the same schema: what one process would have written
 * that had done it all.  Counts are added, histograms bucket by bucket, and percentiles are those
 * of the sum; the time is that from the first beginning to the last end.  Each process is a rank,
 * and has a row per series in the member `ranks' (docs/result.md).
 */
#include <jansson.h>
#include <stdio.h>

struct penstock_err;

struct merge_input {
	const json_t *result; /* checked by its schema; NULL: there is none */
	const char *name;     /* what messages and rows call it */
	const char *lost;     /* why there is none */
};

/*
 * 0, -ENOMEM, or -EINVAL with one line in @err that names the result and the member in which it
 * cannot be added to the others.  @how: the word for `ranks.how'.
 */
int merge_results(json_t **out, const struct merge_input *in, unsigned nr, const char *how,
		  struct penstock_err *err);

/*
 * -EINVAL, with the two named, where one result is given twice: to be asked before merge_shift().
 * Of one rank of one run rank 0 and the rank itself may have written files that differ.
 */
int merge_check_twice(const struct merge_input *in, unsigned nr, struct penstock_err *err);

/* @result was made on a host whose clock is so many seconds ahead: all its times are put right. */
void merge_shift(json_t *result, double ahead);

/* The table for people. */
void merge_text(FILE *f, const json_t *merged);

#endif
