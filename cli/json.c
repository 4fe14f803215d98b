/* SPDX-License-Identifier: Apache-2.0 */
/* A result that could not be written is a failure, so every write is checked. */
#include "cli/json.h"

#include <errno.h>
#include <string.h>

#include "cli/cli.h"

FILE *cli_json_open(const struct cli_cmd *cmd, const char *file)
{
	FILE *f = !strcmp(file, "-") ? stdout : fopen(file, "we");

	if (!f)
		cli_fail(cmd, CLI_FAILED, "--json: '%s' cannot be written: %s", file,
			 strerror(errno));
	return f;
}

int cli_json_finish(const struct cli_cmd *cmd, FILE *f, const char *file, json_t *root)
{
	int r = -1;

	errno = 0;
	if (root) {
		r = json_dumpf(root, f, JSON_INDENT(2));
		json_decref(root);
		putc('\n', f);
	}
	if (f == stdout ? fflush(f) : fclose(f))
		r = -1;
	if (r < 0)
		return cli_fail(cmd, CLI_FAILED, "--json: '%s' was not written: %s", file,
				strerror(errno ? errno : ENOMEM));
	return CLI_OK;
}
