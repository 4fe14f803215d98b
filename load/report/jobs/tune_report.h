/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_TUNE_REPORT_H
#define PENSTOCK_REPORT_JOBS_TUNE_REPORT_H

/* What a search for the best settings found, for people and for programs. */
#include <jansson.h>
#include <stdio.h>

struct run_series;
struct tune_job;
struct tune_result;

/*
 * The winner as DeepSpeed's configuration, {"aio": {...}}: a new object.  Our
 * own readers take the same.
 */
json_t *tune_config_json(const struct tune_job *job, const struct tune_result *res);

/* ds_nvme_tune's first line, and its last ones, then how the winner was found. */
void tune_report_start(FILE *f, const struct tune_job *job);
void tune_report_text(FILE *f, const struct tune_job *job, const struct tune_result *res);
/* What would run. */
void tune_report_plan(FILE *f, const struct tune_job *job);

/* The member "tune" of a result: a new object. */
json_t *tune_json(const struct tune_job *job, const struct tune_result *res);

/*
 * All series that were measured, winner first: an array of shallow copies to
 * free; *@ret_nr is their number.  NULL when there is no memory.
 */
struct run_series *tune_series(const struct tune_job *job, const struct tune_result *res,
			       unsigned *ret_nr);

#endif
