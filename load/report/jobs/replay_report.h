/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_REPLAY_REPORT_H
#define PENSTOCK_REPORT_JOBS_REPLAY_REPORT_H

/* What `penstock replay' found in a trace, and what came of it: text, JSON, a job for fio. */
#include <jansson.h>
#include <stdio.h>

#include "load/replay/replay.h"
#include "load/report/result/result.h"

extern const char *const replay_layout_words[];  /* NULL at the end */
extern const char *const replay_missing_words[]; /* NULL at the end */

struct replay_report {
	const struct replay_job *job;
	const struct replay_scan *scan; /* NULL: the trace could be read only once */
	const struct replay_result *res;
};

/* The common result: settings, series, targets and the section `replay'. */
void replay_report_result(const struct replay_report *r, struct result *common,
			  struct result_target targets[REPLAY_PLACES]);

/* For people: after the run; and for --dry-run. */
void replay_report_text(FILE *f, const struct replay_report *r);
void replay_report_plan(FILE *f, const struct replay_report *r);

/* Where the objects of a tier go: "DIR, DIR2: files", "host memory". */
#define REPLAY_TARGET_TEXT 600
char *replay_target_text(char buf[REPLAY_TARGET_TEXT], const struct replay_job *job, unsigned tier);

/* A job file for fio: blocks, mix and depth of the rows.  0 or -errno. */
int replay_report_fio(FILE *f, const struct replay_report *r);

#endif
