/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_OPT_FILE_H
#define SLUICE_CLI_OPT_FILE_H

/*
 * A file that a command writes.  It is written beside its name and takes it when it is
 * complete: nobody meets half of it, and a command that fails leaves what was there before.
 */
#include <stdbool.h>
#include <stdio.h>

struct cli_cmd;

/*
 * Are these two names one file, or would they be?  By what they lead to, not how they are
 * spelt.  NULL is no file; standard output is one.
 */
bool cli_file_same(const char *a, const char *b);

struct cli_file {
	const char *option; /* for messages: "--json" */
	const char *name;   /* "-": standard output; NULL: not asked for */
	char *temp;         /* what it is called until then */
	FILE *f;
};

/* A file that was named, NULL where none was, and the option that named it. */
struct cli_name {
	const char *option, *name;
};

/*
 * No two of them may be one file, or standard output.  Returns CLI_OK, or CLI_USAGE after a
 * message.  Devices and pipes are files that may be named twice.
 */
int cli_names_check(const struct cli_cmd *cmd, const struct cli_name *names, unsigned nr);
/* Is it `-'? */
bool cli_is_stdout(const char *name);

/*
 * Before the job starts, so that a long one does not end in a file that cannot be
 * written.  @name may be NULL.  Returns CLI_OK, or CLI_USAGE after a message.
 */
int cli_file_open(struct cli_file *file, const struct cli_cmd *cmd, const char *option,
		  const char *name);
/*
 * Let it appear.  @r is what writing came to, 0 or -errno, and @why the reason in words, or
 * NULL.  Returns an exit status, after a message when it is not CLI_OK.
 */
int cli_file_finish(struct cli_file *file, const struct cli_cmd *cmd, int r, const char *why);
/* Leave no trace.  Safe after finish, and when @file is zeroed. */
void cli_file_abandon(struct cli_file *file);

#endif
