/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_IO_REPORT_H
#define PENSTOCK_REPORT_JOBS_IO_REPORT_H

/*
 * What an I/O job found out, for people and for programs, from the same struct.
 * Speeds in the text are GiB/s, which ds_io calls GB/sec in its lines.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "load/report/result/result.h"

struct io_job;
struct io_plan;
struct io_result;

/* What would be done, for --dry-run. */
void io_report_plan(FILE *f, const struct io_job *job, const struct io_plan *plan);
/* "[i]: process D <----> F" for each worker, as ds_io prints it. */
void io_report_targets(FILE *f, const struct io_job *job);

/* ds_io's four result lines, then what ran. */
void io_report_text(FILE *f, const struct io_job *job, const struct io_result *res);

/*
 * The same as a result: one series, whose operations are the counted loops of all
 * workers, and the member "io" with what only this command knows.
 */
struct io_report {
	struct result_target *targets;
};
/* Point @r to what @rep then holds.  Returns 0 or -ENOMEM; fini is due in either case. */
int io_report_result(struct io_report *rep, struct result *r, const struct io_job *job,
		     const struct io_result *res);
void io_report_fini(struct io_report *rep);

#endif
