/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_RESULT_CSV_H
#define SLUICE_REPORT_RESULT_CSV_H

/* Cells of CSV files, as RFC 4180 has them, and as programs for tables read them. */
#include <stdio.h>

/*
 * Quoted where it must be.  What a program for tables would take for a formula (=, +, -, @, a tab
 * or a line end in front) begins with an apostrophe, which makes it text there.
 */
void csv_text(FILE *f, const char *s);
/* Nothing where it is not a number. */
void csv_number(FILE *f, double v);

#endif
