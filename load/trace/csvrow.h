/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_CSVROW_H
#define PENSTOCK_TRACE_CSVROW_H

/* Rows of RFC 4180 (and its kin with TABs), whose quoted fields may hold newlines. */
#include "load/trace/source.h"

struct csv_field {
	char *at;
	size_t len;
};

#define CSV_FIELDS 32 /* more of them in a row are counted only */

/* As source_line(); *@ret_line is the number of the row's first line. */
int csv_row(struct source *s, char separator, char **ret_row, size_t *ret_len, uint64_t *ret_line,
	    struct penstock_err *err);

/*
 * Cut a row into fields, unquoted where it lies.  Returns how many there are, or -EINVAL when
 * the quotes are wrong: one is never closed, or followed by something else than a separator.
 */
#define CSV_BAD_QUOTES "a quote is not closed, or not at the end of its field"
int csv_split(char *row, size_t len, char separator, struct csv_field fields[CSV_FIELDS]);

#endif
