/* SPDX-License-Identifier: Apache-2.0 */
/* The small files of /proc and /sys. */
#include "base/textfile.h"

#include "tests/common/t.h"

static void put(const char *text)
{
	FILE *f = fopen(t_path("text"), "we");

	T_OK(f);
	fputs(text, f);
	fclose(f);
}

static void a_line_comes_without_blanks_at_its_ends(void)
{
	static const char *const rows[][2] = {
		{"ext4\n", "ext4"},
		{"  a b  \nsecond\n", "a b"},
		{"no newline", "no newline"},
		{"\tx\t\r\n", "x"},
		{"", ""},
		{"\n\n", ""},
	};
	char out[64];

	for (size_t i = 0; i < T_COUNT(rows); i++) {
		int r;

		put(rows[i][0]);
		r = penstock_textfile_read_line(out, sizeof(out), "%s", t_path("text"));
		if (!rows[i][1][0] && r < 0) { /* an empty file may be called an error */
			T_EQ(out[0], '\0');
			continue;
		}
		T_EQ(r, strlen(rows[i][1]));
		T_OK(!strcmp(out, rows[i][1]));
	}
	unlink(t_path("text"));
}

static void a_long_line_is_cut(void)
{
	char out[8] = "";

	put("0123456789abcdef\n");
	T_EQ(penstock_textfile_read_line(out, sizeof(out), "%s", t_path("text")), 7);
	T_OK(!strcmp(out, "0123456"));
	unlink(t_path("text"));
}

static void numbers_are_numbers_and_nothing_else(void)
{
	static const char *const bad[] = {"", "x", "12x", "-1", "99999999999999999999999"};
	uint64_t v = 7;

	put("4096\n");
	T_EQ(penstock_textfile_read_u64(&v, "%s", t_path("text")), 0);
	T_EQ(v, 4096);
	for (size_t i = 0; i < T_COUNT(bad); i++) {
		v = 7;
		put(bad[i]);
		if (penstock_textfile_read_u64(&v, "%s", t_path("text")) >= 0)
			T_FAIL("\"%s\" was taken for %llu", bad[i], (unsigned long long)v);
		T_EQ(v, 7);
	}
	unlink(t_path("text"));
}

static void the_choice_is_the_word_in_brackets(void)
{
	static const char *const rows[][2] = {
		{"none [mq-deadline] bfq\n", "mq-deadline"},
		{"[none] mq-deadline\n", "none"},
		{"always madvise [never]\n", "never"},
		{"none\n", "none"},
	};
	char out[64];

	for (size_t i = 0; i < T_COUNT(rows); i++) {
		put(rows[i][0]);
		T_OK(penstock_textfile_read_selected(out, sizeof(out), "%s", t_path("text")) >= 0);
		T_OK(!strcmp(out, rows[i][1]));
	}
	put("[broken\n");
	penstock_textfile_read_selected(out, sizeof(out), "%s", t_path("text"));
	unlink(t_path("text"));
}

static void a_missing_file_is_an_error_and_nothing_is_left_open(void)
{
	char out[16] = "old";
	uint64_t v = 7;
	int fds;

	t_dir();
	fds = t_nr_fds();
	T_EQ(penstock_textfile_read_line(out, sizeof(out), "%s/%d/x", t_dir(), 5), -ENOENT);
	T_EQ(out[0], '\0');
	T_EQ(penstock_textfile_read_u64(&v, "%s/none", t_dir()), -ENOENT);
	T_EQ(v, 7);
	T_EQ(penstock_textfile_read_selected(out, sizeof(out), "%s/none", t_dir()), -ENOENT);
	T_OK(penstock_textfile_read_line(out, sizeof(out), "%s", t_dir()) < 0); /* a directory */
	T_EQ(t_nr_fds(), fds);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(a_line_comes_without_blanks_at_its_ends),
		T_CASE(a_long_line_is_cut),
		T_CASE(numbers_are_numbers_and_nothing_else),
		T_CASE(the_choice_is_the_word_in_brackets),
		T_CASE(a_missing_file_is_an_error_and_nothing_is_left_open),
	};
	static const struct t_group group = {"textfile", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
