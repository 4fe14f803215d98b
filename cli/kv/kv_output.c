/* SPDX-License-Identifier: Apache-2.0 */
/* Files are opened before the run and written after it. */
#include "cli/kv/kv_args.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "cli/opt/opt_json.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/result.h"

static char *default_name(void)
{
	time_t now = time(NULL);
	char name[64] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(name, sizeof(name), "benchmark_results_%Y%m%d_%H%M%S.json", &tm);
	return strdup(name);
}

static int open_table(struct kv_outputs *o, const struct kv_args *a)
{
	const char *xlsx = a->xlsx;
	int r;

	o->csv = !cli_name_ends(xlsx, ".xlsx");
	/* as upstream makes the name */
	o->csv_name = cli_name_ends(xlsx, ".csv") ? strdup(xlsx) : cli_csv_name(xlsx);
	if (!o->csv_name)
		return cli_fail(o->cmd, CLI_FAILED, "out of memory");
	r = cli_name_check(o->cmd, a, "--xlsx", o->csv_name);
	return r == CLI_OK ? cli_file_open(&o->table, o->cmd, "--xlsx", o->csv ? o->csv_name : xlsx)
			   : r;
}

int kv_outputs_open(struct kv_outputs *o, const struct cli_cmd *cmd, const struct kv_args *a)
{
	int r;

	*o = (struct kv_outputs){.cmd = cmd};
	/* of several ranks --json is the result; --output is each rank's, where it is asked for */
	o->json_name = a->output ? strdup(a->output) : a->params.parts < 2 ? default_name() : NULL;
	if (!o->json_name && (a->output || a->params.parts < 2))
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	r = cli_outputs_open(&o->common, cmd, &a->out);
	o->text = o->common.text && !cli_is_stdout(o->json_name) &&
		  !cli_is_stdout(a->job.trace_path) && !cli_is_stdout(a->export_fio);
	if (r == CLI_OK)
		r = cli_file_open(&o->json, cmd, "--output", o->json_name);
	if (r == CLI_OK && a->xlsx)
		r = open_table(o, a);
	if (r == CLI_OK)
		r = cli_file_open(&o->fio, cmd, "--export-fio", a->export_fio);
	if (r != CLI_OK)
		kv_outputs_abandon(o);
	return r;
}

void kv_outputs_abandon(struct kv_outputs *o)
{
	cli_outputs_abandon(&o->common);
	cli_file_abandon(&o->json);
	cli_file_abandon(&o->table);
	cli_file_abandon(&o->fio);
	free(o->json_name);
	free(o->csv_name);
	o->json_name = o->csv_name = NULL;
}

/* -------------------------------------------------------------------- writing */

static int write_table(struct kv_outputs *o, const struct kv_report *rep, const json_t *json)
{
	struct penstock_err err = {0, ""};
	int e, r;

	if (!o->csv) {
		e = kv_report_xlsx(o->table.f, rep, json, &err);
		if (e != -ENOTSUP)
			return cli_file_finish(&o->table, o->cmd, e, e < 0 ? err.msg : NULL);
		r = cli_file_instead(&o->table, o->cmd, o->csv_name, err.msg);
		if (r != CLI_OK)
			return r;
	}
	return cli_file_finish(&o->table, o->cmd, kv_report_csv(o->table.f, rep, json), NULL);
}

static int write_fio(struct kv_outputs *o, const struct kv_report *rep)
{
	int e = kv_report_fio(o->fio.f, rep);

	return cli_file_finish(&o->fio, o->cmd, e,
			       e == -ENODATA ? "nothing was read from storage or written to it"
					     : NULL);
}

static int worse(int a, int b)
{
	return a != CLI_OK ? a : b;
}

int kv_outputs_finish(struct kv_outputs *o, const struct kv_report *rep, const struct result *r)
{
	json_t *json = kv_report_json(rep);
	int status = CLI_OK;

	if (!json)
		return cli_fail(o->cmd, CLI_FAILED, "out of memory");
	if (o->text)
		kv_report_text(stdout, rep, json);
	json_object_set_new(json, "penstock", result_json(r));
	if (o->json.f)
		status = cli_file_finish(&o->json, o->cmd, cli_json_dump(o->json.f, json, 4), NULL);
	if (o->table.f && rep->res->requests)
		status = worse(status, write_table(o, rep, json));
	if (o->fio.f)
		status = worse(status, write_fio(o, rep));
	status = worse(status, cli_outputs_finish(&o->common, r));
	if (o->text && status == CLI_OK)
		printf("\nResult: %s\n", o->json_name);
	json_decref(json);
	kv_outputs_abandon(o);
	return status;
}
