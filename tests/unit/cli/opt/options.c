/* SPDX-License-Identifier: Apache-2.0 */
/* Option tables: what is accepted, what is refused and in which words. */
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

struct engine_args {
	const char *name;
	uint32_t depth;
};

struct args {
	bool read, verbose;
	uint32_t mode, loops;
	uint64_t seed, block_size;
	const char *folder;
	struct cli_list map;
	struct engine_args engine;
};

static const char *const modes[] = {"fast", "slow_down", NULL};

static const struct cli_opt engine_opts[] = {
	CLI_STR(struct engine_args, name, 'e', "engine", "NAME", NULL, "how to move"),
	CLI_U32(struct engine_args, depth, 'd', "queue_depth", "N", "32", 1, 4096, "in flight"),
	CLI_ALIAS("depth"),
	CLI_END,
};

static const struct cli_opt opts[] = {
	CLI_GROUP("Work"),
	CLI_FLAG(struct args, read, 'r', "read", "read instead of write"),
	CLI_FLAG(struct args, verbose, 'v', "verbose", "say more"),
	CLI_ENUM(struct args, mode, 'm', "mode", modes, "fast", "how"),
	CLI_U32(struct args, loops, 0, "loops", "N", "3", 1, UINT32_MAX, "repetitions"),
	CLI_U64(struct args, seed, 0, "seed", "N", NULL, 0, UINT64_MAX, "seed"),
	CLI_SIZE(struct args, block_size, 'b', "block-size", "BYTES", "1M", 512, 1u << 30,
		 "bytes per block"),
	CLI_ALIAS_OF("fio", "bs"),
	CLI_STR(struct args, folder, 'f', "folder", "DIR", ".", "where"),
	CLI_LIST(struct args, map, 0, "folder_to_device_mapping", "DIR:DEV", NULL, 1, 3, "pairs"),
	CLI_GROUP("Engine"),
	CLI_TABLE(struct args, engine, struct engine_args, engine_opts),
	CLI_END,
};

static const struct cli_cmd cmd = {
	.name = "test",
	.summary = "a command to test",
	.usage = "[FILE...]",
	.opts = opts,
	.args_size = sizeof(struct args),
};

static struct args a;
static struct cli_msg msg;
static char *operands[32];
static int nr_operands;

/* Parse a command line of words separated by blanks; the result is in the variables above. */
static int parse_as(const struct cli_cmd *c, const char *line)
{
	static char text[1024];
	char *save = NULL, *w;
	int argc = 0;

	cli_args_fini(&cmd, &a);
	snprintf(text, sizeof(text), "%s", line);
	for (w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		operands[argc++] = w;
	operands[argc] = NULL;
	nr_operands = -1;
	msg.text[0] = 0;
	return cli_parse(c, &a, argc, operands, &nr_operands, &msg);
}

static int parse(const char *line)
{
	return parse_as(&cmd, line);
}

static void refused(const char *line, const char *want)
{
	int r = parse(line);

	if (r != CLI_USAGE || strcmp(msg.text, want) != 0)
		fail_msg("'%s' gave %d, '%s', not '%s'", line, r, msg.text, want);
}

static void defaults_hold_when_nothing_is_given(void **state)
{
	(void)state;
	assert_int_equal(parse(""), CLI_OK);
	assert_false(a.read);
	assert_int_equal(a.mode, 0);
	assert_int_equal(a.loops, 3);
	assert_int_equal(a.seed, 0);
	assert_int_equal(a.block_size, 1u << 20);
	assert_string_equal(a.folder, ".");
	assert_null(a.engine.name);
	assert_int_equal(a.engine.depth, 32);
	assert_int_equal(a.map.nr, 0);
	assert_int_equal(nr_operands, 0);
}

static void every_spelling_of_a_value_is_taken(void **state)
{
	static const char *const lines[] = {
		"--block-size 64K",   "--block-size=64K", "--block_size 65536",
		"--block_size=64KiB", "-b 64K",           "-b64K",
		"--bs 64k",           "--bs=0x10000",     "-rb64K",
		"-r -v -b 64K",       "-rvb 64K",         "--bs 1 --bs 64K",
	};

	(void)state;
	/* the last of several counts, but all are checked: see the next test */
	for (size_t i = 0; i < ARRAY_SIZE(lines) - 1; i++) {
		if (parse(lines[i]) != CLI_OK || a.block_size != 65536)
			fail_msg("'%s': %s", lines[i], msg.text);
	}
	refused(lines[ARRAY_SIZE(lines) - 1], "--bs: '1' is outside 512..1G");
	assert_int_equal(parse("-b 1M -b 64K"), CLI_OK);
	assert_int_equal(a.block_size, 65536);
}

static void tables_of_other_commands_are_reached(void **state)
{
	(void)state;
	assert_int_equal(parse("--engine io_uring --queue-depth 7"), CLI_OK);
	assert_string_equal(a.engine.name, "io_uring");
	assert_int_equal(a.engine.depth, 7);
	assert_int_equal(parse("-d8"), CLI_OK);
	assert_int_equal(a.engine.depth, 8);
	assert_int_equal(parse("--depth=9"), CLI_OK);
	assert_int_equal(a.engine.depth, 9);
}

static void words_of_a_choice_are_numbers_of_the_struct(void **state)
{
	(void)state;
	assert_int_equal(parse("--mode slow_down"), CLI_OK);
	assert_int_equal(a.mode, 1);
	assert_int_equal(parse("--mode=slow-down"), CLI_OK);
	assert_int_equal(a.mode, 1);
	refused("--mode slow", "--mode: 'slow' is not one of fast, slow_down");
	refused("--mode=", "--mode: '' is not one of fast, slow_down");
}

static void operands_and_options_mix(void **state)
{
	(void)state;
	assert_int_equal(parse("a -r b --loops 5 - -- -c --read"), CLI_OK);
	assert_true(a.read);
	assert_int_equal(a.loops, 5);
	assert_int_equal(nr_operands, 5);
	assert_string_equal(operands[0], "a");
	assert_string_equal(operands[1], "b");
	assert_string_equal(operands[2], "-");
	assert_string_equal(operands[3], "-c");
	assert_string_equal(operands[4], "--read");
}

static void a_list_takes_words_up_to_the_next_option(void **state)
{
	(void)state;
	assert_int_equal(parse("--folder_to_device_mapping a:0 b:1 --read x"), CLI_OK);
	assert_int_equal(a.map.nr, 2);
	assert_string_equal(a.map.items[0], "a:0");
	assert_string_equal(a.map.items[1], "b:1");
	assert_int_equal(nr_operands, 1);
	assert_int_equal(parse("--folder-to-device-mapping=a:0 x --folder_to_device_mapping b:1"),
			 CLI_OK);
	assert_int_equal(a.map.nr, 2);
	assert_int_equal(nr_operands, 1);
	assert_int_equal(parse("--folder_to_device_mapping a:0 -- x"), CLI_OK);
	assert_int_equal(a.map.nr, 1);
	assert_int_equal(nr_operands, 1);
	refused("--folder_to_device_mapping --read",
		"--folder_to_device_mapping: needs a value (DIR:DEV)");
	refused("--folder_to_device_mapping 1 2 3 4",
		"--folder_to_device_mapping: '4' is one too many; at most 3 are taken");
}

static void numbers_out_of_range_are_refused(void **state)
{
	(void)state;
	refused("--loops 0", "--loops: '0' is outside 1..4294967295");
	refused("--loops 4294967296", "--loops: '4294967296' is outside 1..4294967295");
	refused("--loops 99999999999999999999999",
		"--loops: '99999999999999999999999' is outside 1..4294967295");
	refused("-d 4097", "--queue_depth: '4097' is outside 1..4096");
	refused("--block-size 2G", "--block-size: '2G' is outside 512..1G");
	refused("--block-size 99E", "--block-size: '99E' is outside 512..1G");
	assert_int_equal(parse("--seed 18446744073709551615"), CLI_OK);
	assert_true(a.seed == UINT64_MAX);
	assert_int_equal(parse("--seed 0xff"), CLI_OK);
	assert_true(a.seed == 255);
	assert_int_equal(parse("--seed 010"), CLI_OK);
	assert_true(a.seed == 10);
}

static void what_is_no_number_is_refused(void **state)
{
	static const char *const junk[] = {"-1",    "+1",  "1x", "x",   "0x",  "0xg",
					   "0x0x1", "1.5", "1K", "1e3", "abc", "0X0x"};
	char line[64], want[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(junk); i++) {
		snprintf(line, sizeof(line), "--loops %s", junk[i]);
		snprintf(want, sizeof(want),
			 "--loops: '%s' is not a whole number; give one in 1..4294967295", junk[i]);
		refused(line, want);
	}
	refused("--loops=", "--loops: '' is not a whole number; give one in 1..4294967295");
	refused("-b 12Q",
		"--block-size: '12Q' is not a size; give bytes, or a number with K, M, G or T");
	refused("-b -5",
		"--block-size: '-5' is not a size; give bytes, or a number with K, M, G or T");
}

static void a_forgotten_value_is_noticed(void **state)
{
	(void)state;
	refused("--folder", "--folder: needs a value (DIR)");
	refused("--folder --read", "--folder: needs a value (DIR)");
	refused("-f", "--folder: needs a value (DIR)");
	assert_int_equal(parse("--folder=--read"), CLI_OK);
	assert_string_equal(a.folder, "--read");
	assert_false(a.read);
	assert_int_equal(parse("--folder -"), CLI_OK);
	assert_string_equal(a.folder, "-");
	refused("--read=yes", "--read: takes no value, but 'yes' was given");
}

static void unknown_options_are_refused_with_a_suggestion(void **state)
{
	(void)state;
	refused("--raed", "unknown option '--raed'; did you mean '--read'?");
	refused("--block_sise=4K", "unknown option '--block_sise'; did you mean '--block-size'?");
	refused("--verb", "unknown option '--verb'; did you mean '--verbose'?");
	refused("--xyzzy", "unknown option '--xyzzy'");
	refused("--=x", "unknown option '--'");
	refused("-z", "unknown option '-z' in '-z'");
	refused("-rz", "unknown option '-z' in '-z'");
	refused("--read_", "unknown option '--read_'; did you mean '--read'?");
}

static void what_is_needed_must_be_given(void **state)
{
	static const struct cli_opt needed[] = {
		CLI_SIZE(struct args, block_size, 0, "io_size", "N", CLI_REQUIRED, 0, UINT64_MAX,
			 "bytes"),
		CLI_END,
	};
	const struct cli_cmd c = {
		.name = "needs", .summary = "", .opts = needed, .args_size = sizeof(struct args)};

	(void)state;
	assert_int_equal(parse_as(&c, ""), CLI_USAGE);
	assert_string_equal(msg.text, "--io_size: is needed (N: bytes)");
	assert_int_equal(parse_as(&c, "--io-size 0"), CLI_OK);
	assert_int_equal(parse_as(&c, "--io-size 1 x"), CLI_USAGE);
	assert_string_equal(msg.text, "'x' is not expected: 'needs' takes options only");
}

static void a_list_may_have_a_default(void **state)
{
	static const struct cli_opt listed[] = {
		CLI_LIST(struct args, map, 'x', "x", "X", "one", 2, 9, "..."),
		CLI_END,
	};
	const struct cli_cmd c = {
		.name = "x", .summary = "", .opts = listed, .args_size = sizeof(struct args)};

	(void)state;
	assert_int_equal(parse_as(&c, ""), CLI_OK);
	assert_int_equal(a.map.nr, 1);
	assert_string_equal(a.map.items[0], "one");
	assert_int_equal(parse_as(&c, "-x a b"), CLI_OK);
	assert_int_equal(a.map.nr, 2);
	assert_string_equal(a.map.items[0], "a");
	assert_int_equal(parse_as(&c, "-x a"), CLI_USAGE);
	assert_string_equal(msg.text, "--x: needs at least 2 values");
}

static void a_comma_separates_values(void **state)
{
	static const struct cli_opt listed[] = {
		CLI_LIST(struct args, map, 'x', "x", "X", NULL, 0, 4, "..."),
		CLI_END,
	};
	static const struct {
		const char *line, *items[5];
	} cases[] = {
		{"-x a,b c", {"a", "b", "c"}},
		{"--x=a,b", {"a", "b"}},
		{"--x=a b,c", {"a", "b", "c"}},
		{"-xa b", {"a", "b"}},
		{"-x f:n=3,s=1,g,h:i=2,j=3", {"f:n=3,s=1", "g", "h:i=2,j=3"}},
	};
	static const char *const empty[] = {"-x a,", "-x ,a", "-x a,,b", "-x ,", "--x="};
	const struct cli_cmd c = {
		.name = "x", .summary = "", .opts = listed, .args_size = sizeof(struct args)};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t n = 0;

		assert_int_equal(parse_as(&c, cases[i].line), CLI_OK);
		for (; cases[i].items[n]; n++)
			assert_string_equal(a.map.items[n], cases[i].items[n]);
		assert_int_equal(a.map.nr, n);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(empty); i++) {
		assert_int_equal(parse_as(&c, empty[i]), CLI_USAGE);
		assert_string_equal(msg.text, "--x: there is an empty value");
	}
	assert_int_equal(parse_as(&c, "-x a,b,c,d,e"), CLI_USAGE);
	assert_string_equal(msg.text, "--x: 'e' is one too many; at most 4 are taken");
}

static void a_comma_is_a_letter_of_a_path(void **state)
{
	static const struct cli_opt listed[] = {
		CLI_PLACES(struct args, map, 'x', "x", "X", NULL, 0, 2, "..."),
		CLI_END,
	};
	const struct cli_cmd c = {
		.name = "x", .summary = "", .opts = listed, .args_size = sizeof(struct args)};

	(void)state;
	assert_int_equal(parse_as(&c, "--x=a,b c,d"), CLI_OK);
	assert_int_equal(a.map.nr, 2);
	assert_string_equal(a.map.items[0], "a,b");
	assert_string_equal(a.map.items[1], "c,d");
}

static void a_list_may_stand_alone(void **state)
{
	static const struct cli_opt listed[] = {
		CLI_LIST(struct args, map, 'x', "x", "X", NULL, 0, 2, "..."),
		CLI_FLAG(struct args, read, 'r', "read", "..."),
		CLI_END,
	};
	const struct cli_cmd c = {
		.name = "x", .summary = "", .opts = listed, .args_size = sizeof(struct args)};

	(void)state;
	assert_int_equal(parse_as(&c, ""), CLI_OK);
	assert_false(a.map.given);
	assert_int_equal(parse_as(&c, "--x --read"), CLI_OK);
	assert_true(a.map.given && a.read);
	assert_int_equal(a.map.nr, 0);
	assert_int_equal(parse_as(&c, "-r -x"), CLI_OK);
	assert_true(a.map.given && a.read);
	assert_int_equal(parse_as(&c, "-x 1 2 -r"), CLI_OK);
	assert_true(a.map.given && a.read);
	assert_int_equal(a.map.nr, 2);
}

/* Whatever is typed: an answer, and no access outside of what was typed (ASan looks). */
static void random_words_do_no_harm(void **state)
{
	static const char *const pieces[] = {"--",
					     "-",
					     "=",
					     "read",
					     "bs",
					     "block_size",
					     "1",
					     "K",
					     "folder_to_device_mapping",
					     " ",
					     " ",
					     "x",
					     "mode",
					     "fast",
					     "\xff",
					     "--queue-depth",
					     "-d",
					     "99999999999999999999"};
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char line[512] = "";
		int r;

		for (unsigned n = 0; n < 12; n++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			strcat(line, pieces[(seed >> 33) % ARRAY_SIZE(pieces)]);
		}
		r = parse(line);
		assert_true(r == CLI_OK || r == CLI_USAGE);
		assert_true((r == CLI_OK) == !msg.text[0]);
	}
}

static void the_help_shows_every_option_within_80_columns(void **state)
{
	char *text = NULL, *line, *save = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	assert_non_null(f);
	cli_help(f, &cmd, true);
	fclose(f);
	assert_non_null(strstr(text, "usage: penstock test [OPTION...] [FILE...]\n"));
	assert_non_null(
		strstr(text, "  -b, --block-size BYTES      bytes per block (1M); also --bs\n"));
	assert_non_null(strstr(text, "  -m, --mode fast|slow_down   how (fast)\n"));
	assert_non_null(strstr(text, "      --folder_to_device_mapping DIR:DEV...\n"));
	assert_non_null(strstr(text, "\nEngine:\n"));
	assert_non_null(strstr(text, "-h, --help"));
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		assert_true(strlen(line) <= 80);
	free(text);
}

static void the_dump_is_json_with_every_option(void **state)
{
	const struct cli_cmd *const all[] = {&cmd, NULL};
	json_t *root, *list, *o;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	assert_non_null(f);
	assert_int_equal(cli_dump_options(f, all), CLI_OK);
	fclose(f);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	list = json_object_get(json_array_get(json_object_get(root, "commands"), 0), "options");
	assert_int_equal(json_array_size(list), 10);
	o = json_array_get(list, 5);
	assert_string_equal(json_string_value(json_object_get(o, "name")), "block-size");
	assert_string_equal(json_string_value(json_object_get(o, "kind")), "size");
	assert_string_equal(json_string_value(json_object_get(o, "max")), "1073741824");
	assert_string_equal(json_string_value(json_object_get(o, "default")), "1M");
	assert_string_equal(json_string_value(json_array_get(json_object_get(o, "aliases"), 0)),
			    "bs");
	o = json_object_get(o, "tools");
	assert_string_equal(json_string_value(json_object_get(o, "bs")), "fio");
	o = json_array_get(list, 9);
	assert_string_equal(json_string_value(json_object_get(o, "group")), "Engine");
	json_decref(root);
	free(text);
}

struct odd {
	bool write;
	uint32_t flags, depth;
	uint64_t ns;
	const char *in, *out;
};

static const struct cli_opt odd_opts[] = {
	CLI_NOT(struct odd, write, 'r', "read-only", "no writes"),
	CLI_BIT(struct odd, flags, 4, 0, "single-submit", "one by one"),
	CLI_U64(struct odd, ns, 0, "runtime", "SECONDS", NULL, 1, 9, "so long",
		.scale = 1000000000u),
	CLI_U32_OF(struct odd, depth, 'd', "depth", "N", "depth", "in flight",
		   .key = "queue_depth"),
	CLI_IN(struct odd, in, 0, "in", "FILE", NULL, "read"),
	CLI_OUT(struct odd, out, 0, "out", "FILE", NULL, "written"),
	CLI_END,
};

static const struct cli_cmd odd_cmd = {
	.name = "odd", .summary = "", .opts = odd_opts, .args_size = sizeof(struct odd)};

static int parse_odd(struct odd *o, const char *one, const char *two, const char *three)
{
	const char *const given[] = {one, two, three};
	static char words[3][64];
	char *argv[] = {words[0], words[1], words[2], NULL};
	int n = 0, left;

	for (; n < 3 && given[n]; n++)
		snprintf(words[n], sizeof(words[n]), "%s", given[n]);
	return cli_parse(&odd_cmd, o, n, argv, &left, &msg);
}

static void tables_fill_fields_as_a_job_has_them(void **state)
{
	struct odd o;

	(void)state;
	assert_int_equal(parse_odd(&o, "--runtime=3", NULL, NULL), CLI_OK);
	assert_true(o.write && !o.flags && o.ns == 3000000000u);
	assert_int_equal(parse_odd(&o, "-r", "--single_submit", "-d4096"), CLI_OK);
	assert_true(!o.write && o.flags == 4 && o.depth == 4096);
	assert_int_equal(parse_odd(&o, "-d4097", NULL, NULL), CLI_USAGE);
	assert_string_equal(msg.text, "--depth: '4097' is outside 1..4096");
	assert_int_equal(parse_odd(&o, "--in=s3://x", NULL, NULL), CLI_USAGE);
	assert_int_equal(parse_odd(&o, "--in=file:///x", "--out=/x", NULL), CLI_USAGE);
	assert_int_equal(parse_odd(&o, "--in=file:///x/y", NULL, NULL), CLI_OK);
	assert_string_equal(o.in, "/x/y");
}

static void settings_are_what_the_options_have(void **state)
{
	struct odd o;
	json_t *j, *want;

	(void)state;
	assert_int_equal(parse_odd(&o, "-r", "--runtime=3", "--out=x"), CLI_OK);
	j = cli_settings(&odd_cmd, &o);
	want = json_loads("{\"read_only\": true, \"single_submit\": false, \"runtime\": 3, "
			  "\"queue_depth\": null, \"in\": null}",
			  0, NULL);
	assert_true(json_equal(j, want));
	json_decref(j);
	json_decref(want);
}

static void near_words_are_found(void **state)
{
	static const char *const words[] = {"info", "io", "bench", "sweep", NULL};

	(void)state;
	assert_string_equal(cli_nearest("inof", words), "info");
	assert_string_equal(cli_nearest("bnech", words), "bench");
	assert_string_equal(cli_nearest("swe", words), "sweep");
	assert_null(cli_nearest("x", words));
	assert_null(cli_nearest("", words));
	assert_null(cli_nearest("completely-different", words));
}

static int fini(void **state)
{
	(void)state;
	cli_args_fini(&cmd, &a);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_hold_when_nothing_is_given),
		cmocka_unit_test(every_spelling_of_a_value_is_taken),
		cmocka_unit_test(tables_of_other_commands_are_reached),
		cmocka_unit_test(words_of_a_choice_are_numbers_of_the_struct),
		cmocka_unit_test(operands_and_options_mix),
		cmocka_unit_test(a_list_takes_words_up_to_the_next_option),
		cmocka_unit_test(numbers_out_of_range_are_refused),
		cmocka_unit_test(what_is_no_number_is_refused),
		cmocka_unit_test(a_forgotten_value_is_noticed),
		cmocka_unit_test(unknown_options_are_refused_with_a_suggestion),
		cmocka_unit_test(what_is_needed_must_be_given),
		cmocka_unit_test(a_list_may_have_a_default),
		cmocka_unit_test(a_list_may_stand_alone),
		cmocka_unit_test(a_comma_separates_values),
		cmocka_unit_test(a_comma_is_a_letter_of_a_path),
		cmocka_unit_test(random_words_do_no_harm),
		cmocka_unit_test(the_help_shows_every_option_within_80_columns),
		cmocka_unit_test(the_dump_is_json_with_every_option),
		cmocka_unit_test(tables_fill_fields_as_a_job_has_them),
		cmocka_unit_test(settings_are_what_the_options_have),
		cmocka_unit_test(near_words_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, fini);
}
