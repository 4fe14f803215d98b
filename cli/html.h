/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_HTML_H
#define SLUICE_CLI_HTML_H

/* The page behind --html, in a file as cli/file.h describes it. */
#include <jansson.h>

#include "cli/opt/file.h"

struct cli_cmd;
struct report_html;

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

#endif
