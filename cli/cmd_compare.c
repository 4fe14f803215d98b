/* SPDX-License-Identifier: Apache-2.0 */
/* sluice compare: two results side by side, with an exit status for CI; see load/report/compare.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/html.h"
#include "cli/json.h"
#include "load/report/compare.h"
#include "load/report/html.h"
#include "load/report/read.h"

struct compare_args {
	const char *fail_if;
	const char *html;
	struct cli_output out;
};

static const struct cli_opt compare_opts[] = {
	CLI_GROUP("Gate"),
	CLI_STR(struct compare_args, fail_if, 0, "fail_if", "slower:PERCENT", NULL,
		"exit with 1 when a series of B, or all together, is slower by more than that"),
	CLI_GROUP("Output"),
	CLI_STR(struct compare_args, html, 0, "html", "FILE", NULL,
		"write a page with both results too; `-' is standard output"),
	CLI_TABLE(struct compare_args, out, struct cli_output, cli_output_opts),
	CLI_END,
};

/* "slower:5%", "slower:2.5": a percentage, as a share in *@ret. */
static int parse_gate(double *ret, const char *text)
{
	static const char word[] = "slower:";
	double v;
	char *end;

	*ret = -1;
	if (!text)
		return CLI_OK;
	if (!strncmp(text, word, strlen(word))) {
		const char *from = text + strlen(word);

		v = strtod(from, &end);
		if (end != from && *from >= '0' && *from <= '9' && v <= 1000 &&
		    (!*end || !strcmp(end, "%"))) {
			*ret = v / 100;
			return CLI_OK;
		}
	}
	return cli_usage(&cmd_compare, "--fail_if: '%s' is not slower:PERCENT, as in slower:5%%",
			 text);
}

static int write_json(const char *file, json_t *root)
{
	FILE *f = cli_json_open(&cmd_compare, file);

	if (!f)
		return CLI_FAILED;
	return cli_json_finish(&cmd_compare, f, file, json_incref(root));
}

static int write_html(const char *file, const struct compare *c, json_t *comparison)
{
	json_t *const results[] = {c->in.a, c->in.b};
	const char *const names[] = {c->in.a_name, c->in.b_name};
	struct cli_html html;
	int r = cli_html_open(&html, &cmd_compare, "--html", file);

	if (r != CLI_OK)
		return r;
	return cli_html_finish(&html, &(struct report_html){.results = results,
							    .names = names,
							    .nr = 2,
							    .comparison = comparison});
}

static int tell(const struct compare_args *a, const struct compare *c)
{
	bool text = (!a->out.json || strcmp(a->out.json, "-") != 0) &&
		    (!a->html || strcmp(a->html, "-") != 0);
	json_t *json = compare_json(c);
	int r = json ? CLI_OK : cli_fail(&cmd_compare, CLI_FAILED, "out of memory");

	if (text && r == CLI_OK)
		compare_text(stdout, c);
	if (a->out.json && r == CLI_OK)
		r = write_json(a->out.json, json);
	if (a->html && r == CLI_OK)
		r = write_html(a->html, c, json);
	json_decref(json);
	return r == CLI_OK && c->failed ? CLI_FAILED : r;
}

static int compare_main(void *args, int argc, char **argv)
{
	const struct compare_args *a = args;
	struct compare_input in = {.gate_text = a->fail_if};
	struct sluice_err err = {0, ""};
	struct compare c;
	int r;

	if (argc != 2)
		return cli_usage(&cmd_compare, "two results are needed, not %d", argc);
	r = parse_gate(&in.gate, a->fail_if);
	if (r != CLI_OK)
		return r;
	if (a->html && report_html_check(&err) < 0)
		return cli_fail(&cmd_compare, CLI_UNSUPPORTED, "--html: %s", err.msg);
	in.a_name = cli_html_name(argv, argc, 0);
	in.b_name = cli_html_name(argv, argc, 1);
	r = report_read(&in.a, argv[0], &err);
	if (r == 0)
		r = report_read(&in.b, argv[1], &err);
	if (r == 0)
		r = compare_run(&c, &in, &err);
	if (r == 0) {
		r = tell(a, &c);
		compare_fini(&c);
	} else {
		r = cli_fail(&cmd_compare, r == -ENOMEM ? CLI_FAILED : CLI_USAGE, "%s", err.msg);
	}
	json_decref(in.a);
	json_decref(in.b);
	return r;
}

const struct cli_cmd cmd_compare = {
	.name = "compare",
	.summary = "two results side by side, with an exit status for CI",
	.usage = "A.json B.json",
	.opts = compare_opts,
	.args_size = sizeof(struct compare_args),
	.run = compare_main,
};
