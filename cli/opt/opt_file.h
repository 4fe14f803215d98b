/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OPT_FILE_H
#define PENSTOCK_CLI_OPT_FILE_H

/*
 * A file that a command writes.  It has no name until it is complete: nobody meets half of it,
 * and a command that fails or is killed leaves what was there before (base/replace.h).  A file that
 * is replaced hands on its rights, and a link to it stays one.
 */
#include <stdbool.h>
#include <stdio.h>

#include "base/replace.h"
#include "load/report/result/text.h"

struct cli_cmd;

/*
 * Are these two names one file, or would they be?  By what they lead to, not how they are
 * spelt.  NULL is no file; standard output is one.
 */
bool cli_file_same(const char *a, const char *b);
/* Is the file @name in the folder @in, or one of those that the pattern @in finds? */
bool cli_file_within(const char *in, const char *name);

/* Bytes of a FILE on their way to a descriptor; stdio forgets why a write failed. */
struct cli_stream {
	int fd;
	int error;                  /* -errno of the first */
	struct escape_stream plain; /* where it is a terminal */
};

struct cli_file {
	const char *option; /* for messages: "--json" */
	const char *name;   /* "-": standard output; NULL: not asked for */
	struct cli_stream *stream;
	FILE *f;
	struct penstock_replace replace; /* what a regular file is until then */
};

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
/*
 * A workbook that cannot be had, @why in words: @file is @name from here on, for CSV, and the user
 * knows.  Returns CLI_OK, or another exit status after a message.
 */
int cli_file_instead(struct cli_file *file, const struct cli_cmd *cmd, const char *name,
		     const char *why);
/* "result.csv" for "result.xlsx", and for "result"; NULL for want of memory. */
char *cli_csv_name(const char *xlsx);
bool cli_name_ends(const char *name, const char *end);
/* Leave no trace.  Safe after finish, and when @file is zeroed. */
void cli_file_abandon(struct cli_file *file);

#endif
