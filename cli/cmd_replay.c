/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock replay: any trace against any storage.  load/replay/replay.h has the job, load/report
 * the output.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/hosts.h"
#include "cli/progress.h"
#include "cli/replay_args.h"
#include "load/report/jobs/replay_report.h"
#include "load/report/result/result.h"

struct replay_command {
	struct replay_setup *setup;
	struct replay_scan scan;
	struct replay_report report;
	struct cli_outputs out;
	struct cli_file fio;
	struct cli_progress progress;
	const char *step;
	const atomic_int *stop;
};

static void replay_progress(void *arg, const char *step, uint64_t rows, uint64_t total,
			    uint64_t bytes)
{
	struct replay_command *c = arg;

	if (!c->progress.on)
		cli_progress_start(&c->progress, step, 0);
	else if (c->step != step)
		cli_progress_label(&c->progress, step, 0);
	c->step = step;
	if (total)
		snprintf(c->progress.label, sizeof(c->progress.label), "%s %.0f %% of the rows,",
			 step, 100.0 * (double)rows / (double)total);
	else
		snprintf(c->progress.label, sizeof(c->progress.label), "%s %" PRIu64 " rows,", step,
			 rows);
	cli_progress_update(&c->progress, bytes);
}

/* What an error before anything was done means. */
static int replay_status(const struct replay_command *c, int r)
{
	switch (r) {
	case -ECANCELED:
	case -ENOSPC:
	case -ENOMEM:
	case -EBUSY:
	case -EIO:
		return CLI_FAILED;
	case -ENOTSUP:
	case -ENODEV:
		return CLI_UNSUPPORTED;
	case -EACCES: /* what a store or its keys refuse is no fault of the command line */
		for (unsigned i = 0; i < REPLAY_TIERS; i++) {
			const struct replay_target *t = &c->setup->job.tiers[i];

			if (t->used && t->kind == PLACE_BUCKET)
				return CLI_FAILED;
		}
	}
	return CLI_USAGE;
}

/* ------------------------------------------------------------------------ results */

static int write_fio(struct replay_command *c)
{
	int r;

	if (!c->fio.name)
		return CLI_OK;
	r = replay_report_fio(c->fio.f, &c->report);
	return cli_file_finish(&c->fio, &cmd_replay, r, r == -ENODATA ? "nothing is moved" : NULL);
}

static int replay_write_result(struct replay_command *c, struct result *r)
{
	struct result_target targets[REPLAY_PLACES];

	r->settings = cli_settings(&cmd_replay, c->setup);
	replay_report_result(&c->report, r, targets);
	result_finish(r);
	if (c->out.text)
		replay_report_text(stdout, &c->report);
	return cli_outputs_finish(&c->out, r);
}

/* What makes a run that came to its end a failure. */
static int replay_judge(const struct replay_result *res)
{
	const uint64_t *n = res->errors;

	if (res->verify_errors)
		return cli_fail(&cmd_replay, CLI_FAILED,
				"--verify: %" PRIu64 " reads were wrong: %s", res->verify_errors,
				res->first_error);
	if (n[TRACE_READ] + n[TRACE_WRITE] + n[TRACE_DELETE])
		return cli_fail(&cmd_replay, CLI_FAILED,
				"%" PRIu64 " reads, %" PRIu64 " writes and %" PRIu64
				" deletions failed: %s",
				n[TRACE_READ], n[TRACE_WRITE], n[TRACE_DELETE], res->first_error);
	return CLI_OK;
}

static int run_and_report(struct replay_command *c, struct replay_result *res)
{
	struct penstock_err err = {0, ""};
	struct result r;
	int status = CLI_OK, rc;

	result_init(&r, "replay");
	c->report.res = res;
	rc = replay_run(&c->setup->job, c->report.scan, res, &err);
	cli_progress_end(&c->progress);
	if (rc < 0 && !res->started && !res->absent && !*c->stop) {
		result_fini(&r);
		return cli_blame(&cmd_replay, replay_status(c, rc), err.msg);
	}
	cli_trace_report_bad(&res->bad, &cmd_replay);
	status = replay_write_result(c, &r);
	if (status == CLI_OK)
		status = write_fio(c);
	if (*c->stop)
		status = cli_fail(&cmd_replay, 128 + *c->stop,
				  "interrupted; the result is partial%s",
				  c->setup->job.keep ? "" : ", objects were removed");
	else if (rc < 0)
		status = cli_blame(&cmd_replay, CLI_FAILED, err.msg);
	if (status == CLI_OK)
		status = replay_judge(res);
	result_fini(&r);
	return status;
}

/* --------------------------------------------------------------------------- main */

static int replay_scan_trace(struct replay_command *c)
{
	struct penstock_err err = {0, ""};
	int r = 0;

	if (c->setup->once) {
		if (!c->setup->no_check)
			cli_fail(&cmd_replay, 0,
				 "what comes through a pipe is read once: free space is not "
				 "checked");
	} else {
		r = replay_scan(&c->setup->job, &c->scan, &err);
		c->report.scan = &c->scan;
	}
	if (r == 0)
		r = replay_check(&c->setup->job, c->report.scan, &err);
	cli_progress_end(&c->progress);
	if (r == -ECANCELED && *c->stop)
		return cli_fail(&cmd_replay, 128 + *c->stop, "interrupted; nothing was done");
	if (r == -ENOSPC && c->setup->dry_run) { /* what is missing is easier to see beside it */
		replay_report_plan(stdout, &c->report);
		fflush(stdout);
	}
	return r < 0 ? cli_blame(&cmd_replay, replay_status(c, r), err.msg) : CLI_OK;
}

static int do_job(struct replay_command *c)
{
	struct replay_result res = {.rows = 0};
	int r;

	c->setup->job.stop = c->stop;
	c->setup->job.progress = isatty(STDERR_FILENO) ? replay_progress : NULL;
	c->setup->job.progress_arg = c;
	c->report.job = &c->setup->job;
	if (c->setup->dry_run && cli_hosts_rank()) /* what all would do says one */
		return CLI_OK;
	r = replay_scan_trace(c);
	if (r == CLI_OK)
		r = cli_file_open(&c->fio, &cmd_replay, "--export-fio", c->setup->export_fio);
	if (r == CLI_OK && c->setup->dry_run) {
		replay_report_plan(stdout, &c->report);
		cli_trace_report_bad(&c->scan.bad, &cmd_replay);
		r = write_fio(c);
	} else if (r == CLI_OK) {
		r = cli_outputs_open(&c->out, &cmd_replay, &c->setup->files);
		if (r == CLI_OK)
			r = run_and_report(c, &res);
		cli_outputs_abandon(&c->out);
	}
	cli_file_abandon(&c->fio);
	replay_result_fini(&res);
	replay_scan_fini(&c->scan);
	return r;
}

static int replay_main(void *args, int argc, char **argv)
{
	struct replay_command c = {.setup = args};
	int r;

	if (argc != 1)
		return cli_usage(&cmd_replay, "one trace is needed, not %d", argc);
	c.stop = cli_stop_catch();
	r = replay_setup(c.setup, argv[0]);
	if (r == CLI_OK)
		r = do_job(&c);
	replay_setup_fini(c.setup);
	return r;
}

const struct cli_cmd cmd_replay = {
	.name = "replay",
	.summary = "any trace against any storage",
	.usage = "TRACE",
	.operands = "r",
	.opts = replay_opts,
	.args_size = sizeof(struct replay_setup),
	.run = replay_main,
};
