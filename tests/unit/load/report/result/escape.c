/* SPDX-License-Identifier: Apache-2.0 */
/* Text of unknown origin: what terminals and programs for tables get of it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "load/report/result/cells.h"
#include "load/report/result/text.h"

static void what_a_terminal_would_obey_is_written_out(void **state)
{
	static const struct {
		const char *text, *escaped;
	} cases[] = {
		{"", ""},
		{"read 2M, 10 %", "read 2M, 10 %"},
		{"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"a\x1b]0;title\x07z", "a\\x1b]0;title\\x07z"},
		{"a\nb\tc\rd\x7f", "a\\x0ab\\x09c\\x0dd\\x7f"},
		{"\xc2\x9b"
		 "31m",
		 "\\u009b31m"}, /* CSI in one character */
		{"\xe2\x80\xae"
		 "gpj.exe",
		 "\\u202egpj.exe"},                                    /* from right to left */
		{"\xe2\x81\xa6x\xe2\x80\x8b", "\\u2066x\\u200b"},      /* isolate, no width */
		{"\xf3\xa0\x81\x81", "\\u{e0041}"},                    /* a tag */
		{"\xff\xc3(", "\\xff\\xc3("},                          /* no UTF-8 */
		{"\xed\xa0\x80\xc0\xaf", "\\xed\\xa0\\x80\\xc0\\xaf"}, /* surrogate, overlong */
	};
	char buf[256];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(report_escape(buf, sizeof(buf), cases[i].text),
				    cases[i].escaped);
}

static void a_long_text_is_cut_between_characters(void **state)
{
	char buf[8];

	(void)state;
	assert_string_equal(report_escape(buf, sizeof(buf), "abc\x1b\x1b"), "abc\\x1b");
	assert_string_equal(report_escape(buf, sizeof(buf), "abcdef\xe2\x82\xac"), "abcdef");
	assert_string_equal(report_escape(buf, 1, "abc"), "");
}

/* All that came out of a stream to a file in memory. */
static void through(char *out, size_t size, const char *text, size_t step)
{
	CLEANUP_CLOSE int fd = memfd_create("plain", MFD_CLOEXEC);
	struct escape_stream stream;
	FILE *f = report_escape_stream(&stream, fd);
	ssize_t n;

	assert_non_null(f);
	for (size_t i = 0, len = strlen(text); i < len; i += step) {
		fwrite(text + i, 1, min_u64(step, len - i), f);
		assert_int_equal(fflush(f), 0);
	}
	assert_int_equal(fclose(f), 0);
	n = pread(fd, out, size - 1, 0);
	assert_true(n >= 0);
	out[n] = 0;
}

/* Wherever the buffer of the stream ends: a character may be in two writes. */
static void a_stream_keeps_lines_and_characters_whole(void **state)
{
	const char *text = "path:\t\xf0\x9f\x98\x80 \xc3\xbc\n\x1b[2J\xe2\x80\xae\xff end\n";
	char out[256];

	(void)state;
	for (size_t step = 1; step < 12; step++) {
		through(out, sizeof(out), text, step);
		assert_string_equal(out,
				    "path:\t\xf0\x9f\x98\x80 \xc3\xbc\n\\x1b[2J\\u202e\\xff end\n");
	}
}

static void a_stream_that_cannot_be_written_says_so(void **state)
{
	CLEANUP_CLOSE int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct escape_stream stream;
	FILE *f = report_escape_stream(&stream, fd);

	(void)state;
	assert_non_null(f);
	fputs("x\n", f);
	assert_int_not_equal(fflush(f), 0);
	assert_true(ferror(f));
	assert_int_equal(stream.error, -ENOSPC);
	fclose(f);
}

static void a_cell_is_no_formula(void **state)
{
	static const struct {
		const char *text, *cell;
	} cases[] = {
		{"read 2M", "read 2M"},
		{"", ""},
		{"=1+2", "'=1+2"},
		{"@SUM(A1)", "'@SUM(A1)"},
		{"+1", "'+1"},
		{"-1", "'-1"},
		{"\tx", "'\tx"},
		{"=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""},
		{"a,b", "\"a,b\""},
		{"\r=1", "\"'\r=1\""},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = NULL;
		size_t size = 0;
		FILE *f = open_memstream(&text, &size);

		csv_text(f, cases[i].text);
		fclose(f);
		assert_string_equal(text, cases[i].cell);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_terminal_would_obey_is_written_out),
		cmocka_unit_test(a_long_text_is_cut_between_characters),
		cmocka_unit_test(a_stream_keeps_lines_and_characters_whole),
		cmocka_unit_test(a_stream_that_cannot_be_written_says_so),
		cmocka_unit_test(a_cell_is_no_formula),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
