/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice tune: the best settings for this storage.  Speaks the options and the
 * summary lines of ds_nvme_tune; load/run/tune.h has the job.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/opt/how.h"
#include "cli/opt/json.h"
#include "cli/opt/space.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/stop.h"
#include "load/jobs/io.h"
#include "load/jobs/tune.h"
#include "load/report/jobs/tune_report.h"
#include "load/report/result/result.h"

#define FOLDERS_MAX 64
#define LOOPS       5 /* of an exhaustive search, unless given */
#define BUDGET      60
#define MAX_WRITE   (50ull << 30)

struct tune_args {
	struct cli_list folders;
	const char *sweep_config, *engine, *output, *log_dir;
	uint64_t io_size, floor, limit, seed, max_write;
	uint32_t goal, budget, loops, direct;
	struct cli_list memory;
	bool goal_told;
	bool no_read, no_write, exhaustive, no_limit, dry_run, verbose;
	bool gpu, gds, flush_page_cache;
	struct cli_result_args out;
};

static const struct cli_opt tune_opts_table[] = {
	CLI_GROUP("Where"),
	CLI_PLACES(struct tune_args, folders, 'f', "nvme_dir", "FOLDER", NULL, 1, FOLDERS_MAX,
		   "where to measure, all at once: in a new folder in each, removed at the end; "
		   "default: the current one"),
	CLI_ALIAS("folder"),
	CLI_GROUP("What for"),
	CLI_ENUM_TOLD(struct tune_args, goal, goal_told, 'g', "goal", tune_goal_words, "both",
		      "what is to be best: the sum of both speeds, one of them, p99 latency, or "
		      "CPU time per byte"),
	CLI_SIZE(struct tune_args, floor, 0, "floor", "BYTES", NULL, 1, 1ull << 60,
		 "bytes per second, both directions added, that settings must reach with latency "
		 "and "
		 "CPU; default: half, or nine tenths, of what the default settings do"),
	CLI_FLAG(struct tune_args, no_read, 0, "no_read", "do not measure reading"),
	CLI_FLAG(struct tune_args, no_write, 0, "no_write", "do not measure writing: no wear"),
	CLI_GROUP("How long"),
	CLI_U32(struct tune_args, budget, 't', "budget", "SECONDS", NULL, 1, 1000000,
		"for all of it; it ends earlier when the winner is clear; default: 60"),
	CLI_SIZE(struct tune_args, max_write, 0, "max_write", "BYTES", NULL, 1, 1ull << 60,
		 "wear: the race ends when so much was written; default: 50G"),
	CLI_FLAG(struct tune_args, exhaustive, 0, "exhaustive",
		 "measure all configurations, however long that takes; not with --budget"),
	CLI_U32(struct tune_args, loops, 0, "loops", "N", NULL, 1, 1000000,
		"so many times each, with --exhaustive; default: 5"),
	CLI_GROUP("What"),
	CLI_IN(struct tune_args, sweep_config, 0, "sweep_config", "FILE", NULL,
	       "the settings to choose from, as JSON; default: those of ds_nvme_tune"),
	CLI_SIZE(struct tune_args, io_size, 's', "io_size", "BYTES", NULL, 1, 1ull << 40,
		 "bytes per operation; default: up to 400M, as the budget allows"),
	CLI_STR(struct tune_args, engine, 'e', "engine", "NAME", NULL,
		"as `sluice info' lists them; default: the first usable"),
	CLI_ENUM(struct tune_args, direct, 0, "direct", io_direct_words, "auto",
		 "use O_DIRECT: where it works, or fail, or not at all"),
	CLI_LIST(struct tune_args, memory, 'm', "memory", "KIND", NULL, 1, 1,
		 "buffers: the library's own (own, the default), plain, plain at an odd address "
		 "(odd), or a GPU's (gpu)"),
	CLI_U64(struct tune_args, seed, 0, "seed", "N", "1", 0, INT64_MAX,
		"of the order and the data"),
	CLI_SIZE(struct tune_args, limit, 0, "limit", "BYTES", NULL, 1, 1ull << 60,
		 "what the device can do per second; default: plain threads find out"),
	CLI_FLAG(struct tune_args, no_limit, 0, "no-limit", "do not find that out"),
	CLI_GROUP("For scripts written for ds_nvme_tune"),
	CLI_FLAG(struct tune_args, gpu, 0, "gpu", "the same as --memory gpu"),
	CLI_FLAG(struct tune_args, gds, 0, "gds", "GPUDirect Storage; needs --gpu"),
	CLI_FLAG(struct tune_args, flush_page_cache, 0, "flush_page_cache",
		 "ignored: files are pushed out of the page cache before every read, without root"),
	CLI_PLACE(struct tune_args, log_dir, 0, "log_dir", "FOLDER", NULL,
		  "ignored: `sluice sweep' writes logs"),
	CLI_FLAG(struct tune_args, verbose, 0, "verbose",
		 "say on standard error what each round leaves"),
	CLI_GROUP("Output"),
	CLI_FLAG(struct tune_args, dry_run, 0, "dry-run",
		 "print what would run, what it would write and how long it would take"),
	CLI_OUT(struct tune_args, output, 'o', "output", "FILE", NULL,
		"write the winner's settings, which DeepSpeed and `sluice io --config' read"),
	CLI_TABLE(struct tune_args, out, struct cli_result_args, cli_result_opts),
	CLI_END,
};

struct tune_command {
	const struct tune_args *args;
	struct tune_job job;
	uint32_t memory; /* of --memory and --gpu */
	struct space space;
	struct cli_space_job more; /* of --sweep_config; options win */
	struct cli_outputs out;
	struct cli_file config;
	struct cli_progress progress;
	int step;
	unsigned left;
	bool raced; /* a line of the race is on the terminal */
};

/* ------------------------------------------------------------- from options */

static int pick_memory(struct tune_command *c)
{
	const struct tune_args *a = c->args;

	c->memory = a->gpu ? BED_GPU : BED_OWN;
	if (!a->memory.nr)
		return CLI_OK;
	if (a->gpu)
		return cli_usage(&cmd_tune, "--gpu and --memory exclude each other");
	for (uint32_t i = 0; bed_memory_words[i]; i++)
		if (!strcmp(bed_memory_words[i], a->memory.items[0])) {
			c->memory = i;
			return CLI_OK;
		}
	return cli_usage(&cmd_tune, "--memory: '%s' is not own, plain, odd or gpu",
			 a->memory.items[0]);
}

/* What one option asks for and another one rules out. */
static int check_contradictions(const struct tune_args *a)
{
	bool needs_read = a->goal == TUNE_READ || (a->goal == TUNE_BOTH && a->goal_told);
	bool needs_write = a->goal == TUNE_WRITE || (a->goal == TUNE_BOTH && a->goal_told);

	if (a->no_read && a->no_write)
		return cli_usage(&cmd_tune, "--no_read and --no_write exclude each other");
	if ((needs_read && a->no_read) || (needs_write && a->no_write))
		return cli_usage(&cmd_tune, "--goal %s and --no_%s exclude each other",
				 tune_goal_words[a->goal], a->no_read ? "read" : "write");
	if (a->exhaustive && (a->budget || a->max_write))
		return cli_usage(&cmd_tune, "--exhaustive and --%s exclude each other",
				 a->budget ? "budget" : "max_write");
	if (a->limit && a->no_limit)
		return cli_usage(&cmd_tune, "--limit and --no-limit exclude each other");
	return CLI_OK;
}

static int check_args(const struct tune_args *a, uint32_t memory)
{
	int r = check_contradictions(a);

	if (r != CLI_OK)
		return r;
	if (a->gds && memory != BED_GPU)
		return cli_usage(&cmd_tune, "--gds goes with --gpu only");
	if (a->gds && a->engine)
		return cli_usage(&cmd_tune, "--gds is the engine cufile: leave out --engine");
	if (a->floor && a->goal != TUNE_LATENCY && a->goal != TUNE_CPU)
		return cli_usage(&cmd_tune, "--floor goes with --goal latency or cpu only");
	if (a->flush_page_cache)
		cli_note(&cmd_tune, "--flush_page_cache is not needed");
	if (a->log_dir)
		cli_note(&cmd_tune, "--log_dir is ignored; `sluice sweep' writes logs");
	return CLI_OK;
}

/* The best of both speeds, where nobody named a goal, is that of the one that is measured. */
static enum tune_goal goal_of(const struct tune_args *a)
{
	if (a->goal != TUNE_BOTH)
		return a->goal;
	return a->no_write ? TUNE_READ : a->no_read ? TUNE_WRITE : TUNE_BOTH;
}

static void set_job(struct tune_command *c)
{
	static const char *here[] = {"."};
	const struct tune_args *a = c->args;
	const struct cli_space_job *more = &c->more;
	struct tune_job *job = &c->job;

	job->folders = a->folders.nr ? a->folders.items : here;
	job->nr_folders = a->folders.nr ? (unsigned)a->folders.nr : 1;
	job->space = &c->space;
	job->goal = goal_of(a);
	job->read = !a->no_read && job->goal != TUNE_WRITE;
	job->write = !a->no_write && job->goal != TUNE_READ;
	job->io_size = a->io_size ? a->io_size : more->io_size;
	job->floor = a->floor;
	job->budget_sec = a->budget ? a->budget : BUDGET;
	job->max_write = a->max_write ? a->max_write : MAX_WRITE;
	job->exhaustive = a->exhaustive;
	job->loops = a->loops ? a->loops : more->loops ? (uint32_t)more->loops : LOOPS;
	job->seed = a->seed;
	job->memory = more->gpu && !a->memory.nr ? BED_GPU : c->memory;
	job->limit = a->limit;
	job->measure_limit = !a->no_limit;
	job->opts.direct = a->direct;
}

static int build_space(struct tune_command *c)
{
	const struct tune_args *a = c->args;
	struct sluice_err err;
	int r = CLI_OK;

	if (a->sweep_config)
		r = cli_space_read(&c->space, &c->more, &cmd_tune, a->sweep_config);
	else if (space_nvme_tune(&c->space, &err) < 0)
		r = cli_fail(&cmd_tune, CLI_FAILED, "%s", err.msg);
	if (r == CLI_OK)
		r = cli_space_check(&c->space, &c->more, c->memory == BED_GPU,
				    a->gds      ? "--gds"
				    : a->engine ? "--engine"
						: NULL,
				    &cmd_tune);
	return r;
}

static int build_job(struct tune_command *c)
{
	struct sluice_err err = {0, ""};
	int r = pick_memory(c);

	if (r == CLI_OK)
		r = check_args(c->args, c->memory);
	c->job.opts = (struct sluice_opts)SLUICE_OPTS_INIT;
	if (r == CLI_OK)
		r = build_space(c);
	if (r == CLI_OK)
		r = cli_engine(&c->job.opts.engine,
			       c->args->gds || (c->more.gds && !c->args->engine) ? "cufile"
										 : c->args->engine,
			       &cmd_tune);
	if (r != CLI_OK)
		return r;
	set_job(c);
	r = tune_check(&c->job, &err);
	if (r == -EINVAL)
		return cli_usage(&cmd_tune, "%s", err.msg);
	if (r < 0)
		return cli_fail(&cmd_tune, r == -ENOTSUP ? CLI_UNSUPPORTED : CLI_FAILED, "%s",
				err.msg);
	if ((c->args->loops || c->more.loops) && !c->args->exhaustive)
		cli_note(&cmd_tune, "loops are ignored without --exhaustive: the race decides");
	return CLI_OK;
}

/* ---------------------------------------------------------------- meanwhile */

/* The bar is made for bytes; a race goes by time. */
static void show_race(struct tune_command *c, uint64_t done, uint64_t total)
{
	cli_progress_end(&c->progress);
	c->progress.on = false;
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

static void show_progress(void *arg, enum tune_step step, uint64_t done, uint64_t total,
			  unsigned left)
{
	static const char *const labels[] = {"Prepare:", "Race:"};
	struct tune_command *c = arg;

	if (c->args->verbose && step == TUNE_RACE && left != c->left && left) {
		cli_progress_end(&c->progress);
		fprintf(stderr, "sluice tune: %.1f s: %u configuration%s in the race\n",
			(double)done / 1e3, left, left == 1 ? "" : "s");
		c->progress.on = false;
	}
	c->left = left;
	if (step == TUNE_RACE)
		return show_race(c, done, total);
	if (!c->progress.on)
		cli_progress_start(&c->progress, labels[step], total);
	else if (c->step != (int)step)
		cli_progress_label(&c->progress, labels[step], total);
	c->step = (int)step;
	cli_progress_update(&c->progress, done);
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
	r->settings = tune_settings_json(&c->job);
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
static int report(struct tune_command *c, struct result *r, const struct tune_result *res,
		  bool failed)
{
	int status = CLI_OK;

	if (c->out.text)
		tune_report_text(stdout, &c->job, res);
	if (c->config.f && !failed)
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

static int run_and_report(struct tune_command *c)
{
	struct sluice_err err = {0, ""};
	struct tune_result res;
	struct result r;
	int status = CLI_OK, rc;

	result_init(&r, "tune");
	c->job.progress = c->args->verbose || isatty(STDERR_FILENO) ? show_progress : NULL;
	c->job.progress_arg = c;
	c->job.began = began;
	rc = tune_run(&c->job, &res, &err);
	cli_progress_end(&c->progress);
	if (c->raced)
		fprintf(stderr, "\r\033[K");
	if (rc < 0 || res.race.end == RACE_STOPPED) {
		r.partial = true;
		snprintf(r.partial_why, sizeof(r.partial_why), "%s",
			 rc < 0 ? err.msg : "interrupted");
	}
	if (res.race.probes)
		status = report(c, &r, &res, rc < 0 && !*c->job.stop);
	else if (*c->job.stop && res.info)
		status = write_result(c, &r, &res); /* of what was asked for, where, and the wear */
	if (*c->job.stop)
		status = cli_fail(&cmd_tune, 128 + *c->job.stop,
				  "interrupted; the result is partial, files were removed");
	else if (rc < 0)
		status = cli_fail(&cmd_tune, res.began ? CLI_FAILED : CLI_USAGE, "%s", err.msg);
	result_fini(&r);
	tune_fini(&res);
	return status;
}

/* All files, before anything is measured. */
static int open_outputs(struct tune_command *c)
{
	int r = cli_outputs_open(&c->out, &cmd_tune, &c->args->out);

	if (r == CLI_OK)
		r = cli_file_open(&c->config, &cmd_tune, "--output", c->args->output);
	c->out.text = c->out.text && !cli_is_stdout(c->args->output);
	return r;
}

static int tune_main(void *args, int argc, char **argv)
{
	struct tune_command c = {.args = args, .step = -1};
	int r;

	(void)argc;
	(void)argv;
	c.job.stop = cli_stop_catch();
	r = build_job(&c);
	if (r == CLI_OK && c.args->dry_run) {
		tune_report_plan(stdout, &c.job);
	} else if (r == CLI_OK) {
		r = open_outputs(&c);
		if (r == CLI_OK)
			r = run_and_report(&c);
		cli_file_abandon(&c.config);
		cli_outputs_abandon(&c.out);
	}
	space_fini(&c.space);
	return r;
}

const struct cli_cmd cmd_tune = {
	.name = "tune",
	.summary = "find the best settings for this storage, quickly",
	.opts = tune_opts_table,
	.args_size = sizeof(struct tune_args),
	.run = tune_main,
};
