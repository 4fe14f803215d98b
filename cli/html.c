/* SPDX-License-Identifier: Apache-2.0 */
/* From a result to the page of `sluice report'. */
#include "cli/html.h"

#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "load/report/page/html.h"

int cli_html_open(struct cli_html *h, const struct cli_cmd *cmd, const char *option,
		  const char *file)
{
	struct sluice_err err;

	*h = (struct cli_html){.cmd = cmd};
	if (report_html_check(&err) < 0)
		return cli_fail(cmd, CLI_UNSUPPORTED, "%s: %s", option, err.msg);
	return cli_file_open(&h->file, cmd, option, file);
}

void cli_html_abandon(struct cli_html *h)
{
	cli_file_abandon(&h->file);
}

int cli_html_finish(struct cli_html *h, const struct report_html *page)
{
	struct sluice_err err = {0, ""};
	int r = report_html_write(h->file.f, page, &err);

	return cli_file_finish(&h->file, h->cmd, r, r < 0 ? err.msg : NULL);
}

int cli_html_result(struct cli_html *h, json_t *result)
{
	const char *name = json_string_value(json_object_get(result, "command"));

	return cli_html_finish(h,
			       &(struct report_html){.results = &result, .names = &name, .nr = 1});
}

const char *cli_html_name(char **argv, int argc, int i)
{
	const char *name = argv[i];
	const char *last = strrchr(name, '/');

	if (!last)
		return name;
	for (int k = 0; k < argc; k++) {
		const char *other = strrchr(argv[k], '/');

		if (k != i && !strcmp(other ? other + 1 : argv[k], last + 1))
			return name;
	}
	return last + 1;
}
