/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_JOBS_BENCH_REPORT_H
#define SLUICE_REPORT_JOBS_BENCH_REPORT_H

/* What `sluice bench' prints.  The blocks of statistics are those of DS-AIO-Benchmark: MB = 10^6.
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

/*
 * Its line of the bytes that would be written, @limit of them to measure the limit;
 * @open_ended: there is no bound, the job ends by time.
 */
void report_plan_writes(FILE *f, uint64_t bytes, uint64_t limit, bool open_ended);

/* fio's numbers beside ours: the member `fio', a new array; and lines to @out, unless that is NULL.
 */
json_t *bench_report_fio(FILE *out, const struct fio_result *fio, unsigned nr);

/* What was asked for, by a job before bench_check(); a new object. */
json_t *bench_settings_json(const struct bench_job *job);

/* "1.234 ms": a time with a unit that suits it. */
#define REPORT_TIME_TEXT 24
char *report_time(char buf[REPORT_TIME_TEXT], double sec);

/* Engine, memory and fallbacks of a series, in lines that begin with a word. */
void report_ran(FILE *f, const struct run_series *s);

#endif
