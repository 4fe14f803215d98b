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
 * Read a result of schema sluice-result/1 from @path ("-": standard input) and
 * look whether it has what reports need, each member of the right type.
 * Returns 0, -errno of the reading, or -EINVAL with what is wrong in @err.
 */
int report_read(json_t **out, const char *path, struct sluice_err *err);

/* The second half: is @root such a result?  @name is what messages call it. */
int report_check(const json_t *root, const char *name, struct sluice_err *err);

#endif
