/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OUTPUT_H
#define PENSTOCK_CLI_OUTPUT_H

/*
 * Where the result of a command that measures goes: --json, --csv, --xlsx, --html; files as
 * cli/opt/opt_file.h describes them.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include <jansson.h>

#include "cli/cli.h"
#include "cli/opt/opt_file.h"

struct cli_progress;
struct report_html;
struct result;

/* The page behind --html, in a file as cli/opt/opt_file.h describes it. */

struct cli_html {
	const struct cli_cmd *cmd;
	struct cli_file file;
};

/*
 * Before the job starts, so that a long one does not end in a page that cannot
 * be written.  Returns CLI_OK, or another exit status after a message.
 */
int cli_html_open(struct cli_html *h, const struct cli_cmd *cmd, const char *option,
		  const char *file);
/* Write the page and let it appear.  Returns an exit status. */
int cli_html_finish(struct cli_html *h, const struct report_html *page);
/* The same for one result of a command, whose reference is not taken. */
int cli_html_result(struct cli_html *h, json_t *result);
/* Nothing to show: leave no trace.  Safe after finish, and when @h is zeroed. */
void cli_html_abandon(struct cli_html *h);

/* How the page calls file @i of several: by the last part of its path if that is enough. */
const char *cli_html_name(char **argv, int argc, int i);

struct cli_result_args {
	const char *json;
	const char *csv;
	const char *xlsx;
	const char *html;
};
extern const struct cli_opt cli_result_opts[];
/* Without --xlsx, for a command that has workbooks of its own. */
extern const struct cli_opt cli_result_plain_opts[];

struct cli_outputs {
	const struct cli_cmd *cmd;
	const char *json_name; /* of ranks that write no file, too */
	struct cli_file json, csv, xlsx;
	struct cli_html html;
	bool text;  /* standard output is for people */
	bool table; /* of several ranks: for the table of all */
};

/*
 * Before the job starts, so that a long one does not end in a file that cannot be
 * written.  Returns CLI_OK, or another exit status after a message.
 */
int cli_outputs_open(struct cli_outputs *o, const struct cli_cmd *cmd,
		     const struct cli_result_args *args);
/* Write all.  Returns an exit status. */
int cli_outputs_finish(struct cli_outputs *o, const struct result *r);
/* Nothing to show: leave no trace.  Safe after finish. */
void cli_outputs_abandon(struct cli_outputs *o);

/* How a job ended, beside its error. */
struct cli_outcome {
	bool has_result;       /* there is something to write */
	bool refused;          /* nothing was begun: what was asked for is wrong */
	char interrupted[128]; /* what became of it then; set to what is true of most jobs */
};

/*
 * A command that measures, from the files of its result to its exit status.  @run does the job
 * and returns 0 or -errno with one line in @err; @write_result writes what came of it.
 */
struct cli_measure {
	const struct cli_cmd *cmd;
	struct cli_outputs *out;
	const struct cli_result_args *files;
	struct cli_progress *progress;
	const atomic_int *stop;
	int (*run)(void *command, struct cli_outcome *outcome, struct penstock_err *err);
	int (*write_result)(void *command, struct result *r);
};
int cli_measure(const struct cli_measure *m, void *command);

#endif
