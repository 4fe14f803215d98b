/* SPDX-License-Identifier: Apache-2.0 */
/* penstock trace stat: what is in a trace; see load/trace/summary.h. */
#include <errno.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/cli_trace.h"
#include "cli/opt/opt_file.h"
#include "cli/opt/opt_json.h"
#include "load/report/jobs/trace_report.h"

struct stat_args {
	struct cli_trace_in in;
	struct cli_requests requests;
	uint64_t seed;
	uint32_t tier;
	struct cli_output out;
};

static const char *const tier_words[] = {"all", "0", "1", "2", "none", NULL};

static const struct cli_opt stat_opts[] = {
	CLI_TABLE(struct stat_args, in, struct cli_trace_in, cli_trace_in_opts),
	CLI_GROUP("What"),
	CLI_ENUM(struct stat_args, tier, 0, "only-tier", tier_words, "all",
		 "rows of this tier only; what is moved into it then counts as used"),
	CLI_TABLE(struct stat_args, requests, struct cli_requests, cli_requests_opts),
	CLI_U64(struct stat_args, seed, 0, "seed", "N", "1", 0, INT64_MAX, "of the model"),
	CLI_GROUP("Output"),
	CLI_TABLE(struct stat_args, out, struct cli_output, cli_output_opts),
	CLI_END,
};

static int stat_show(struct cli_file *json, const struct trace_summary *s, const char *name)
{
	cli_trace_report_bad(&s->bad, &cmd_trace_stat);
	if (!cli_is_stdout(json->name))
		report_trace_text(stdout, s, name);
	return json->name ? cli_json_write(json, &cmd_trace_stat, report_trace_json(s, name))
			  : CLI_OK;
}

static int summarize(const struct stat_args *a, const char *name, struct cli_file *json)
{
	struct trace_summary_opts o = {.tiers = a->tier ? 1u << (a->tier - 1) : 0,
				       .stop = cli_stop_catch()};
	struct penstock_err err = {0, ""};
	struct trace_summary *s;
	int r = trace_summary_make(&s, name, &a->in.opts, &o, &err);

	if (r < 0)
		return cli_fail(&cmd_trace_stat,
				r == -ENOMEM || r == -EINTR ? CLI_FAILED : CLI_USAGE, "%s",
				err.msg);
	r = stat_show(json, s, name);
	free(s);
	return r;
}

static int read_in(struct stat_args *a, const char *name, struct cli_file *json)
{
	int r = cli_trace_in(&a->in, &cmd_trace_stat);

	if (r == CLI_OK)
		r = cli_requests(&a->requests, &a->in.opts, a->in.model, a->seed, name,
				 &cmd_trace_stat);
	if (r == CLI_OK)
		r = summarize(a, name, json);
	cli_requests_fini(&a->requests);
	return r;
}

static int stat_run(void *args, int argc, char **argv)
{
	struct stat_args *a = args;
	struct cli_file json = {0};
	int r;

	if (argc != 1)
		return cli_usage(&cmd_trace_stat, "one trace is needed, not %d", argc);
	r = cli_file_open(&json, &cmd_trace_stat, "--json", a->out.json);
	if (r == CLI_OK)
		r = read_in(a, argv[0], &json);
	cli_file_abandon(&json);
	return r;
}

const struct cli_cmd cmd_trace_stat = {
	.name = "trace stat",
	.summary = "what is in a trace: counts, sizes, reuse, working set",
	.usage = "IN",
	.operands = "r",
	.opts = stat_opts,
	.args_size = sizeof(struct stat_args),
	.run = stat_run,
};
