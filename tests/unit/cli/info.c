/* SPDX-License-Identifier: Apache-2.0 */
/* penstock info on machines this one is not: engines are what this file says. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include <penstock/penstock.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/cli.h"

static const char *const *engines;
static const char *refused; /* names, separated by blanks */

const char *penstock_engine_name(unsigned i)
{
	for (unsigned n = 0; engines[n]; n++)
		if (n == i)
			return engines[i];
	return NULL;
}

const char *penstock_engine_descr(const char *name)
{
	(void)name;
	return "an engine";
}

int penstock_engine_probe(const char *name, struct penstock_err *err)
{
	if (strstr(refused, name))
		return penstock_fail(err, -EPERM, "%s: not here", name);
	return 0;
}

/* Run it; returns the exit status, *@ret_json what it wrote. */
static int run(json_t **ret_json)
{
	char file[] = "info-XXXXXX";
	char option[32];
	char *argv[] = {option, NULL};
	int fd = mkstemp(file), keep = dup(STDOUT_FILENO), null, r;
	json_error_t e;

	assert_true(fd >= 0);
	snprintf(option, sizeof(option), "--json=%s", file);
	fflush(stdout);
	null = open("/dev/null", O_WRONLY);
	dup2(null, STDOUT_FILENO);
	r = cli_cmd_run(&cmd_info, 1, argv);
	fflush(stdout);
	dup2(keep, STDOUT_FILENO);
	close(keep);
	close(null);
	*ret_json = json_load_file(file, 0, &e);
	close(fd);
	unlink(file);
	assert_non_null(*ret_json);
	return r;
}

static void one_working_engine_is_enough(void **state)
{
	static const char *const names[] = {"io_uring", "libaio", "threads", "null", NULL};
	json_t *j, *first;

	(void)state;
	engines = names;
	refused = "io_uring libaio";
	assert_int_equal(run(&j), CLI_OK);
	first = json_array_get(json_object_get(j, "engines"), 0);
	assert_true(json_is_false(json_object_get(first, "usable")));
	assert_string_equal(json_string_value(json_object_get(first, "reason")),
			    "io_uring: not here");
	assert_true(json_is_true(json_object_get(j, "usable")));
	json_decref(j);
}

static void no_working_engine_is_status_3(void **state)
{
	static const char *const names[] = {"io_uring", "threads", NULL};
	json_t *j;

	(void)state;
	engines = names;
	refused = "io_uring threads";
	assert_int_equal(run(&j), CLI_UNSUPPORTED);
	assert_true(json_is_false(json_object_get(j, "usable")));
	json_decref(j);
}

static void null_and_fault_prove_nothing(void **state)
{
	static const char *const names[] = {"io_uring", "null", "fault", NULL};
	static const char *const none[] = {NULL};
	json_t *j;

	(void)state;
	engines = names;
	refused = "io_uring";
	assert_int_equal(run(&j), CLI_UNSUPPORTED);
	json_decref(j);
	engines = none;
	assert_int_equal(run(&j), CLI_UNSUPPORTED);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_working_engine_is_enough),
		cmocka_unit_test(no_working_engine_is_status_3),
		cmocka_unit_test(null_and_fault_prove_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
