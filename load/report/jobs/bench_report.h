/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_BENCH_REPORT_H
#define PENSTOCK_REPORT_JOBS_BENCH_REPORT_H

/* What `penstock bench' prints.  The blocks of statistics are those of DS-AIO-Benchmark: MB = 10^6.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct bench_job;
struct bench_plan;
struct bench_result;
struct fio_result;
struct run_series;

/* "Write Statistics:" and what it has, percentiles and distribution included. */
void bench_report_series(FILE *f, const struct run_series *s);

/* One line per series, then what ran and where. */
void bench_report_summary(FILE *f, const struct bench_job *job, const struct bench_result *res);

/* For --dry-run. */
void bench_report_plan(FILE *f, const struct bench_job *job, const struct bench_plan *plan);

/* fio's numbers beside ours: the member `fio', a new array; and lines to @out, unless that is NULL.
 */
json_t *bench_report_fio(FILE *out, const char *tool, const struct fio_result *fio, unsigned nr);

#endif
