/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of commands: which of them a command line means, and what --help and the dump show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/util.h"
#include "cli/opt/opt.h"

struct args {
	bool wide;
};

static const struct cli_opt opts[] = {
	CLI_GROUP("Options"),
	CLI_FLAG(struct args, wide, 'w', "wide", "all of it"),
	CLI_END,
};

static char ran[64];

static int note(const char *who, const struct args *a, int argc, char **argv)
{
	snprintf(ran, sizeof(ran), "%s%s %d %s", who, a->wide ? " wide" : "", argc,
		 argc ? argv[0] : "");
	return CLI_OK;
}

static int run_box(void *args, int argc, char **argv)
{
	return note("box", args, argc, argv);
}

static int run_open(void *args, int argc, char **argv)
{
	return note("open", args, argc, argv);
}

static const struct cli_cmd cmd_open = {
	.name = "box open",
	.summary = "opens a box",
	.usage = "FILE",
	.opts = opts,
	.args_size = sizeof(struct args),
	.run = run_open,
};

static const struct cli_cmd *const subs[] = {&cmd_open, NULL};

static const struct cli_cmd cmd_box = {
	.name = "box",
	.summary = "boxes",
	.opts = opts,
	.args_size = sizeof(struct args),
	.subs = subs,
	.run = run_box,
};

/* One that takes operands, too. */
static const struct cli_cmd cmd_bag = {
	.name = "bag",
	.summary = "bags",
	.usage = "FILE",
	.opts = opts,
	.args_size = sizeof(struct args),
	.subs = subs,
	.run = run_box,
};

/* One that does nothing by itself. */
static const struct cli_cmd cmd_rack = {
	.name = "rack",
	.summary = "racks",
	.opts = cli_no_opts,
	.subs = subs,
};

static int run(const struct cli_cmd *cmd, const char *line)
{
	char text[128], *argv[8], *save = NULL;
	int argc = 0;

	snprintf(text, sizeof(text), "%s", line);
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	argv[argc] = NULL;
	snprintf(ran, sizeof(ran), "nothing");
	return cli_cmd_run(cmd, argc, argv);
}

static void the_first_word_decides(void **state)
{
	(void)state;
	assert_int_equal(run(&cmd_box, ""), CLI_OK);
	assert_string_equal(ran, "box 0 ");
	assert_int_equal(run(&cmd_box, "-w"), CLI_OK);
	assert_string_equal(ran, "box wide 0 ");
	assert_int_equal(run(&cmd_box, "open -w x"), CLI_OK);
	assert_string_equal(ran, "open wide 1 x");
	assert_int_equal(run(&cmd_box, "open open"), CLI_OK);
	assert_string_equal(ran, "open 1 open");
}

static void other_words_are_refused(void **state)
{
	(void)state;
	assert_int_equal(run(&cmd_box, "opne"), CLI_USAGE);
	assert_int_equal(run(&cmd_box, "-w open"), CLI_USAGE);
	assert_string_equal(ran, "nothing");
}

static void a_command_with_operands_takes_other_words_as_such(void **state)
{
	(void)state;
	assert_int_equal(run(&cmd_bag, "opne"), CLI_OK);
	assert_string_equal(ran, "box 1 opne");
	assert_int_equal(run(&cmd_bag, "open x"), CLI_OK);
	assert_string_equal(ran, "open 1 x");
}

static void a_command_without_a_job_needs_one(void **state)
{
	(void)state;
	assert_int_equal(run(&cmd_rack, ""), CLI_USAGE);
	assert_int_equal(run(&cmd_rack, "--wide"), CLI_USAGE);
	assert_int_equal(run(&cmd_rack, "open x"), CLI_OK);
	assert_string_equal(ran, "open 1 x");
}

static char *help_of(const struct cli_cmd *cmd)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	cli_help(f, cmd, true);
	fclose(f);
	return text;
}

static void the_help_shows_both_forms(void **state)
{
	CLEANUP_FREE char *box = help_of(&cmd_box), *rack = help_of(&cmd_rack),
			  *open = help_of(&cmd_open);

	(void)state;
	assert_non_null(strstr(box, "usage: penstock box [OPTION...]\n"
				    "       penstock box COMMAND [OPTION...]\nboxes\n"));
	assert_non_null(strstr(box, "\nCommands:\n  open      opens a box\n"));
	assert_non_null(strstr(rack, "usage: penstock rack COMMAND [OPTION...]\nracks\n"));
	assert_null(strstr(rack, "penstock rack [OPTION"));
	assert_non_null(strstr(open, "usage: penstock box open [OPTION...] FILE\n"));
	assert_null(strstr(open, "Commands:"));
}

static void the_dump_lists_them_behind_their_command(void **state)
{
	const struct cli_cmd *const all[] = {&cmd_box, &cmd_rack, NULL};
	const char *const want[] = {"box", "box open", "rack", "box open"};
	CLEANUP_FREE char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	json_t *root, *list;

	(void)state;
	assert_non_null(f);
	assert_int_equal(cli_dump_options(f, all), CLI_OK);
	fclose(f);
	root = json_loads(text, 0, NULL);
	list = json_object_get(root, "commands");
	assert_int_equal(json_array_size(list), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		json_t *c = json_array_get(list, i);

		assert_string_equal(json_string_value(json_object_get(c, "name")), want[i]);
		assert_true(json_is_true(json_object_get(c, "runs")) == (i != 2));
	}
	json_decref(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_word_decides),
		cmocka_unit_test(other_words_are_refused),
		cmocka_unit_test(a_command_with_operands_takes_other_words_as_such),
		cmocka_unit_test(a_command_without_a_job_needs_one),
		cmocka_unit_test(the_help_shows_both_forms),
		cmocka_unit_test(the_dump_lists_them_behind_their_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
