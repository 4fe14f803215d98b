/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_RESULT_REPORT_LINES_H
#define PENSTOCK_REPORT_RESULT_REPORT_LINES_H

/* Lines and words that the reports of several commands have in common. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct object_requests;
struct run_series;
struct penstock_path_info;
struct penstock_store_stats;

/* "1.234 ms": a time with a unit that suits it. */
#define REPORT_TIME_TEXT 24
char *report_time(char buf[REPORT_TIME_TEXT], double sec);

/* Engine, memory and fallbacks of a series, in lines that begin with a word. */
void report_run_lines(FILE *f, const struct run_series *s);

/* A KV store after a run: the member `store', and lines that begin with a word. */
extern const char *const report_policy_words[]; /* by PENSTOCK_STORE_*; NULL at the end */
json_t *report_store_json(const struct penstock_store_stats *s, uint32_t policy);
void report_store_lines(FILE *f, const struct penstock_store_stats *s, uint32_t policy);

/* Requests to an object store: the member `objects', and lines that begin with a word. */
json_t *report_object_requests_json(const struct object_requests *r);
void report_object_requests_lines(FILE *f, const struct object_requests *r);

/* "path:       FOLDER: ext4 on vda (MODEL)", to which the caller adds the end of the line. */
void report_path(FILE *f, const char *folder, const struct penstock_path_info *p);

/*
 * Of a dry run: the bytes that would be written, @limit of them to measure the limit;
 * @open_ended: there is no bound, the job ends by time.
 */
void report_plan_writes(FILE *f, uint64_t bytes, uint64_t limit, bool open_ended);
/*
 * "time: ...", of io and sweep, whose other figures are GiB/s too; @given: --limit says the speed.
 */
void report_plan_time(FILE *f, double seconds, double speed, bool given);

/*
 * What has to be known about a share of the device's limit, "" for nothing: why it is
 * above 1, and that writes into @fresh files do more than those of the limit, which @how
 * says where it comes from.
 */
#define REPORT_LIMIT_NOTE 320
char *report_limit_note(char buf[REPORT_LIMIT_NOTE], double share, bool fresh, const char *how);
/* The same as a line under that of the limit, if there is something to say. */
void report_limit_line(FILE *f, double share, bool fresh, const char *how);

/* Bits PENSTOCK_FALLBACK_*, and PENSTOCK_DONE_* of device memory, as an array of words. */
json_t *report_fallbacks_json(uint32_t bits);
json_t *report_gpu_path_json(uint32_t done_flags);
/* The same for people: the words of all that are set, parted by @between. */
void report_fallbacks(FILE *f, uint32_t bits, const char *between);
void report_gpu_path(FILE *f, uint32_t done_flags, const char *between);

#endif
