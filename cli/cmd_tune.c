/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock tune: the best settings for this storage.  Speaks the options and the
 * summary lines of ds_nvme_tune; load/jobs/tune.h has the job.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <penstock/penstock.h>
#include <penstock/s3.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/opt/opt_json.h"
#include "cli/opt/opt_space.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/jobs/tune.h"
#include "load/report/jobs/sweep_report.h"
#include "load/report/jobs/tune_report.h"
#include "load/report/result/result.h"

#define FOLDERS_MAX 64
#define LOOPS       5 /* of an exhaustive search, unless given */
#define BUDGET      60
#define MAX_WRITE   (8ull << 30)

struct tune_command {
	struct tune_job job;
	struct cli_list folders;
	const char *sweep_config, *output, *log_dir;
	struct cli_gpu gpu;
	bool goal_given, verbose, dry_run, flush_page_cache;
	struct cli_result_args files;
	/* what the run needs */
	struct config_space space;
	struct cli_space_job more; /* of --sweep-config; options win */
	struct cli_outputs out;
	struct cli_file config;
	struct cli_progress progress;
	unsigned left;
	bool raced;  /* a line of the race is on the terminal */
	bool failed; /* and was not interrupted */
	struct tune_result res;
};

static const struct cli_opt tune_opts_table[] = {
	CLI_GROUP("Where"),
	CLI_S3S(struct tune_command, folders, 'f', "folder", "FOLDER", NULL, 1, FOLDERS_MAX,
		"where to measure, all at once: in a new folder in each, removed at the end; "
		"default: the current one"),
	CLI_ALIAS_OF("ds_nvme_tune", "nvme_dir"),
	CLI_GROUP("What for"),
	CLI_WORD(struct tune_command, job.goal, 'g', "goal", tune_goal_words, "both",
		 "what is to be best: the sum of both speeds, one of them, p99 latency, or "
		 "CPU time per byte",
		 .given_at = CLI_AT(struct tune_command, goal_given, bool)),
	CLI_SIZE(struct tune_command, job.floor, 0, "floor", "BYTES", NULL, 1, 1ull << 60,
		 "bytes per second, both directions added, that settings must reach with latency "
		 "and "
		 "CPU; default: half, or nine tenths, of what the default settings do"),
	CLI_NOT(struct tune_command, job.write, 'r', "read-only", "only reads: no wear"),
	CLI_ALIAS_OF("ds_nvme_tune", "no_write"),
	CLI_NOT(struct tune_command, job.read, 'w', "write-only", "only writes"),
	CLI_ALIAS_OF("ds_nvme_tune", "no_read"),
	CLI_GROUP("How long"),
	CLI_DBL(struct tune_command, job.budget_sec, 0, "budget", "SECONDS", NULL, 1, 1000000,
		"for all of it; it ends earlier when the winner is clear; default: 60"),
	CLI_SIZE(struct tune_command, job.max_write, 0, "max-write", "BYTES", NULL, 1, 1ull << 60,
		 "wear: the race ends when so much was written; default: 8G"),
	CLI_FLAG(struct tune_command, job.exhaustive, 0, "exhaustive",
		 "measure all configurations, however long that takes; not with --budget"),
	CLI_U32(struct tune_command, job.loops, 'n', "iterations", "N", NULL, 1, 1000000,
		"of each, with --exhaustive; default: 5"),
	CLI_ALIAS_OF("ds_nvme_tune", "loops"),
	CLI_GROUP("What"),
	CLI_IN(struct tune_command, sweep_config, 0, "sweep-config", "FILE", NULL,
	       "the settings to choose from, as JSON; default: those of ds_nvme_tune"),
	CLI_SIZE(struct tune_command, job.io_size, 's', "size", "BYTES", NULL, 1, 1ull << 40,
		 "bytes per operation; default: up to 400M, as the budget allows"),
	CLI_ALIAS_OF("ds_nvme_tune", "io_size"),
	CLI_ENGINE(struct tune_command, job.opts.engine),
	CLI_DIRECT(struct tune_command, job.opts.direct),
	CLI_MEMORY(struct tune_command, job.memory, gpu),
	CLI_U64(struct tune_command, job.seed, 0, "seed", "N", "1", 0, INT64_MAX,
		"of the order and the data"),
	CLI_LIMIT(struct tune_command, job.limit, job.measure_limit),
	CLI_GROUP("For scripts written for ds_nvme_tune"),
	CLI_FLAG(struct tune_command, flush_page_cache, 0, "flush-page-cache",
		 "ignored: files are pushed out of the page cache before every read, without root",
		 .quiet = true),
	CLI_PLACE(struct tune_command, log_dir, 0, "log-dir", "FOLDER", NULL,
		  "ignored: `penstock sweep' writes logs", .quiet = true),
	CLI_FLAG(struct tune_command, verbose, 'v', "verbose",
		 "say on standard error what each round leaves", .quiet = true),
	CLI_GROUP("Output"),
	CLI_DRY_RUN(struct tune_command, dry_run, .quiet = true),
	CLI_OUT(struct tune_command, output, 'o', "output", "FILE", NULL,
		"write the winner's settings, which DeepSpeed and `penstock io --config' read"),
	CLI_TABLE(struct tune_command, files, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* ------------------------------------------------------------- from options */

/* What one option asks for and another one rules out. */
static int check_contradictions(const struct tune_command *c)
{
	const struct tune_job *job = &c->job;
	bool both = job->goal == TUNE_BOTH && c->goal_given;
	bool no_read = !job->read && (job->goal == TUNE_READ || both);
	bool no_write = !job->write && (job->goal == TUNE_WRITE || both);
	const struct cli_pair pairs[] = {
		{!job->read && !job->write, "--read-only and --write-only"},
		{job->exhaustive && job->budget_sec > 0, "--exhaustive and --budget"},
		{job->exhaustive && job->max_write, "--exhaustive and --max-write"},
		{job->limit && !job->measure_limit, "--limit and --no-limit"},
	};

	if (no_read || no_write)
		return cli_usage(&cmd_tune, "--goal %s and --%s-only exclude each other",
				 tune_goal_words[job->goal], no_read ? "write" : "read");
	return cli_exclude(&cmd_tune, pairs, ARRAY_SIZE(pairs));
}

static int tune_check_options(const struct tune_command *c)
{
	int r = check_contradictions(c);

	for (size_t i = 0; i < c->folders.nr && r == CLI_OK; i++)
		if (penstock_s3_is_uri(c->folders.items[i], NULL) > 0)
			r = cli_usage(
				&cmd_tune,
				"%s: what is tuned here are settings of files, which DeepSpeed "
				"takes; of an object store there are requests in flight and "
				"bytes of each, for `penstock bench --target s3://... "
				"--connections N "
				"--part BYTES' to compare",
				c->folders.items[i]);
	if (r != CLI_OK)
		return r;
	if (c->job.floor && c->job.goal != TUNE_LATENCY && c->job.goal != TUNE_CPU)
		return cli_usage(&cmd_tune, "--floor goes with --goal latency or cpu only");
	if (c->flush_page_cache)
		cli_note(&cmd_tune, "--flush-page-cache is not needed");
	if (c->log_dir)
		cli_note(&cmd_tune, "--log-dir is ignored; `penstock sweep' writes logs");
	return CLI_OK;
}

/* The best of both speeds, where nobody named a goal, is that of the one that is measured. */
static enum tune_goal goal_of(const struct tune_job *job)
{
	if (job->goal != TUNE_BOTH)
		return job->goal;
	return !job->write ? TUNE_READ : !job->read ? TUNE_WRITE : TUNE_BOTH;
}

/* What options leave open: the file says it, or a default. */
static void tune_set_job(struct tune_command *c)
{
	static const char *here[] = {"."};
	const struct cli_space_job *more = &c->more;
	struct tune_job *job = &c->job;

	job->folders = c->folders.nr ? c->folders.items : here;
	job->nr_folders = c->folders.nr ? (unsigned)c->folders.nr : 1;
	job->space = &c->space;
	job->goal = goal_of(job);
	job->read &= job->goal != TUNE_WRITE;
	job->write &= job->goal != TUNE_READ;
	job->io_size = job->io_size ? job->io_size : more->io_size;
	job->budget_sec = job->budget_sec > 0 ? job->budget_sec : BUDGET;
	job->max_write = job->max_write ? job->max_write : MAX_WRITE;
	job->loops = job->loops ? job->loops : more->loops ? (uint32_t)more->loops : LOOPS;
	job->memory = more->gpu && !c->gpu.memory_given ? BED_GPU : job->memory;
}

static int build_space(struct tune_command *c)
{
	struct penstock_err err;
	int r = CLI_OK;

	if (c->sweep_config)
		r = cli_space_read(&c->space, &c->more, &cmd_tune, c->sweep_config);
	else if (config_space_nvme_tune(&c->space, &err) < 0)
		r = cli_fail(&cmd_tune, CLI_FAILED, "%s", err.msg);
	if (r == CLI_OK)
		r = cli_space_check(&c->space, &c->more, c->gpu.gpu,
				    c->gpu.gds           ? "--gds"
				    : c->job.opts.engine ? "--engine"
							 : NULL,
				    &cmd_tune);
	if (r == CLI_OK && c->more.gds && !c->job.opts.engine)
		c->job.opts.engine = "cufile";
	return r;
}

static int tune_build(struct tune_command *c)
{
	bool loops = c->job.loops;
	struct penstock_err err = {0, ""};
	int r = cli_gpu_set(&c->gpu, &c->job.memory, &c->job.opts, &cmd_tune);

	if (r == CLI_OK)
		r = tune_check_options(c);
	if (r == CLI_OK)
		r = build_space(c);
	if (r == CLI_OK)
		r = cli_engine(&c->job.opts.engine, c->job.opts.engine, &cmd_tune);
	if (r != CLI_OK)
		return r;
	c->job.opts.size = sizeof(c->job.opts);
	tune_set_job(c);
	r = tune_check(&c->job, &err);
	if (r < 0)
		return cli_refuse(&cmd_tune, r, err.msg);
	if ((loops || c->more.loops) && !c->job.exhaustive)
		cli_note(&cmd_tune, "%s: ignored without --exhaustive: the race decides",
			 loops ? "--iterations" : "--sweep-config: loops");
	return CLI_OK;
}

/* ---------------------------------------------------------------- meanwhile */

/* The bar is made for bytes; a race goes by time. */
static void show_race(struct tune_command *c, uint64_t done, uint64_t total)
{
	cli_progress_end(&c->progress);
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[KRace: ");
	if (c->left)
		fprintf(stderr, "%u configuration%s left, ", c->left, c->left == 1 ? "" : "s");
	if (total)
		fprintf(stderr, "%.0f s left", (double)(total > done ? total - done : 0) / 1e3);
	else
		fprintf(stderr, "%.0f s", (double)done / 1e3);
	c->raced = true;
}

static void tune_progress(void *arg, enum tune_step step, uint64_t done, uint64_t total,
			  unsigned left)
{
	struct tune_command *c = arg;

	if (c->verbose && step == TUNE_RACE && left != c->left && left) {
		cli_progress_end(&c->progress);
		fprintf(stderr, "penstock tune: %.1f s: %u configuration%s in the race\n",
			(double)done / 1e3, left, left == 1 ? "" : "s");
	}
	c->left = left;
	if (step == TUNE_RACE)
		return show_race(c, done, total);
	cli_progress_show(&c->progress, step, "Prepare:", done, total);
}

/* ------------------------------------------------------------------ results */

static int write_result(struct tune_command *c, struct result *r, const struct tune_result *res)
{
	struct result_target *targets = calloc(c->job.nr_folders, sizeof(*targets));
	struct run_series *series = tune_series(&c->job, res, &r->nr_series);
	int status;

	if (!targets || !series) {
		free(targets);
		free(series);
		return cli_fail(&cmd_tune, CLI_FAILED, "out of memory");
	}
	for (unsigned i = 0; i < c->job.nr_folders; i++)
		targets[i] = (struct result_target){c->job.folders[i], res->info[i]};
	r->targets = targets;
	r->nr_targets = c->job.nr_folders;
	r->settings = cli_settings(&cmd_tune, c);
	report_space_settings(r->settings, "folder", c->job.folders, c->job.nr_folders, &c->space);
	r->series = series;
	r->bytes_written = res->bytes_written;
	r->tune = res->race.probes ? tune_json(&c->job, res) : NULL;
	result_finish(r);
	status = cli_outputs_finish(&c->out, r);
	free(targets);
	free(series);
	return status;
}

/* @failed: a measurement did, so no settings are recommended. */
static int tune_write_result(void *args, struct result *r)
{
	struct tune_command *c = args;
	const struct tune_result *res = &c->res;
	int status = CLI_OK;

	if (!res->race.probes) /* what was asked for, where, and the wear */
		return write_result(c, r, res);
	if (c->out.text)
		tune_report_text(stdout, &c->job, res);
	if (c->config.f && !c->failed)
		status = cli_json_write(&c->config, &cmd_tune, tune_config_json(&c->job, res));
	if (status == CLI_OK)
		status = write_result(c, r, res);
	return status;
}

static void began(void *arg)
{
	struct tune_command *c = arg;

	if (c->out.text) {
		tune_report_start(stdout, &c->job);
		fflush(stdout);
	}
}

static int tune_do(void *args, struct cli_outcome *outcome, struct penstock_err *err)
{
	struct tune_command *c = args;
	int r;

	c->out.text = c->out.text && !cli_is_stdout(c->output);
	c->job.progress = c->verbose || isatty(STDERR_FILENO) ? tune_progress : NULL;
	c->job.progress_arg = c;
	c->job.began = began;
	r = tune_run(&c->job, &c->res, err);
	if (c->raced)
		fprintf(stderr, "\r\033[K");
	if (*c->job.stop && (r == 0 || r == -ECANCELED))
		r = penstock_fail(err, -ECANCELED, "interrupted");
	c->failed = r < 0 && r != -ECANCELED;
	outcome->has_result = c->res.race.probes || (*c->job.stop && c->res.info);
	outcome->refused = !c->res.began;
	return r;
}

static int tune_main(void *args, int argc, char **argv)
{
	struct tune_command *c = args;
	int r;

	(void)argc;
	(void)argv;
	c->job.stop = cli_stop_catch();
	r = tune_build(c);
	if (r == CLI_OK && c->dry_run) {
		tune_report_plan(stdout, &c->job);
	} else if (r == CLI_OK) {
		r = cli_file_open(&c->config, &cmd_tune, "--output", c->output);
		if (r == CLI_OK)
			r = cli_measure(&(struct cli_measure){&cmd_tune, &c->out, &c->files,
							      &c->progress, c->job.stop, tune_do,
							      tune_write_result},
					c);
		cli_file_abandon(&c->config);
	}
	tune_fini(&c->res);
	config_space_fini(&c->space);
	return r;
}

const struct cli_cmd cmd_tune = {
	.name = "tune",
	.summary = "find the best settings for this storage, quickly",
	.opts = tune_opts_table,
	.args_size = sizeof(struct tune_command),
	.run = tune_main,
};
