/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a build without Chart.js: these two take the place of the real ones. */
#include <errno.h>

#include "common/t.h"
#include "load/report/page/html.h"

const char report_page_head[] = "";
const char report_page_tail[] = "";

static void a_build_without_charts_says_so(void **state)
{
	struct penstock_err err = {0, ""};

	(void)state;
	assert_false(report_html_built());
	assert_int_equal(report_html_check(&err), -ENOTSUP);
	assert_non_null(strstr(err.msg, "libjs-chart.js"));
}

static void and_writes_no_page(void **state)
{
	struct penstock_err err = {0, ""};
	FILE *f = tmpfile();

	(void)state;
	assert_non_null(f);
	assert_int_equal(report_html_write(f, &(struct report_html){.nr = 0}, &err), -ENOTSUP);
	assert_int_equal(ftell(f), 0);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_build_without_charts_says_so),
		cmocka_unit_test(and_writes_no_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
