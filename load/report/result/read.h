/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_RESULT_READ_H
#define SLUICE_REPORT_RESULT_READ_H

/* Results that were written before, possibly by another version or edited by hand. */
#include <jansson.h>

struct sluice_err;

/*
 * Read JSON, of whatever kind, from @path ("-": standard input); a key twice is an error.
 * Returns 0, -errno of the reading, or -EINVAL with what is wrong and where in @err.
 */
int report_json_read(json_t **out, const char *path, struct sluice_err *err);

/*
 * Read a result of schema sluice-result/1 from @path ("-": standard input) and check it by that
 * schema.  What `sluice kv' writes by --output has one inside, and what the reference KV benchmark
 * writes becomes one (foreign.h).  Returns 0, -errno of the reading, or -EINVAL with what is wrong
 * in @err.
 */
int report_read(json_t **out, const char *path, struct sluice_err *err);

/*
 * Two that are to be compared: where one is the reference's, the other is taken in the same form,
 * if it has that.  Both are NULL or set, whatever is returned.
 */
int report_read_pair(json_t *out[2], char *const path[2], struct sluice_err *err);

/*
 * All that a page can show: a result as above, what `trace stat' writes (schema sluice-trace/1),
 * and the summary of a run for MLPerf.
 */
enum report_kind { REPORT_RESULT, REPORT_TRACE, REPORT_SUMMARY };
enum report_kind report_kind(const json_t *root);
int report_read_any(json_t **out, const char *path, struct sluice_err *err);

/* Is @root a result of that schema?  @name is what messages call it. */
int report_check(const json_t *root, const char *name, struct sluice_err *err);

#endif
