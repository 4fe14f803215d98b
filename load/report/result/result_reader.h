/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_RESULT_RESULT_READER_H
#define PENSTOCK_REPORT_RESULT_RESULT_READER_H

/* Results that were written before, possibly by another version or edited by hand. */
#include <jansson.h>
#include <stdbool.h>
#include <time.h>

struct penstock_err;

/*
 * Read JSON, of whatever kind, from @path ("-": standard input); a key twice is an error.
 * Returns 0, -errno of the reading, or -EINVAL with what is wrong and where in @err.
 */
int report_json_read(json_t **out, const char *path, struct penstock_err *err);

/*
 * Two results of schema penstock-result/1 that are to be compared, checked by that schema.  What
 * `penstock kv' writes by --output has one inside, and what the reference KV benchmark writes
 * becomes one (kvcache_import.c): where one is the reference's, the other is taken in the same
 * form, if it has that.  Both are NULL or set, whatever is returned: 0, -errno of the reading, or
 * -EINVAL with what is wrong in @err.
 */
int report_read_pair(json_t *out[2], char *const path[2], struct penstock_err *err);

/*
 * All that a page can show: a result as above, what `trace stat' writes (schema penstock-trace/1),
 * and the summary of a run for MLPerf.
 */
enum report_kind { REPORT_RESULT, REPORT_TRACE, REPORT_SUMMARY };
enum report_kind report_kind(const json_t *root);
int report_read_any(json_t **out, const char *path, struct penstock_err *err);

/* One result of that schema, checked, in whichever of our files it is. */
int report_read_result(json_t **out, const char *path, struct penstock_err *err);

/* Is @root a result of that schema?  @name is what messages call it. */
int report_check(const json_t *root, const char *name, struct penstock_err *err);

/* ---- kvcache_import.c: results that another program wrote, as ours ---- */

/* Is this what MLPerf Storage's kv-cache.py writes, or `penstock kv --output' in its form? */
bool kvcache_is_result(const json_t *root);
/*
 * A result of `kv' made of it, with the series "prefill", "decode" and "request"; what it does
 * not tell is null.  @when it was written.  0, -ENOMEM, or -EINVAL with the member that is wrong.
 */
int kvcache_import(json_t **out, const json_t *root, const char *name, time_t when,
		   struct penstock_err *err);

#endif
