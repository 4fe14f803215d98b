/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_MERGE_MERGE_INTERNAL_H
#define PENSTOCK_REPORT_MERGE_MERGE_INTERNAL_H

/* What the files of this folder share. */
#include <stdbool.h>

#include "base/hist.h"
#include "load/measure/series.h"
#include "load/report/merge/merge.h"

/* A series of one rank. */
struct merge_rank {
	const struct merge_input *in;
	const json_t *j;    /* NULL: it has none of this name */
	double start, end;  /* of its turns, seconds since 1970 */
	double first, last; /* done */
};

/* The histogram of @j, which a series and the figures of a cache have, into @h, added. */
int merge_hist_read(struct penstock_hist *h, const json_t *j, const char *name, const char *where,
		    struct penstock_err *err);

/*
 * One series out of those of all ranks, which have the same name; @together: an operation is one of
 * all ranks, and the n-th of each belong to each other.
 */
int merge_series(json_t **out, const struct merge_rank *ranks, unsigned nr, bool together,
		 struct penstock_err *err);

/* An element of `ranks.series': the rows of a series, and what the slowest cost. */
json_t *merge_rows(const json_t *merged, const struct merge_rank *ranks, unsigned nr);

/* What is known of the clocks of members. */
void merge_clock_lines(FILE *f, const json_t *members);

/* Of ranks of `kv': what MLPerf's summary says of them; NULL: of other commands. */
json_t *merge_mlperf(const struct merge_input *in, unsigned nr);

/* Add the member @part ("kv", "io", ...) of another result to @to; @shift: seconds it began later.
 */
int merge_part(json_t *to, const json_t *from, const char *part, double shift, const char *name,
	       struct penstock_err *err);
/* What follows from others in it, once all were added. */
void merge_part_end(json_t *part, const json_t *series);

#endif
