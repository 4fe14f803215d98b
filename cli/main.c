/* SPDX-License-Identifier: Apache-2.0 */
/* The penstock command: finds the subcommand and hands over. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include "cli/cli.h"
#include "cli/hosts.h"
#include "load/report/result/text.h"

static const struct cli_cmd *const commands[] = {
	&cmd_info,   &cmd_io,   &cmd_bench, &cmd_sweep,   &cmd_tune,    &cmd_kv,     &cmd_trace,
	&cmd_replay, &cmd_ckpt, &cmd_gen,   &cmd_weights, &cmd_store,   &cmd_stripe, &cmd_cp,
	&cmd_ls,     &cmd_rm,   &cmd_s3,    &cmd_report,  &cmd_compare, &cmd_merge,  NULL,
};

static void help_all_commands(FILE *f, bool all)
{
	fprintf(f, "usage: penstock COMMAND [OPTION...] [OPERAND...]\n");
	cli_list_commands(f, commands);
	if (!all)
		fprintf(f, "Each has --help; penstock --help-all: units, exit status, the rest\n");
	else
		fprintf(f,
			"\n"
			"  penstock help COMMAND, penstock COMMAND --help  options used most\n"
			"  penstock COMMAND --help-all                     all options\n"
			"  penstock --version                              version of the program\n"
			"  penstock --dump-options                         all options, as JSON\n"
			"\n"
			"Sizes take K, M, G and T, powers of two: 64K, 1.5G; 2MB and 2MiB are both "
			"2M.\n"
			"Reports: KiB, MiB, GiB are powers of two, MB and GB 10^6 and 10^9 bytes.\n"
			"Exit status: 0 done, 1 failed, 2 bad command line, 3 not supported "
			"here.\n");
}

static int unknown_command(const char *word)
{
	static const char *const more[] = {"help",      "--help",         "--help-all",
					   "--version", "--dump-options", NULL};

	return cli_unknown(NULL, commands, more, word);
}

/* penstock help COMMAND [COMMAND] */
static int help_of(int argc, char **argv)
{
	const struct cli_cmd *cmd = cli_find(commands, argv[0]), *sub = NULL;

	if (!cmd)
		return unknown_command(argv[0]);
	if (argc > 1 && cmd->subs)
		sub = cli_find(cmd->subs, argv[1]);
	if (argc > 1 && cmd->subs && !sub)
		return cli_unknown(cmd, cmd->subs, NULL, argv[1]);
	cli_help(stdout, sub ? sub : cmd, false);
	return CLI_OK;
}

static int run_command(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct cli_cmd *cmd;

	if (!word) {
		help_all_commands(stderr, false);
		return CLI_USAGE;
	}
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		printf("penstock %s\n", PENSTOCK_VERSION_STRING);
		return CLI_OK;
	}
	if (!strcmp(word, "--ranks")) /* for what is Python */
		return cli_ranks_run(argc - 2, argv + 2);
	if (!strcmp(word, "--dump-options"))
		return cli_dump_options(stdout, commands);
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		if (argc > 2)
			return help_of(argc - 2, argv + 2);
		help_all_commands(stdout, false);
		return CLI_OK;
	}
	if (!strcmp(word, "--help-all") || !strcmp(word, "--help_all")) {
		help_all_commands(stdout, true);
		return CLI_OK;
	}
	cmd = cli_find(commands, word);
	if (!cmd)
		return unknown_command(word);
	return cli_cmd_run(cmd, argc - 2, argv + 2);
}

/* The usual soft limit of 1024 open files is for programs that use select(2). */
static void raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

int main(int argc, char **argv)
{
	struct cli_hosts hosts;
	static struct escape_stream plain; /* until the end of the process */
	int status;
	FILE *people;

	raise_files(); /* rank 0 needs one for each of the others */
	/* Before standard output is another: libraries of MPI keep the one they find, to the end.
	 */
	status = cli_hosts_open(&hosts, &argc, &argv);
	people = report_escape_stream(&plain, STDOUT_FILENO);
	if (!people)
		return cli_fail(NULL, CLI_FAILED, "out of memory");
	/* Names from files and traces are among what is printed; data goes past it
	 * (cli/opt/opt_file.c). */
	stdout = people;
	if (status == CLI_OK)
		status = run_command(argc, argv);
	/* A result that did not reach its file is not a result. */
	if (fflush(people) || ferror(people)) {
		cli_fail(NULL, CLI_FAILED, "standard output: %s",
			 strerror(plain.error ? -plain.error : EIO));
		status = status == CLI_OK ? CLI_FAILED : status;
	}
	/* Not closed: libraries keep the stream they find, and flush it when the process ends. */
	return cli_hosts_close(&hosts, status);
}
