/* SPDX-License-Identifier: Apache-2.0 */
/* penstock report: results as one HTML page; load/report/page/html.h makes it. */

#include "base/err.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "load/report/page/html.h"
#include "load/report/result/result_reader.h"

#define REPORT_MAX      64 /* results in one page */
#define REPORT_MAX_TEXT "64"

struct report_args {
	const char *output;
};

static const struct cli_opt report_opts[] = {
	CLI_GROUP("Output"),
	CLI_OUT(struct report_args, output, 'o', "output", "FILE", CLI_REQUIRED,
		"the page; `-' is standard output"),
	CLI_ALIAS("html"),
	CLI_END,
};

static int load_results(json_t **results, const char **names, int argc, char **argv)
{
	struct penstock_err err = {0, ""};

	for (int i = 0; i < argc; i++) {
		if (report_read_any(&results[i], argv[i], &err) < 0)
			return cli_fail(&cmd_report, CLI_USAGE, "%s", err.msg);
		names[i] = cli_html_name(argv, argc, i);
	}
	return CLI_OK;
}

static int report_run(void *args, int argc, char **argv)
{
	const struct report_args *a = args;
	json_t *results[REPORT_MAX] = {NULL};
	const char *names[REPORT_MAX];
	struct cli_html html;
	int r;

	if (argc < 1 || argc > REPORT_MAX)
		return cli_usage(&cmd_report, "between 1 and %d results are needed, not %d",
				 REPORT_MAX, argc);
	r = load_results(results, names, argc, argv);
	if (r == CLI_OK)
		r = cli_html_open(&html, &cmd_report, "--output", a->output);
	if (r == CLI_FAILED)
		r = CLI_USAGE; /* nothing was done yet */
	if (r == CLI_OK)
		r = cli_html_finish(&html, &(struct report_html){.results = results,
								 .names = names,
								 .nr = (size_t)argc});
	for (int i = 0; i < argc; i++)
		json_decref(results[i]);
	return r;
}

const struct cli_cmd cmd_report = {
	.name = "report",
	.summary = "results as one HTML page with charts",
	.usage = "RESULT.json...",
	.operands = "r",
	.notes = "Up to " REPORT_MAX_TEXT " results; the page stays below 2 MB.\n",
	.opts = report_opts,
	.args_size = sizeof(struct report_args),
	.run = report_run,
};
