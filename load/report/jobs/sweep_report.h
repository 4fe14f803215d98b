/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_SWEEP_REPORT_H
#define PENSTOCK_REPORT_JOBS_SWEEP_REPORT_H

/*
 * What `penstock sweep' prints and the log files it leaves, whose names and result lines
 * are upstream's, so that upstream's parsers read them:
 *
 *	LOG_DIR/_aio_bench_read_logs/read_block_overlap_ftd1_d32_bs1M_p8.txt
 *	LOG_DIR/_aio_bench_write_logs/...
 *	LOG_DIR/penstock-sweep-state.jsonl	for --resume
 *
 * GB in the lines of upstream is 2^30 bytes; ours call that GiB.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include <penstock/penstock.h>

struct run_series;
struct config_space;
struct config_space_axis;
struct config_space_value;
struct sweep_job;
struct sweep_plan;
struct sweep_point;
struct sweep_result;

#define SWEEP_STATE "penstock-sweep-state.jsonl"

/* May a sweep use this folder?  A new one must be empty or absent.  -EINVAL if not. */
int sweep_logs_check(const char *dir, bool resume, struct penstock_err *err);
/* Are all logs in it such as this job leaves?  -EINVAL if not, with the name of one. */
int sweep_logs_own(const char *dir, const struct sweep_job *job, struct penstock_err *err);
/*
 * Make it and the two in it.  *@made, zeroed before, says which of them were not there;
 * sweep_logs_undo() removes those again, if they are empty.
 */
int sweep_logs_make(const char *dir, unsigned *made, struct penstock_err *err);
void sweep_logs_undo(const char *dir, unsigned made);
/* The log of one point. */
int sweep_log_write(const char *dir, const struct sweep_job *job, const struct run_series *s,
		    const struct sweep_point *p, struct penstock_err *err);

/* Table (the ten best, or @all), heat map, and the best of each direction. */
void sweep_report_text(FILE *f, const struct sweep_job *job, const struct sweep_result *res,
		       bool all);
void sweep_report_plan(FILE *f, const struct sweep_job *job, const struct sweep_plan *plan);

/* ds_nvme_tune's line, from bytes per second; a direction that was not measured (0) is left out. */
void report_best(FILE *f, double read, double write);

/* A value of an axis, and ... */
json_t *report_value_json(const struct config_space_axis *a, const struct config_space_value *v);
/* ... the values that a point of a space has, by the names of its axes; a new object. */
json_t *report_point_json(const struct config_space *space, unsigned point);

/* Of the settings, what is not the value of one option: the folders and the space. */
void report_space_settings(json_t *settings, const char *where, const char *const *folders,
			   unsigned nr, const struct config_space *space);
void sweep_settings(json_t *settings, const struct sweep_job *job);
json_t *sweep_grid_json(const struct sweep_job *job, const struct sweep_result *res);

#endif
