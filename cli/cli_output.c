/* SPDX-License-Identifier: Apache-2.0 */
/* The options, and the result in each of their forms. */
#include "cli/cli_output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/hosts.h"
#include "cli/opt/opt_json.h"
#include "cli/progress.h"
#include "load/report/merge/merge.h"
#include "load/report/page/html.h"
#include "load/report/result/result.h"

const struct cli_opt cli_result_plain_opts[] = {
	CLI_OUT(struct cli_result_args, json, 'j', "json", "FILE", NULL,
		"write the result as JSON; - is standard output"),
	CLI_OUT(struct cli_result_args, csv, 0, "csv", "FILE", NULL,
		"write one line per series; - is standard output"),
	CLI_OUT(struct cli_result_args, html, 0, "html", "FILE", NULL,
		"write a page with plots, as `penstock report' does"),
	CLI_END,
};

const struct cli_opt cli_result_opts[] = {
	{.kind = CLI_KIND_TABLE, .sub = cli_result_plain_opts},
	CLI_OUT(struct cli_result_args, xlsx, 0, "xlsx", "FILE", NULL,
		"write a workbook, or CSV where libxlsxwriter is missing"),
	CLI_END,
};

/* -------------------------------------------------------------------- outputs */

int cli_outputs_open(struct cli_outputs *o, const struct cli_cmd *cmd,
		     const struct cli_result_args *args)
{
	int r;

	if (cli_is_stdout(args->xlsx))
		return cli_usage(cmd, "--xlsx: a workbook needs a file");
	*o = (struct cli_outputs){.cmd = cmd,
				  .json_name = args->json,
				  .text = !cli_is_stdout(args->json) && !cli_is_stdout(args->csv) &&
					  !cli_is_stdout(args->html)};
	o->table = o->text && cli_hosts_size() > 1;
	o->text &= !o->table;
	if (cli_hosts_rank()) /* its result goes to rank 0 */
		return CLI_OK;
	r = cli_file_open(&o->json, cmd, "--json", args->json);
	if (r == CLI_OK)
		r = cli_file_open(&o->csv, cmd, "--csv", args->csv);
	if (r == CLI_OK)
		r = cli_file_open(&o->xlsx, cmd, "--xlsx", args->xlsx);
	if (r == CLI_OK && args->html)
		r = cli_html_open(&o->html, cmd, "--html", args->html);
	if (r != CLI_OK)
		cli_outputs_abandon(o);
	return r;
}

void cli_outputs_abandon(struct cli_outputs *o)
{
	cli_file_abandon(&o->json);
	cli_file_abandon(&o->csv);
	cli_file_abandon(&o->xlsx);
	cli_html_abandon(&o->html);
}

/* "result.xlsx" to "result.csv", a file that is not there yet. */
static int csv_instead(struct cli_outputs *o, const json_t *all, const char *why)
{
	CLEANUP_FREE char *name = cli_csv_name(o->xlsx.name);
	int r;

	if (!name)
		return cli_fail(o->cmd, CLI_FAILED, "out of memory");
	if (access(name, F_OK) == 0)
		return cli_fail(o->cmd, CLI_FAILED, "--xlsx: %s, and '%s' is there already", why,
				name);
	r = cli_file_instead(&o->xlsx, o->cmd, name, why);
	return r == CLI_OK ? cli_file_finish(&o->xlsx, o->cmd, result_csv(o->xlsx.f, all), NULL)
			   : r;
}

static int finish_xlsx(struct cli_outputs *o, const json_t *all)
{
	struct penstock_err err = {0, ""};
	int e = result_xlsx(o->xlsx.f, all, &err);

	if (e == -ENOTSUP)
		return csv_instead(o, all, err.msg);
	return cli_file_finish(&o->xlsx, o->cmd, e, e < 0 ? err.msg : NULL);
}

/* Each of them, whatever became of the others; the last that failed counts. */
static int finish_all(struct cli_outputs *o, json_t *all)
{
	int status = CLI_OK, one;

	if (o->json.f) {
		one = cli_file_finish(&o->json, o->cmd, cli_json_dump(o->json.f, all, 1), NULL);
		status = one != CLI_OK ? one : status;
	}
	if (o->csv.f) {
		one = cli_file_finish(&o->csv, o->cmd, result_csv(o->csv.f, all), NULL);
		status = one != CLI_OK ? one : status;
	}
	if (o->xlsx.f) {
		one = finish_xlsx(o, all);
		status = one != CLI_OK ? one : status;
	}
	if (o->html.file.f) {
		one = cli_html_result(&o->html, all);
		status = one != CLI_OK ? one : status;
	}
	cli_outputs_abandon(o);
	return status;
}

/* Of all ranks: rank 0 has it. */
static int finish_ranks(struct cli_outputs *o, const struct result *r)
{
	json_t *all = NULL;
	int status = cli_hosts_result(&all, o->cmd, o->json_name, r);

	if (status != CLI_OK || !all)
		return status;
	if (o->table)
		merge_text(stdout, all);
	status = finish_all(o, all);
	if (status == CLI_OK && json_is_true(json_object_get(all, "partial")))
		status = cli_fail(o->cmd, CLI_FAILED, "the result is partial: %s",
				  json_string_value(json_object_get(all, "partial_why")));
	json_decref(all);
	return status;
}

int cli_outputs_finish(struct cli_outputs *o, const struct result *r)
{
	json_t *all;
	int status;

	if (cli_hosts_size() > 1)
		return finish_ranks(o, r);
	if (!o->json.f && !o->csv.f && !o->xlsx.f && !o->html.file.f)
		return CLI_OK;
	all = result_json(r);
	status = all ? finish_all(o, all) : cli_fail(o->cmd, CLI_FAILED, "out of memory");
	json_decref(all);
	return status;
}

int cli_measure(const struct cli_measure *m, void *command)
{
	struct cli_outcome outcome = {.interrupted = "the result is partial, files were removed"};
	struct penstock_err err = {0, ""};
	struct result r;
	int rc, status = cli_outputs_open(m->out, m->cmd, m->files);

	if (status != CLI_OK)
		return status;
	result_init(&r, m->cmd->name);
	rc = m->run(command, &outcome, &err);
	cli_progress_end(m->progress);
	if (rc < 0)
		result_partial(&r, err.msg);
	if (outcome.has_result)
		status = m->write_result(command, &r);
	if (rc == -ECANCELED && *m->stop)
		status = cli_fail(m->cmd, 128 + *m->stop, "interrupted; %s", outcome.interrupted);
	else if (rc < 0)
		status = cli_blame(m->cmd, outcome.refused ? CLI_USAGE : CLI_FAILED, err.msg);
	result_fini(&r);
	cli_outputs_abandon(m->out);
	return status;
}

/* ---------------------------------------------------------------------- page */

int cli_html_open(struct cli_html *h, const struct cli_cmd *cmd, const char *option,
		  const char *file)
{
	struct penstock_err err;

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
	struct penstock_err err = {0, ""};
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
