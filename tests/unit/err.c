/* SPDX-License-Identifier: Apache-2.0 */
/* Codes and their one line. */
#include "base/err.h"
#include "tests/common/t.h"

static void a_failure_stores_code_and_message(void)
{
	struct sluice_err err = {0, "old"};

	T_EQ(sluice_fail(&err, -EIO, "%s: %d is outside %d..%d", "depth", 9, 1, 8), -EIO);
	T_EQ(err.code, -EIO);
	T_OK(!strcmp(err.msg, "depth: 9 is outside 1..8"));
	T_EQ(sluice_fail(NULL, -ENOMEM, "nobody %s", "listens"), -ENOMEM);
}

static void a_long_message_is_cut(void)
{
	char text[2000];
	struct {
		struct sluice_err err;
		char after[8];
	} e = {{0, ""}, "intact"};

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	T_EQ(sluice_fail(&e.err, -EINVAL, "%s", text), -EINVAL);
	T_EQ(strlen(e.err.msg), sizeof(e.err.msg) - 1);
	T_OK(!strcmp(e.after, "intact"));
}

static void every_code_has_words(void)
{
	T_OK(!strcmp(sluice_strerror(-ENOSPC), sluice_strerror(ENOSPC)));
	for (int code = -5000; code < 5000; code++)
		T_OK(sluice_strerror(code) && sluice_strerror(code)[0]);
	T_OK(sluice_strerror(INT_MAX)[0]);
	T_OK(sluice_strerror(INT_MIN + 1)[0]);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(a_failure_stores_code_and_message),
		T_CASE(a_long_message_is_cut),
		T_CASE(every_code_has_words),
	};
	static const struct t_group group = {"err", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
