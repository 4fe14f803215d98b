/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_TABLE_H
#define PENSTOCK_TRACE_TABLE_H

/* Traces that are tables: columns with names, which a header puts in any order. */
#include <string.h>
#include <strings.h>

#include "load/trace/csvrow.h"
#include "load/trace/reader.h"

#define TABLE_COLUMNS 16

struct table {
	char separator;
	char comment;             /* lines that begin with it are passed over; 0: none */
	const char *const *names; /* of the columns that are known */
	int nr_names;
	int at[TABLE_COLUMNS]; /* where each of them is, or -1 */
	int nr;                /* columns of the file */
	int need;              /* columns a row must have: all that are known */
};

static inline bool field_is(struct csv_field f, const char *word)
{
	return strlen(word) == f.len && !strncasecmp(f.at, word, f.len);
}

/* Find the columns in the fields of a header. */
void table_columns(struct table *t, const struct csv_field *f, int nr);
/* The first row is a header of @what, with at least the @needed columns; 0, -EINVAL, ... */
int table_header(struct trace_reader *r, struct table *t, const int *needed, int nr,
		 const char *what, struct penstock_err *err);

/* Put one field where it belongs; false when it is not valid. */
typedef bool table_field(struct trace_row *row, int column, struct csv_field f);
/* The next row that is neither empty nor a comment; as struct trace_input.next(). */
int table_row(struct trace_reader *r, const struct table *t, struct trace_row *row,
	      table_field *set, struct penstock_err *err);

#endif
