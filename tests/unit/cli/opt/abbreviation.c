/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command that stands in for another program: cut short, and numbers with signs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "cli/opt/opt.h"

struct theirs {
	uint32_t users;
	double size, speed;
	const char *trace;
	bool prefill_only, prefix;
};

struct args {
	struct theirs theirs;
	struct cli_problems problems;
	bool trace_extended, verify, verbose;
	const char *pre;
};

static const struct cli_opt their_opts[] = {
	CLI_GROUP("Theirs"),
	CLI_U32(struct theirs, users, 'n', "num-users", "N", "100", 1, 1000, "users", .late = true),
	CLI_DBL(struct theirs, size, 0, "size", "GB", "16", -INFINITY, INFINITY, "size"),
	CLI_DBL(struct theirs, speed, 0, "speed", "X", "1", 0, 10, "speed"),
	CLI_STR(struct theirs, trace, 0, "trace_path", "FILE", NULL, "trace"),
	CLI_FLAG(struct theirs, prefill_only, 0, "prefill-only", "prefill"),
	CLI_FLAG(struct theirs, prefix, 0, "prefix", "prefix"),
	CLI_END,
};

static const struct cli_opt opts[] = {
	CLI_TABLE(struct args, theirs, struct theirs, their_opts),
	CLI_GROUP("Ours"),
	CLI_FLAG(struct args, trace_extended, 0, "trace-extended", "more columns"),
	CLI_FLAG(struct args, verify, 0, "verify", "check"),
	CLI_FLAG(struct args, verbose, 0, "verbose", "say more"),
	CLI_STR(struct args, pre, 0, "pre", "WORD", NULL, "word"),
	CLI_END,
};

static const struct cli_cmd cmd = {
	.name = "test",
	.summary = "a command to test",
	.opts = opts,
	.abbreviated = their_opts,
	.args_size = sizeof(struct args),
	.problems = offsetof(struct args, problems),
};

static struct args a;
static struct cli_msg msg;

static int parse(const char *one, const char *two)
{
	char first[80], second[80], *argv[] = {first, second, NULL};
	int nr;

	snprintf(first, sizeof(first), "%s", one);
	snprintf(second, sizeof(second), "%s", two ? two : "");
	/* texts are not looked at afterwards */
	return cli_parse(&cmd, &a, two ? 2 : 1, argv, &nr, &msg);
}

static void taken(const char *one, const char *two)
{
	if (parse(one, two) != CLI_OK)
		fail_msg("%s %s: %s", one, two ? two : "", msg.text);
}

/* Taken at first: what is wrong is to be told with all else. */
static void told_later(const char *one, const char *two, const char *want)
{
	taken(one, two);
	if (a.problems.nr != 1 || strcmp(a.problems.lines[0], want) != 0)
		fail_msg("%s %s: '%s', not '%s'", one, two ? two : "",
			 a.problems.nr ? a.problems.lines[0] : "", want);
	assert_int_equal(a.theirs.users, 100);
	cli_args_fini(&cmd, &a);
}

static void refused(const char *one, const char *two, const char *want)
{
	if (parse(one, two) != CLI_USAGE || strcmp(msg.text, want) != 0)
		fail_msg("%s %s: '%s', not '%s'", one, two ? two : "", msg.text, want);
}

static void what_is_short_for_one_option_means_it(void **state)
{
	(void)state;
	taken("--num", "7");
	assert_int_equal(a.theirs.users, 7);
	taken("--n=8", NULL);
	assert_int_equal(a.theirs.users, 8);
	taken("--prefil", NULL);
	assert_true(a.theirs.prefill_only && !a.theirs.prefix);
	taken("--trace-p", "x");
	assert_non_null(a.theirs.trace);
}

static void a_whole_name_is_never_taken_for_a_short_one(void **state)
{
	(void)state;
	taken("--prefix", NULL);
	assert_true(a.theirs.prefix && !a.theirs.prefill_only);
	taken("--pre", "x"); /* ours, though it begins two of theirs */
	assert_non_null(a.pre);
}

static void our_options_take_nothing_from_theirs(void **state)
{
	(void)state;
	taken("--trace", "x");
	assert_true(a.theirs.trace && !a.trace_extended);
	taken("--trace-e", NULL);
	assert_true(a.trace_extended);
	taken("--veri", NULL);
	assert_true(a.verify);
}

static void what_is_short_for_several_is_refused_with_their_names(void **state)
{
	(void)state;
	refused("--pref", NULL, "'--pref' may be short for --prefill-only, --prefix");
	refused("--s=3", NULL, "'--s' may be short for --size, --speed");
	refused("--ver", NULL, "'--ver' may be short for --verify, --verbose");
	refused("--=3", NULL, "unknown option '--'");
}

static void signs_are_taken_where_a_number_may_have_one(void **state)
{
	(void)state;
	told_later("--num-users", "-5", "--num-users: -5 is below 1");
	taken("--num-users", "+5");
	assert_int_equal(a.theirs.users, 5);
	told_later("--num-users=-9223372036854775808", NULL,
		   "--num-users: -9223372036854775808 is below 1");
	told_later("--num-users", "1001", "--num-users: 1001 is outside 1..1000");
	taken("--size", "-.5");
	assert_true(a.theirs.size == -0.5);
	taken("--size", "1e3");
	assert_true(a.theirs.size == 1000);
	told_later("-n", "-3", "--num-users: -3 is below 1");
}

static void what_is_no_number_is_refused(void **state)
{
	static const char *const words[] = {"", "x", "1x", "0x10", "1 ", "nan", "inf", "1e", "-"};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		char whole[64], real[64], line[32];

		snprintf(whole, sizeof(whole), "--num-users: '%s' is not a whole number", words[i]);
		snprintf(real, sizeof(real), "--size: '%s' is not a number", words[i]);
		snprintf(line, sizeof(line), "--num-users=%s", words[i]);
		refused(line, NULL, whole);
		snprintf(line, sizeof(line), "--size=%s", words[i]);
		refused(line, NULL, real);
	}
	refused("--num-users", "1.5", "--num-users: '1.5' is not a whole number");
	refused("--size", "1e999", "--size: '1e999' is not a number");
	told_later("--num-users", "9223372036854775808",
		   "--num-users: 9223372036854775808 is outside 1..1000");
	refused("--speed", "10.5", "--speed: '10.5' is outside 0..10");
	refused("--speed", "-0.1", "--speed: '-0.1' is outside 0..10");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_short_for_one_option_means_it),
		cmocka_unit_test(a_whole_name_is_never_taken_for_a_short_one),
		cmocka_unit_test(our_options_take_nothing_from_theirs),
		cmocka_unit_test(what_is_short_for_several_is_refused_with_their_names),
		cmocka_unit_test(signs_are_taken_where_a_number_may_have_one),
		cmocka_unit_test(what_is_no_number_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
