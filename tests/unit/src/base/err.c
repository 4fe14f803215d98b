/* SPDX-License-Identifier: Apache-2.0 */
/* Codes and their one line. */
#include "base/err.h"
#include "tests/common/t.h"

static void a_failure_stores_code_and_message(void)
{
	struct penstock_err err = {0, "old"};

	T_EQ(penstock_fail(&err, -EIO, "%s: %d is outside %d..%d", "depth", 9, 1, 8), -EIO);
	T_EQ(err.code, -EIO);
	T_OK(!strcmp(err.msg, "depth: 9 is outside 1..8"));
	T_EQ(penstock_fail(NULL, -ENOMEM, "nobody %s", "listens"), -ENOMEM);
}

static void a_long_message_is_cut(void)
{
	char text[2000];
	struct {
		struct penstock_err err;
		char after[8];
	} e = {{0, ""}, "intact"};

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	T_EQ(penstock_fail(&e.err, -EINVAL, "open %s: no room", text), -EINVAL);
	T_EQ(strlen(e.err.msg), sizeof(e.err.msg) - 1);
	T_OK(!strncmp(e.err.msg, "open xxx", 8));
	T_STR_HAS(e.err.msg, "xxx...xxx");
	T_OK(!strcmp(e.err.msg + sizeof(e.err.msg) - 13, "xxx: no room"));
	T_OK(!strcmp(e.after, "intact"));
}

/* Each length of the text, so that each cut falls at each byte of a character once. */
static void a_cut_parts_no_character(void)
{
	char text[200] = "", buf[50];

	for (int n = 0; n < 60; n++) {
		size_t len;

		text[0] = '\0';
		for (int i = 0; i < n; i++)
			strcat(text, i % 7 == 3 ? "a" : "\u20ac");
		penstock_print_elided(buf, sizeof(buf), "%s", text);
		len = strlen(buf);
		T_OK(len < sizeof(buf) && (len == strlen(text) || len > sizeof(buf) - 6));
		for (size_t i = 0; i < len; i++)
			if ((buf[i] & 0xf0) == 0xe0) {
				T_OK(!memcmp(buf + i, "\u20ac", 3));
				i += 2;
			} else {
				T_OK(buf[i] == 'a' || buf[i] == '.');
			}
	}
}

static void every_code_has_words(void)
{
	T_OK(!strcmp(penstock_strerror(-ENOSPC), penstock_strerror(ENOSPC)));
	for (int code = -5000; code < 5000; code++)
		T_OK(penstock_strerror(code) && penstock_strerror(code)[0]);
	T_OK(penstock_strerror(INT_MAX)[0]);
	T_OK(penstock_strerror(INT_MIN + 1)[0]);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(a_failure_stores_code_and_message),
		T_CASE(a_long_message_is_cut),
		T_CASE(a_cut_parts_no_character),
		T_CASE(every_code_has_words),
	};
	static const struct t_group group = {"err", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
