/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_RESULT_FOREIGN_H
#define SLUICE_REPORT_RESULT_FOREIGN_H

/* Results that another program wrote, as ours. */
#include <jansson.h>
#include <stdbool.h>
#include <time.h>

struct sluice_err;

/* Is this what MLPerf Storage's kv-cache.py writes, or `sluice kv --output' in its form? */
bool foreign_is_kv(const json_t *root);
/*
 * A result of `kv' made of it, with the series "prefill", "decode" and "request"; what it does
 * not tell is null.  @when it was written.  0, -ENOMEM, or -EINVAL with the member that is wrong.
 */
int foreign_kv(json_t **out, const json_t *root, const char *name, time_t when,
	       struct sluice_err *err);

#endif
