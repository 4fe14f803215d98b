/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_RESULT_CELLS_H
#define PENSTOCK_REPORT_RESULT_CELLS_H

/*
 * A line of named cells, written once and told in each form: CSV as RFC 4180 has it, a line of a
 * sheet, or a column of names and values.
 */
#include <penstock/penstock.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sheet;

enum cell_kind { CELL_NUMBER, CELL_TEXT, CELL_BOOL };

struct cell {
	char name[48];
	enum cell_kind kind;
	double number; /* NAN: not known, and empty; of a switch 0 or 1 */
	char text[256];
};

struct cell cell_number(const char *name, double v);
struct cell cell_text(const char *name, const char *text);
struct cell cell_bool(const char *name, bool on);

/* One line: the names, or the values. */
void cells_csv(FILE *f, const struct cell *c, unsigned nr, bool names);
void cells_row(struct sheet *s, const struct cell *c, unsigned nr, bool names);
/* A line for each cell under these two names. */
void cells_column(struct sheet *s, const char *name, const char *value, const struct cell *c,
		  unsigned nr);

/*
 * A text as a cell of a CSV file, quoted where it must be.  What a program for tables would take
 * for a formula (=, +, -, @, a tab or a line end in front) begins with an apostrophe, which makes
 * it text there.
 */
void csv_text(FILE *f, const char *s);

/*
 * A workbook of sheets, put together line by line in memory through libxlsxwriter.  Errors of
 * single cells are remembered and told at the end.
 */

struct workbook;

/* One sheet: cells go into line @row. */
struct sheet {
	struct workbook *book;
	void *ws;
	uint32_t row;
};

/* 0, -ENOTSUP when libxlsxwriter is not installed, or another -errno; the reason is in @err. */
int workbook_open(struct workbook **out, struct penstock_err *err);
struct sheet workbook_sheet(struct workbook *b, const char *name);
/* Write it to @f, free @b.  0 or -errno with the reason in @err. */
int workbook_close(struct workbook *b, FILE *f, struct penstock_err *err);

void sheet_text(struct sheet *s, unsigned col, const char *text);
/* A cell of what is not known (NAN) stays empty. */
void sheet_number(struct sheet *s, unsigned col, double v);
/* TRUE or FALSE. */
void sheet_bool(struct sheet *s, unsigned col, bool on);
/* A line of texts, NULL-terminated. */
void sheet_names(struct sheet *s, const char *const *names);

#endif
