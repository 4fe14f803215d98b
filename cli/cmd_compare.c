/* SPDX-License-Identifier: Apache-2.0 */
/* penstock compare: two results side by side, with an exit status for CI; load/report/compare. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/opt/opt_file.h"
#include "cli/opt/opt_json.h"
#include "load/report/compare/compare.h"
#include "load/report/page/html.h"
#include "load/report/result/result_reader.h"

struct compare_args {
	struct cli_list fail_if;
	bool allow_missing;
	const char *html;
	struct cli_output out;
};

static const struct cli_opt compare_opts[] = {
	CLI_GROUP("Gate"),
	CLI_EACH(struct compare_args, fail_if, 0, "fail-if", "slower[:FIGURE]:PERCENT",
		 COMPARE_GATES,
		 "exit with 1 when B is slower by more than that in its median latency, bandwidth "
		 "or p99, or only in the FIGURE named (median, bandwidth, p99); may be repeated"),
	CLI_FLAG(struct compare_args, allow_missing, 0, "allow-missing",
		 "let the gate pass where series are missing or cannot be compared, and B is "
		 "partial or has errors"),
	CLI_GROUP("Output"),
	CLI_OUT(struct compare_args, html, 0, "html", "FILE", NULL,
		"write a page with both results too; `-' is standard output"),
	CLI_TABLE(struct compare_args, out, struct cli_output, cli_output_opts),
	CLI_END,
};

/* --------------------------------------------------------------------- gate */

/* What follows @word and a colon, or NULL. */
static const char *after(const char *text, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(text, word, n) && text[n] == ':' ? text + n + 1 : NULL;
}

/* "slower:5%", "slower:p99:2.5": percentages, as shares in @ret. */
static int parse_gate(struct compare_gate *ret, const char *text)
{
	const char *from = after(text, "slower"), *rest;
	double v;
	char *end;

	*ret = (struct compare_gate){.text = text, .figure = -1};
	for (int i = 0; from && i < COMPARE_FIGURES; i++) {
		rest = after(from, compare_figure_names[i]);
		if (rest) {
			ret->figure = i;
			from = rest;
			break;
		}
	}
	if (from && *from >= '0' && *from <= '9') {
		v = strtod(from, &end);
		ret->limit = v / 100;
		if (v <= 1000 && (!*end || !strcmp(end, "%")))
			return CLI_OK;
	}
	return cli_usage(&cmd_compare,
			 "--fail-if: '%s' is not slower:PERCENT or slower:FIGURE:PERCENT, as in "
			 "slower:5%% or slower:p99:10%%",
			 text);
}

static int parse_gates(struct compare_input *in, const struct compare_args *a)
{
	int r = CLI_OK;

	for (size_t i = 0; i < a->fail_if.nr && r == CLI_OK; i++)
		r = parse_gate(&in->gates[in->nr_gates++], a->fail_if.items[i]);
	if (r == CLI_OK && a->allow_missing && !in->nr_gates)
		return cli_usage(&cmd_compare, "--allow-missing: there is no gate; see --fail-if");
	in->allow_missing = a->allow_missing;
	return r;
}

/* ------------------------------------------------------------------ outputs */

struct outputs {
	struct cli_file json;
	struct cli_html html;
};

static void outputs_abandon(struct outputs *o)
{
	cli_file_abandon(&o->json);
	cli_html_abandon(&o->html);
}

/* Before anything is told, so that a name that cannot be written is bad input. */
static int outputs_open(struct outputs *o, const struct compare_args *a)
{
	int r;

	*o = (struct outputs){.json = {.name = NULL}};
	r = cli_file_open(&o->json, &cmd_compare, "--json", a->out.json);
	if (r == CLI_OK && a->html)
		r = cli_html_open(&o->html, &cmd_compare, "--html", a->html);
	if (r != CLI_OK)
		outputs_abandon(o);
	return r == CLI_FAILED ? CLI_USAGE : r;
}

static int write_html(struct cli_html *html, const struct compare *c, json_t *comparison)
{
	json_t *const results[] = {c->in.a, c->in.b};
	const char *const names[] = {c->in.a_name, c->in.b_name};

	return cli_html_finish(html, &(struct report_html){.results = results,
							   .names = names,
							   .nr = 2,
							   .comparison = comparison});
}

static int compare_write_result(struct outputs *o, const struct compare *c)
{
	bool text = !cli_is_stdout(o->json.name) && !cli_is_stdout(o->html.file.name);
	json_t *json = compare_json(c);
	int r = json ? CLI_OK : cli_fail(&cmd_compare, CLI_FAILED, "out of memory");

	if (text && r == CLI_OK)
		compare_text(stdout, c);
	if (o->json.f && r == CLI_OK)
		r = cli_file_finish(&o->json, &cmd_compare, cli_json_dump(o->json.f, json, 2),
				    NULL);
	if (o->html.file.f && r == CLI_OK)
		r = write_html(&o->html, c, json);
	json_decref(json);
	return r == CLI_OK && c->failed ? CLI_FAILED : r;
}

/* --------------------------------------------------------------------- main */

static int compare_files(struct compare_input *in, const struct compare_args *a, char **argv)
{
	struct penstock_err err = {0, ""};
	struct outputs o;
	struct compare c;
	json_t *both[2];
	int r = report_read_pair(both, argv, &err);

	in->a = both[0];
	in->b = both[1];
	if (r == 0)
		r = compare_run(&c, in, &err);
	if (r < 0)
		return cli_fail(&cmd_compare, r == -ENOMEM ? CLI_FAILED : CLI_USAGE, "%s", err.msg);
	r = outputs_open(&o, a);
	if (r == CLI_OK) {
		r = compare_write_result(&o, &c);
		outputs_abandon(&o);
	}
	compare_fini(&c);
	return r;
}

static int compare_main(void *args, int argc, char **argv)
{
	const struct compare_args *a = args;
	struct compare_input in = {.nr_gates = 0};
	struct penstock_err err = {0, ""};
	int r;

	if (argc != 2)
		return cli_usage(&cmd_compare, "two results are needed, not %d", argc);
	r = parse_gates(&in, a);
	if (r != CLI_OK)
		return r;
	if (a->html && report_html_check(&err) < 0)
		return cli_fail(&cmd_compare, CLI_UNSUPPORTED, "--html: %s", err.msg);
	in.a_name = cli_html_name(argv, argc, 0);
	in.b_name = cli_html_name(argv, argc, 1);
	r = compare_files(&in, a, argv);
	json_decref(in.a);
	json_decref(in.b);
	return r;
}

const struct cli_cmd cmd_compare = {
	.name = "compare",
	.summary = "two results side by side, with an exit status for CI",
	.usage = "A.json B.json",
	.operands = "r",
	.opts = compare_opts,
	.args_size = sizeof(struct compare_args),
	.run = compare_main,
};
