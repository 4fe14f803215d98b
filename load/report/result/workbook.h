/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_RESULT_WORKBOOK_H
#define SLUICE_REPORT_RESULT_WORKBOOK_H

/*
 * A workbook of sheets, put together line by line in memory through libxlsxwriter.  Errors of
 * single cells are remembered and told at the end.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <sluice/sluice.h>

struct workbook;

/* One sheet: cells go into line @row. */
struct sheet {
	struct workbook *book;
	void *ws;
	uint32_t row;
};

/* 0, -ENOTSUP when libxlsxwriter is not installed, or another -errno; the reason is in @err. */
int workbook_open(struct workbook **out, struct sluice_err *err);
struct sheet workbook_sheet(struct workbook *b, const char *name);
/* Write it to @f, free @b.  0 or -errno with the reason in @err. */
int workbook_close(struct workbook *b, FILE *f, struct sluice_err *err);

void sheet_text(struct sheet *s, unsigned col, const char *text);
/* A cell of what is not known (NAN) stays empty. */
void sheet_number(struct sheet *s, unsigned col, double v);
/* TRUE or FALSE. */
void sheet_switch(struct sheet *s, unsigned col, bool on);
/* A line of texts, NULL-terminated. */
void sheet_names(struct sheet *s, const char *const *names);

#endif
