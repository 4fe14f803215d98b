/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock kv: the KV-cache workload of MLPerf Storage, in the place of kv-cache.py.
 * load/model decides what is done, load/kv/kv.h does it, load/report tells.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_trace.h"
#include "cli/hosts.h"
#include "cli/kv/kv_args.h"
#include "cli/progress.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/result.h"

struct kv_command {
	struct kv_args *args;
	struct kv_outputs out;
	struct kv_report report;
	struct cli_progress progress;
	const atomic_int *stop;
};

/* ----------------------------------------------------------------- meanwhile */

static void kv_progress(void *arg, double at_sec, uint64_t requests, uint64_t bytes)
{
	struct kv_command *c = arg;

	if (!c->progress.on)
		cli_progress_start(&c->progress, "", 0);
	snprintf(c->progress.label, sizeof(c->progress.label),
		 "%.0f of %.0f s, %" PRIu64 " requests:", at_sec,
		 (double)c->args->params.duration_ns / 1e9, requests);
	cli_progress_update(&c->progress, bytes);
}

static void say_warnings(struct kv_command *c)
{
	if (c->args->log_level <= KV_LOG_WARNING)
		cli_problems_say(&c->args->warnings, &cmd_kv, "warning: ");
}

/* ------------------------------------------------------------------ results */

/* The folder the bytes went to; of a trace, that of its file. */
static void find_target(struct result_target *t, const struct kv_command *c, char folder[4096])
{
	const char *trace = c->args->job.trace_path, *slash = trace ? strrchr(trace, '/') : NULL;

	*t = (struct result_target){.folder = c->report.res->folder, .info = c->report.res->path};
	if (!trace)
		return;
	snprintf(folder, 4096, "%.*s", slash ? (int)(slash - trace + (slash == trace)) : 1,
		 slash ? trace : ".");
	t->folder = folder;
	t->info.size = sizeof(t->info);
	penstock_probe_path(folder, &t->info, NULL);
}

static int kv_validate(struct kv_command *c)
{
	const struct kv_counts *n = &c->report.res->counts;
	uint64_t asked = n->hits + n->misses;
	struct penstock_err err = {0, ""};

	if (!c->args->validation)
		return CLI_OK;
	if (kv_validation(&c->report.validation, c->args->validation,
			  asked ? (double)n->hits / (double)asked : 0, &err) < 0)
		return cli_fail(&cmd_kv, CLI_FAILED, "--validation-trace: %s", err.msg);
	return CLI_OK;
}

static int kv_write_result(struct kv_command *c, struct result *r)
{
	struct result_target target;
	char folder[4096];
	int status = kv_validate(c), written;

	find_target(&target, c, folder);
	kv_report_result(&c->report, r, &target);
	result_finish(r);
	written = kv_outputs_finish(&c->out, &c->report, r);
	return status != CLI_OK ? status : written;
}

/* What makes a run that came to its end a failure. */
static int kv_judge(const struct kv_command *c)
{
	const struct kv_result *res = c->report.res;
	char failures[120];

	if (res->verify_errors)
		return cli_fail(&cmd_kv, CLI_FAILED,
				"--verify: %" PRIu64 " objects were not what was "
				"written: %s",
				res->verify_errors, res->first_error);
	if (c->args->params.policy.ignores_failures)
		return CLI_OK;
	if (kv_report_failures(failures, sizeof(failures), res))
		return cli_fail(&cmd_kv, CLI_FAILED, "%s: %s", failures, res->first_error);
	if (!res->requests && c->args->log_level <= KV_LOG_WARNING)
		cli_fail(&cmd_kv, CLI_OK, "warning: no request was completed");
	return CLI_OK;
}

static int kv_start(struct kv_command *c, struct kv_result *res, struct penstock_err *err)
{
	struct kv_job *job = &c->args->job;

	job->stop = c->stop;
	job->progress = isatty(STDERR_FILENO) ? kv_progress : NULL;
	job->progress_arg = c;
	return job->trace_path ? kv_run_trace(job, res, err) : kv_run_storage(job, res, err);
}

/* Nothing of it is a usage error: those are found before. */
static int kv_refuse(int r, const char *why)
{
	return cli_blame(&cmd_kv, r == -ENOTSUP || r == -ENODEV ? CLI_UNSUPPORTED : CLI_FAILED,
			 why);
}

/* Recorded requests that were not used. */
static void report_input(const struct kv_command *c, const struct kv_result *res)
{
	uint32_t level = c->args->log_level;

	if (res->input_empty && level <= KV_LOG_WARNING)
		cli_fail(&cmd_kv, CLI_OK,
			 "warning: --burst-trace-path: '%s' has no row that can be used, so there "
			 "was no request",
			 c->args->burst_path);
	else if (level <= KV_LOG_INFO)
		cli_trace_report_bad(&res->input_bad, &cmd_kv);
}

static int run_and_report(struct kv_command *c, struct kv_result *res)
{
	struct penstock_err err = {0, ""};
	struct result r;
	int status = CLI_OK, rc;

	result_init(&r, "kv");
	r.settings = cli_settings(&cmd_kv, c->args);
	c->report.started = r.started;
	rc = kv_start(c, res, &err);
	cli_progress_end(&c->progress);
	/* What failed before anything was done has no result. */
	if (rc < 0 && !res->partial && !res->requests)
		status = kv_refuse(rc, err.msg);
	else
		status = kv_write_result(c, &r);
	if (rc < 0 && status == CLI_OK)
		status = cli_blame(&cmd_kv, CLI_FAILED, err.msg);
	report_input(c, res);
	if (status == CLI_OK && *c->stop)
		status = cli_fail(&cmd_kv, 128 + *c->stop, "interrupted; the result is partial");
	if (status == CLI_OK)
		status = kv_judge(c);
	result_fini(&r);
	return status;
}

/* ---------------------------------------------------------------------- main */

static int check_job(const struct kv_command *c)
{
	const struct kv_job *job = &c->args->job;
	struct penstock_err err = {0, ""};
	int r = job->trace_path ? 0 : kv_check(job, &err);

	if (c->args->dry_run && (r == -ENOMEM || r == -ENOSPC)) {
		if (c->args->log_level <= KV_LOG_WARNING)
			cli_fail(&cmd_kv, CLI_OK, "warning: a run would be refused: %s", err.msg);
		return CLI_OK;
	}
	return r < 0 ? kv_refuse(r, err.msg) : CLI_OK;
}

/* What upstream takes for the limit where none is given; 0 where nothing can be found out. */
static double free_gb(const char *folder)
{
	struct penstock_path_info info = {.size = sizeof(info)};
	CLEANUP_FREE char *path = strdup(folder ? folder : "/tmp");

	for (char *slash; path && penstock_probe_path(path, &info, NULL) < 0; *slash = 0) {
		slash = strrchr(path, '/');
		if (!slash || slash == path)
			return 0;
	}
	return 0.95 * (double)info.free_bytes / (double)(1u << 30);
}

/* The same requests on the virtual clock, into a trace nobody reads: what they would do. */
static int dry_run(struct kv_command *c, struct kv_result *res)
{
	struct kv_params params = c->args->params;
	struct kv_job job = c->args->job;
	struct penstock_err err = {0, ""};

	if (!job.trace_path && params.storage_gb <= 0)
		params.storage_gb = free_gb(job.cache_dir);
	job.params = &params;
	job.trace_path = "/dev/null";
	job.clock = KV_CLOCK_VIRTUAL;
	job.stop = c->stop;
	if (cli_hosts_rank()) /* what all would do says one */
		return CLI_OK;
	if (kv_run_trace(&job, res, &err) < 0)
		return cli_fail(&cmd_kv, CLI_FAILED, "%s", err.msg);
	kv_report_banner(stdout, &c->report);
	kv_report_plan(stdout, &c->report);
	return CLI_OK;
}

static int do_job(struct kv_command *c)
{
	struct kv_result res;
	int r = check_job(c);

	if (r != CLI_OK)
		return r;
	if (kv_result_init(&res) < 0)
		return cli_fail(&cmd_kv, CLI_FAILED, "out of memory");
	c->report = (struct kv_report){.job = &c->args->job,
				       .res = &res,
				       .profile = (int)c->args->profile,
				       .dataset_path = c->args->dataset};
	if (c->args->dry_run) {
		r = dry_run(c, &res);
	} else {
		r = kv_outputs_open(&c->out, &cmd_kv, c->args);
		if (r == CLI_OK && c->out.text) {
			kv_report_banner(stdout, &c->report);
			fflush(stdout);
		}
		if (r == CLI_OK)
			r = run_and_report(c, &res);
		kv_outputs_abandon(&c->out);
	}
	json_decref(c->report.validation);
	kv_result_fini(&res);
	return r;
}

static int kv_main(void *args, int argc, char **argv)
{
	struct kv_command c = {.args = args};
	int r;

	(void)argc;
	(void)argv;
	c.stop = cli_stop_catch();
	r = kv_setup(args, &cmd_kv);
	if (r == CLI_OK) {
		say_warnings(&c);
		cli_problems_say(&c.args->problems, &cmd_kv, "");
		r = c.args->problems.nr ? CLI_FAILED : CLI_OK;
	}
	if (r == CLI_OK && !c.args->params.model)
		kv_list_models(&c.args->params.config.models);
	else if (r == CLI_OK)
		r = do_job(&c);
	kv_setup_fini(args);
	return r;
}

static const struct cli_cmd cmd_kv_mlperf = {
	.name = "kv mlperf",
	.summary = "what an MLPerf submission runs, and its summary",
	.usage = "[KV_OPTION...]",
	.notes = "Part of the Python package: python3 -m penstock kv mlperf --help\n",
	.opts = cli_no_opts,
	.elsewhere = "python3 -m penstock kv mlperf ...",
};

static const struct cli_cmd *const kv_subs[] = {&cmd_kv_mlperf, NULL};

const struct cli_cmd cmd_kv = {
	.name = "kv",
	.summary = "a language model's KV cache on storage, like kv-cache.py",
	.opts = kv_opts,
	.args_size = sizeof(struct kv_args),
	.problems = offsetof(struct kv_args, problems),
	.abbreviated = kv_upstream_opts,
	.subs = kv_subs,
	.run = kv_main,
};
