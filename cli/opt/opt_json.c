/* SPDX-License-Identifier: Apache-2.0 */
/* A result that could not be written is a failure, so every write is checked. */
#include "cli/opt/opt_json.h"

#include <errno.h>

#include <penstock/penstock.h>

#include "cli/opt/opt.h"
#include "cli/opt/opt_file.h"
#include "load/report/result/result_reader.h"

json_t *cli_json_load(const struct cli_cmd *cmd, const char *option, const char *file)
{
	struct penstock_err err = {0, ""};
	json_t *root = NULL;

	if (report_json_read(&root, file, &err) < 0)
		cli_fail(cmd, CLI_USAGE, "%s: %s", option, err.msg);
	return root;
}

int cli_json_dump(FILE *f, const json_t *root, int indent)
{
	if (json_dumpf(root, f, JSON_INDENT((size_t)indent)) == 0 && putc('\n', f) != EOF)
		return 0;
	return ferror(f) ? -EIO : -ENOMEM;
}

int cli_json_write(struct cli_file *file, const struct cli_cmd *cmd, json_t *root)
{
	int r = root ? cli_json_dump(file->f, root, 2) : -ENOMEM;

	json_decref(root);
	return cli_file_finish(file, cmd, r, NULL);
}
