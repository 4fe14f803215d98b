/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_CKPT_REPORT_H
#define PENSTOCK_REPORT_JOBS_CKPT_REPORT_H

/* What `penstock ckpt bench' prints, and its part of a result. */
#include <jansson.h>
#include <stdio.h>

struct ckpt_job;
struct ckpt_plan;
struct ckpt_result;

void ckpt_report_plan(FILE *f, const struct ckpt_job *job, const struct ckpt_plan *plan);
void ckpt_report_text(FILE *f, const struct ckpt_job *job, const struct ckpt_result *res);
/* The member `ckpt' of a result: a new object. */
json_t *ckpt_report_json(const struct ckpt_job *job, const struct ckpt_result *res);

#endif
