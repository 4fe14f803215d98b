/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_TRACE_REPORT_H
#define PENSTOCK_REPORT_JOBS_TRACE_REPORT_H

/* What is in a trace, for people and for programs. */
#include <jansson.h>
#include <stdio.h>

#include "load/trace/summary.h"

void report_trace_text(FILE *f, const struct trace_summary *s, const char *name);
/* Schema penstock-trace/1; NULL for lack of memory. */
json_t *report_trace_json(const struct trace_summary *s, const char *name);

#endif
