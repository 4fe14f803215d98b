/* SPDX-License-Identifier: Apache-2.0 */
/* The line that shows how far a job is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/progress.h"

#define GIB  (1ull << 30)
#define SECS 1000000000ull

static void it_says_share_rate_and_time_left(void **state)
{
	char line[256];

	(void)state;
	cli_progress_format(line, sizeof(line), 79, "read", GIB, 4 * GIB, SECS);
	assert_non_null(strstr(line, "read [#"));
	assert_non_null(strstr(line, "] "));
	assert_non_null(strstr(line, " 25%"));
	assert_non_null(strstr(line, " 1 GiB/s "));
	assert_non_null(strstr(line, "0:03 left"));
}

static void it_fits_any_width(void **state)
{
	(void)state;
	for (unsigned width = 0; width < 200; width++) {
		char line[256];

		memset(line, 'x', sizeof(line));
		cli_progress_format(line, sizeof(line), width, "warm-up write", 3 * GIB / 2,
				    100 * GIB, SECS / 3);
		assert_true(strlen(line) <= width);
		cli_progress_format(line, 20, width, "warm-up write", GIB, 0, SECS);
		assert_true(strlen(line) < 20);
	}
}

static void a_long_label_is_shortened_and_not_what_is_left(void **state)
{
	static const char label[] = "write single_overlap_t4_p1_d128_bs1048576_io_uring_pinned";
	char line[256];

	(void)state;
	cli_progress_format(line, sizeof(line), 79, label, GIB, 4 * GIB, SECS);
	assert_int_equal(strlen(line), 79);
	assert_memory_equal(line, "write single", 12);
	assert_non_null(strstr(line, ".."));
	assert_non_null(strstr(line, "uring_pinned  25%"));
	assert_string_equal(line + 79 - strlen("0:03 left"), "0:03 left");
	cli_progress_format(line, sizeof(line), 120, label, GIB, 4 * GIB, SECS);
	assert_memory_equal(line, label, strlen(label));
	cli_progress_format(line, sizeof(line), 44, label, GIB, 4 * GIB, SECS);
	assert_string_equal(line + strlen(line) - strlen("0:03 left"), "0:03 left");
}

static void the_bar_grows_from_empty_to_full(void **state)
{
	size_t before = 0;
	char line[256];

	(void)state;
	for (uint64_t done = 0; done <= 100; done++) {
		size_t n = 0;

		cli_progress_format(line, sizeof(line), 79, "x", done, 100, SECS);
		for (char *c = line; *c; c++)
			n += *c == '#';
		assert_true(n >= before);
		before = n;
	}
	assert_null(strchr(strchr(line, '['), '-'));
	assert_non_null(strstr(line, "100%"));
}

static void more_than_all_and_nothing_at_all_are_harmless(void **state)
{
	char line[256];

	(void)state;
	cli_progress_format(line, sizeof(line), 79, "x", 200, 100, SECS);
	assert_non_null(strstr(line, "100%"));
	cli_progress_format(line, sizeof(line), 79, "x", 0, 100, 0);
	assert_non_null(strstr(line, "--:-- left"));
	cli_progress_format(line, sizeof(line), 79, "x", 0, 0, 0);
	assert_null(strchr(line, '['));
	cli_progress_format(line, sizeof(line), 79, "x", 1, UINT64_MAX, 3600 * SECS);
}

static void long_times_have_hours(void **state)
{
	char line[256];

	(void)state;
	cli_progress_format(line, sizeof(line), 79, "x", 1, 10000, SECS);
	assert_non_null(strstr(line, "2:46:39 left"));
}

static void a_pipe_gets_nothing(void **state)
{
	struct cli_progress p;
	FILE *keep = stderr, *f = tmpfile();
	int fd = dup(2);

	(void)state;
	assert_non_null(f);
	dup2(fileno(f), 2);
	cli_progress_start(&p, "x", 100);
	cli_progress_update(&p, 50);
	cli_progress_label(&p, "y", 10);
	cli_progress_update(&p, 10);
	cli_progress_end(&p);
	fflush(keep);
	dup2(fd, 2);
	close(fd);
	assert_int_equal(ftell(f), 0);
	assert_int_equal(lseek(fileno(f), 0, SEEK_END), 0);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_says_share_rate_and_time_left),
		cmocka_unit_test(it_fits_any_width),
		cmocka_unit_test(a_long_label_is_shortened_and_not_what_is_left),
		cmocka_unit_test(the_bar_grows_from_empty_to_full),
		cmocka_unit_test(more_than_all_and_nothing_at_all_are_harmless),
		cmocka_unit_test(long_times_have_hours),
		cmocka_unit_test(a_pipe_gets_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
