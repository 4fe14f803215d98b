/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a result, as `report' and `compare' read it.  One that is accepted becomes a page,
 * in which its text is text.
 */
#include <errno.h>
#include <jansson.h>

#include "base/err.h"
#include "load/report/page/html.h"
#include "load/report/result/result_reader.h"
#include "tests/fuzz/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = scratch_path("r"), *name = "<script>";
	struct penstock_err err = {0, ""};
	json_t *root = NULL;
	char *page = NULL;
	size_t len = 0;
	FILE *f;
	int r;

	scratch_write("r", data, size);
	r = report_read_any(&root, path, &err);
	FUZZ_CHECK(r == 0 || (r < 0 && err.msg[0] && err.code == r));
	if (r < 0)
		return 0;
	f = open_memstream(&page, &len);
	FUZZ_CHECK(f);
	r = report_html_write(f, &(struct report_html){.results = &root, .names = &name, .nr = 1},
			      &err);
	fclose(f);
	FUZZ_CHECK(r == 0 || r == -ENOTSUP || err.msg[0]);
	FUZZ_CHECK(!page || !strstr(page, "<fuzzed"));
	free(page);
	json_decref(root);
	return 0;
}
