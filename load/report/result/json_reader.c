/* SPDX-License-Identifier: Apache-2.0 */
/* Any JSON from a file: apart from results, since commands that know none read JSON, too. */
#include "load/report/result/result_reader.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

int report_json_read(json_t **out, const char *path, struct penstock_err *err)
{
	bool standard = !strcmp(path, "-");
	FILE *f = standard ? stdin : fopen(path, "re");
	json_error_t e;
	json_t *root;
	int r = 0;

	if (!f)
		return penstock_fail(err, -errno, "'%s' cannot be read: %s", path, strerror(errno));
	errno = 0;
	root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
	if (ferror(f)) { /* a folder, for example; the parser calls it an early end */
		r = errno ? -errno : -EIO;
		json_decref(root);
		penstock_fail(err, r, "'%s' cannot be read: %s", path, strerror(-r));
	} else if (!root) {
		r = penstock_fail(err, -EINVAL, "'%s' is not JSON: line %d: %s", path,
				  e.line > 0 ? e.line : 1, e.text);
	} else {
		*out = root;
	}
	if (!standard)
		fclose(f);
	return r;
}
