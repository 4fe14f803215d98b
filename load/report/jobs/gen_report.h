/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_GEN_REPORT_H
#define PENSTOCK_REPORT_JOBS_GEN_REPORT_H

/* What `penstock gen' prints. */
#include <stdio.h>

struct gen_job;
struct gen_result;

void gen_report_text(FILE *f, const struct gen_job *job, const struct gen_result *res);

#endif
