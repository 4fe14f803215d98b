/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_RESULT_CSV_H
#define SLUICE_REPORT_RESULT_CSV_H

/* Cells of CSV files, as RFC 4180 has them. */
#include <stdio.h>

/* Quoted where it must be. */
void csv_text(FILE *f, const char *s);
/* Nothing where it is not a number. */
void csv_number(FILE *f, double v);

#endif
