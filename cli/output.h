/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_OUTPUT_H
#define SLUICE_CLI_OUTPUT_H

/*
 * Where the result of a command that measures goes: --json, --csv, --xlsx, --html; files as
 * cli/file.h describes them.
 */
#include <stdbool.h>

#include "cli/cli.h"
#include "cli/html.h"
#include "cli/opt/file.h"

struct result;

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
	struct cli_file json, csv, xlsx;
	struct cli_html html;
	bool text; /* standard output is for people */
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

#endif
