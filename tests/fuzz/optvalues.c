/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: command lines.  The input is one word per line; the table has an
 * option of every kind.
 */
#include <string.h>

#include "cli/opt/opt.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_WORDS = 40 };

struct fuzz_args {
	const char *str;
	uint32_t u32;
	uint64_t u64;
	uint64_t size;
	uint32_t whole;
	struct cli_problems problems;
	double real;
	uint32_t choice;
	bool flag;
	struct cli_list list;
	struct cli_output out;
};

static const char *const choices[] = {"read", "write", "both", NULL};

static const struct cli_opt opts[] = {
	CLI_GROUP("Numbers"),
	CLI_U32(struct fuzz_args, u32, 'n', "number", "N", "7", 1, 4096, "a number"),
	CLI_U64(struct fuzz_args, u64, 'u', "unsigned", "N", "0", 0, UINT64_MAX, "any number"),
	CLI_SIZE(struct fuzz_args, size, 's', "size", "BYTES", "1M", 512, 1ull << 30, "a size"),
	CLI_ALIAS("bytes"),
	CLI_U32(struct fuzz_args, whole, 'w', "whole", "N", "3", 1, 9, "a whole number",
		.late = true),
	CLI_DBL(struct fuzz_args, real, 'r', "real", "N", "0.5", -8, 8, "a number"),
	CLI_GROUP("Words"),
	CLI_STR(struct fuzz_args, str, 't', "text", "TEXT", NULL, "a text"),
	CLI_ENUM(struct fuzz_args, choice, 'm', "mode", choices, "write", "one of three"),
	CLI_FLAG(struct fuzz_args, flag, 'f', "flag", "yes or no"),
	CLI_LIST(struct fuzz_args, list, 'l', "map", "A:B", NULL, 1, 8, "a list"),
	CLI_TABLE(struct fuzz_args, out, struct cli_output, cli_output_opts),
	CLI_END,
};

static int no_run(void *args, int argc, char **argv)
{
	(void)args;
	(void)argc;
	(void)argv;
	return CLI_OK;
}

static const struct cli_cmd cmd = {
	.name = "fuzz",
	.summary = "for the fuzzer",
	.usage = "[WORD...]",
	.opts = opts,
	.args_size = sizeof(struct fuzz_args),
	.problems = offsetof(struct fuzz_args, problems),
	.abbreviated = opts,
	.run = no_run,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const near[] = {"number", "unsigned", "size", "text", "mode", NULL};
	char *text = malloc(size + 1), *argv[MAX_WORDS + 1];
	struct fuzz_args args;
	struct cli_msg msg;
	int argc = 0, operands = -1, r;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	memset(&args, 0, sizeof(args));
	for (char *p = text; p && argc < MAX_WORDS; p = p ? p + 1 : NULL) {
		argv[argc++] = p;
		p = strchr(p, '\n');
		if (!p)
			break;
		*p = '\0';
	}
	argv[argc] = NULL;
	memset(&msg, 0, sizeof(msg));
	r = cli_parse(&cmd, &args, argc, argv, &operands, &msg);
	FUZZ_CHECK(r == CLI_OK || r == CLI_USAGE);
	if (r == CLI_OK) {
		FUZZ_CHECK(args.u32 >= 1 && args.u32 <= 4096);
		FUZZ_CHECK(args.size >= 512 && args.size <= 1ull << 30);
		FUZZ_CHECK(args.real >= -8 && args.real <= 8);
		FUZZ_CHECK(args.choice < 3);
		FUZZ_CHECK(args.list.nr <= 8);
		for (size_t i = 0; i < args.list.nr; i++)
			FUZZ_CHECK(args.list.items[i]);
		FUZZ_CHECK(operands >= 0 && operands <= argc);
		for (int i = 0; i < operands; i++)
			FUZZ_CHECK(argv[i] >= text && argv[i] <= text + size);
	} else {
		FUZZ_CHECK(msg.text[0]);
		FUZZ_CHECK(memchr(msg.text, '\0', sizeof(msg.text)));
		FUZZ_CHECK(!strchr(msg.text, '\n'));
	}
	cli_args_fini(&cmd, &args);
	cli_nearest(text, near);
	free(text);
	return 0;
}
