/* SPDX-License-Identifier: Apache-2.0 */
/* A result that could not be written is a failure, so every write is checked. */
#include "cli/json.h"

#include <errno.h>
#include <string.h>

#include <sluice/sluice.h>

#include "cli/cli.h"
#include "cli/file.h"
#include "load/report/read.h"

json_t *cli_json_load(const struct cli_cmd *cmd, const char *option, const char *file)
{
	struct sluice_err err = {0, ""};
	json_t *root = NULL;

	if (report_json_read(&root, file, &err) < 0)
		cli_fail(cmd, CLI_USAGE, "%s: %s", option, err.msg);
	return root;
}

int cli_json_dump(FILE *f, const json_t *root, int indent)
{
	errno = 0;
	if (json_dumpf(root, f, JSON_INDENT((size_t)indent)) == 0 && putc('\n', f) != EOF)
		return 0;
	if (ferror(f))
		return errno ? -errno : -EIO;
	return -ENOMEM;
}

int cli_json_write(struct cli_file *file, const struct cli_cmd *cmd, json_t *root)
{
	int r = root ? cli_json_dump(file->f, root, 2) : -ENOMEM;

	json_decref(root);
	return cli_file_finish(file, cmd, r, NULL);
}

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
