/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_KV_KV_REPORT_H
#define PENSTOCK_REPORT_KV_KV_REPORT_H

/*
 * What `penstock kv' found out, in upstream's names and forms (JSON, workbook, CSV, text) and as a
 * common result.  JSON first: workbook, CSV and text take their numbers from it, so that all of
 * them say the same.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "load/kv/kv.h"

struct result;
struct result_target;

enum { KV_PROFILE_LATENCY, KV_PROFILE_THROUGHPUT };
extern const char *const kv_profile_names[]; /* NULL at the end */
extern const char *const kv_layout_names[];
extern const char *const kv_backend_names[];
extern const char *const kv_clock_names[];
extern const char *const kv_order_names[];

struct kv_report {
	const struct kv_job *job;
	const struct kv_result *res;
	int profile;
	time_t started;
	json_t *validation; /* of kv_validation(), or NULL */
	/* options that are not in the job, for the sheets */
	const char *dataset_path;
};

/*
 * Upstream's result: a new object, NULL for lack of memory.  Without completed requests it has
 * no "summary".
 */
json_t *kv_report_json(const struct kv_report *r);

/* A number of it by its way, "summary.cache_stats.cache_hits"; NAN where there is none. */
double kv_report_number(const json_t *json, const char *path);

/* "storage_health" of it: PASS or FAIL by the profile. */
json_t *kv_health_json(const struct kv_report *r);

/*
 * How the hit rate compares with that of a recorded trace; a new object.  A file that is not
 * there is taken for one with a hit rate of 0.65, as upstream does; one that cannot be
 * understood is -EINVAL.
 */
int kv_validation(json_t **out, const char *path, double hit_rate, struct penstock_err *err);

/* The common result: settings, series, targets and the sections `kv' and `flows'. */
void kv_report_result(const struct kv_report *r, struct result *common,
		      const struct result_target *target);

/* Workbook and CSV; @json is what kv_report_json() gave, with a summary. */
int kv_report_xlsx(FILE *f, const struct kv_report *r, const json_t *json,
		   struct penstock_err *err);
int kv_report_csv(FILE *f, const struct kv_report *r, const json_t *json);

/* Whose bytes they are, where that is not the node: ", of one of 8 ranks"; else nothing. */
const char *kv_report_rank_note(char *buf, size_t size, const struct kv_report *r);

/* For people: before and after the run. */
void kv_report_banner(FILE *f, const struct kv_report *r);
void kv_report_text(FILE *f, const struct kv_report *r, const json_t *json);
void kv_report_plan(FILE *f, const struct kv_report *r);
/* "2 reads failed, 1 write failed": what there is of it; false: nothing. */
bool kv_report_failures(char *buf, size_t size, const struct kv_result *res);

/* A job file for fio: the same sizes and mix.  0, or -ENODATA when nothing was read or written. */
int kv_report_fio(FILE *f, const struct kv_report *r);

#endif
