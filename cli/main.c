/* SPDX-License-Identifier: Apache-2.0 */
/* The sluice command: finds the subcommand and hands over. */
#include <errno.h>
#include <string.h>

#include <sluice/sluice.h>

#include "base/util.h"
#include "cli/cli.h"

static const struct cli_cmd *const commands[] = {
	&cmd_info, &cmd_io, &cmd_bench, &cmd_sweep, &cmd_tune, &cmd_report, &cmd_compare, NULL,
};

static void help(FILE *f)
{
	fprintf(f, "usage: sluice COMMAND [OPTION...] [OPERAND...]\n"
		   "moves tensors between storage and memory at the speed of the device\n"
		   "\n"
		   "Commands:\n");
	for (size_t i = 0; commands[i]; i++) {
		fprintf(f, "  %-8s  ", commands[i]->name);
		cli_wrap(f, commands[i]->summary, 12, 12);
	}
	fprintf(f, "\n"
		   "  sluice help COMMAND, sluice COMMAND --help   options of a command\n"
		   "  sluice --version                             version of the program\n"
		   "  sluice --dump-options                        all options, as JSON\n"
		   "\n"
		   "Sizes take K, M, G and T, powers of two: 64K, 1.5G.\n"
		   "Exit status: 0 done, 1 failed, 2 bad command line, 3 not supported here.\n");
}

static const struct cli_cmd *find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int unknown(const char *what, const char *word)
{
	const char *words[ARRAY_SIZE(commands) + 5] = {"help", "--help", "--version",
						       "--dump-options"};
	const char *near;

	for (size_t i = 0; commands[i]; i++)
		words[4 + i] = commands[i]->name;
	near = cli_nearest(word, words);
	if (near)
		return cli_usage(NULL, "unknown %s '%s'; did you mean '%s'?", what, word, near);
	return cli_usage(NULL, "unknown %s '%s'", what, word);
}

static int run(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct cli_cmd *cmd;

	if (!word) {
		help(stderr);
		return CLI_USAGE;
	}
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		printf("sluice %s\n", SLUICE_VERSION_STRING);
		return CLI_OK;
	}
	if (!strcmp(word, "--dump-options"))
		return cli_dump_options(stdout, commands);
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		if (argc == 2) {
			help(stdout);
			return CLI_OK;
		}
		cmd = find(argv[2]);
		if (!cmd)
			return unknown("command", argv[2]);
		cli_help(stdout, cmd);
		return CLI_OK;
	}
	cmd = find(word);
	if (!cmd)
		return unknown(word[0] == '-' ? "option" : "command", word);
	return cli_cmd_run(cmd, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
	int status = run(argc, argv);

	/* A result that did not reach its file is not a result. */
	if (ferror(stdout) || fflush(stdout) != 0) {
		cli_fail(NULL, CLI_FAILED, "standard output: %s", strerror(errno ? errno : EIO));
		status = status == CLI_OK ? CLI_FAILED : status;
	}
	return status;
}
