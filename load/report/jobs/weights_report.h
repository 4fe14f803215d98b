/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_WEIGHTS_REPORT_H
#define PENSTOCK_REPORT_JOBS_WEIGHTS_REPORT_H

/* What `penstock weights' prints, and its part of a result. */
#include <jansson.h>
#include <stdio.h>

struct weights_job;
struct weights_plan;
struct weights_result;

void weights_report_plan(FILE *f, const struct weights_job *job, const struct weights_plan *plan);
void weights_report_text(FILE *f, const struct weights_job *job, const struct weights_result *res);
/* The member `weights' of a result: a new object. */
json_t *weights_report_json(const struct weights_job *job, const struct weights_result *res);

#endif
