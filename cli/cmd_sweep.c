/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock sweep: every configuration of a space.  Speaks the options of DeepSpeed's
 * ds_nvme_tune and aio_bench_perf_sweep and leaves their log files; load/jobs/sweep.h
 * has the job, load/report the output.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <penstock/penstock.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/cli_s3.h"
#include "cli/opt/opt_space.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/bed/buffers.h"
#include "load/jobs/sweep.h"
#include "load/report/jobs/sweep_report.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/result.h"

#define FOLDERS_MAX 64
#define VALUES_MAX  64
#define LOOPS_MAX   100000
#define LOG_DIR     "_aio_bench_logs"
#define LOG_DIRS    1000
#define IO_SIZE     (400ull << 20)

struct sweep_command {
	struct sweep_job job;
	struct cli_list folders, axes[CONFIG_SPACE_KINDS];
	const char *config, *log_dir;
	struct cli_gpu gpu;
	struct penstock_s3_opts s3;
	bool no_sudo, verbose, dry_run;
	struct cli_result_args files;
	/* what the run needs */
	struct config_space space;
	struct cli_space_job more; /* of --sweep-config; options win */
	char *state;
	char *picked; /* for log_dir, where none was named */
	struct cli_outputs out;
	struct cli_progress progress;
	unsigned logs_made; /* of sweep_logs_make() */
	struct sweep_result res;
};

static const struct cli_opt sweep_opts[] = {
	CLI_GROUP("Where"),
	CLI_S3S(struct sweep_command, folders, 'f', "target", "TARGET", NULL, 1, FOLDERS_MAX,
		"where to measure, or s3://BUCKET/PREFIX, all at the same time; default: the "
		"current folder"),
	CLI_ALIAS("folder"),
	CLI_ALIAS_OF("ds_nvme_tune", "nvme_dir"),
	CLI_GROUP("Which configurations"),
	CLI_IN(struct sweep_command, config, 0, "sweep-config", "FILE", NULL,
	       "JSON of lists, as ds_nvme_tune takes; default: its own 64 configurations"),
	CLI_LIST(struct sweep_command, axes[CONFIG_SPACE_BLOCK_SIZE], 'b', "block-size", "BYTES",
		 NULL, 1, VALUES_MAX, "these block sizes instead"),
	CLI_LIST(struct sweep_command, axes[CONFIG_SPACE_QUEUE_DEPTH], 'd', "queue-depth", "N",
		 NULL, 1, VALUES_MAX, "these depths instead"),
	CLI_LIST(struct sweep_command, axes[CONFIG_SPACE_IO_PARALLEL], 't', "threads", "N", NULL, 1,
		 VALUES_MAX, "these numbers of I/O threads instead", .key = "io_parallel"),
	CLI_ALIAS_OF("ds_nvme_tune", "io_parallel"),
	CLI_LIST(struct sweep_command, axes[CONFIG_SPACE_SEQUENTIAL], 0, "sequential-requests",
		 "yes|no|both", NULL, 1, 2,
		 "let the queue run empty before it is filled again: yes, no or both"),
	CLI_LIST(struct sweep_command, axes[CONFIG_SPACE_SINGLE], 0, "single-submit", "yes|no|both",
		 NULL, 1, 2, "submit blocks one by one: yes, no or both"),
	CLI_LIST(struct sweep_command, axes[CONFIG_SPACE_ENGINE], 'e', "engine", "NAME", NULL, 1,
		 VALUES_MAX, "these engines; default: the first usable"),
	CLI_LIST(struct sweep_command, axes[CONFIG_SPACE_MEMORY], 'm', "memory", "KIND", NULL, 1,
		 VALUES_MAX, "these kinds of buffers: own, plain, odd, gpu; default: own"),
	CLI_GROUP("What"),
	CLI_NOT(struct sweep_command, job.write, 'r', "read-only", "only reads"),
	CLI_ALIAS_OF("ds_nvme_tune", "no_write"),
	CLI_NOT(struct sweep_command, job.read, 'w', "write-only", "only writes"),
	CLI_ALIAS_OF("ds_nvme_tune", "no_read"),
	CLI_SIZE(struct sweep_command, job.io_size, 's', "size", "BYTES", NULL, 1, 1ull << 40,
		 "bytes per measurement and folder; default: 400M"),
	CLI_ALIAS_OF("ds_nvme_tune", "io_size"),
	CLI_U32(struct sweep_command, job.loops, 'n', "iterations", "N", NULL, 1, LOOPS_MAX,
		"measurements of each configuration, interleaved; default: 1"),
	CLI_ALIAS_OF("ds_nvme_tune", "loops"),
	CLI_U64(struct sweep_command, job.seed, 0, "seed", "N", "1", 0, INT64_MAX, "of the order"),
	CLI_DIRECT(struct sweep_command, job.opts.direct),
	CLI_DURABILITY(struct sweep_command, job.opts.durability, "none"),
	CLI_FLAG(struct sweep_command, gpu.gpu, 0, "gpu", "memory of a GPU: as --memory gpu"),
	CLI_GDS(struct sweep_command, gpu.gds),
	CLI_FLAG(struct sweep_command, job.flush, 0, "flush-page-cache",
		 "drop all of the machine's page cache before each read; needs root"),
	CLI_FLAG(struct sweep_command, no_sudo, 0, "no-sudo",
		 "do not do that; sudo is never called anyway", .quiet = true),
	CLI_LIMIT(struct sweep_command, job.limit, job.measure_limit),
	CLI_GROUP("Object stores"),
	CLI_TABLE(struct sweep_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_PLACE(struct sweep_command, log_dir, 0, "log-dir", "FOLDER", NULL,
		  "where the logs go, one file per configuration; must be new or empty; "
		  "default: _aio_bench_logs, or -2, -3, ... behind it where that is taken",
		  .quiet = true),
	CLI_FLAG(struct sweep_command, job.resume, 0, "resume",
		 "go on where an interrupted sweep with the same options and logs ended",
		 .quiet = true),
	CLI_FLAG(struct sweep_command, verbose, 'v', "verbose",
		 "show all configurations, not only the best", .quiet = true),
	CLI_DRY_RUN(struct sweep_command, dry_run, .quiet = true),
	CLI_TABLE(struct sweep_command, files, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* ------------------------------------------------------------- from options */

static int build_space(struct sweep_command *c)
{
	struct penstock_err err;
	int r = CLI_OK;

	if (c->config)
		r = cli_space_read(&c->space, &c->more, &cmd_sweep, c->config);
	else if (config_space_nvme_tune(&c->space, &err) < 0)
		r = cli_fail(&cmd_sweep, CLI_FAILED, "%s", err.msg);
	if (r == CLI_OK)
		r = cli_space_check(&c->space, &c->more, c->gpu.gpu, c->gpu.gds ? "--gds" : NULL,
				    &cmd_sweep);
	return r == CLI_OK ? cli_space_replace(&c->space, &cmd_sweep, c->axes) : r;
}

/* Their parser takes names with K and M only; what was measured counts all the same. */
static void note_odd_blocks(const struct config_space *s)
{
	for (unsigned i = 0; i < s->nr; i++)
		for (unsigned k = 0; k < s->axes[i].nr; k++)
			if (s->axes[i].kind == CONFIG_SPACE_BLOCK_SIZE &&
			    s->axes[i].values[k].n % 1024)
				cli_note(&cmd_sweep,
					 "--block-size: %llu is no multiple of 1K: DeepSpeed's "
					 "parser "
					 "does not understand the names of these logs",
					 (unsigned long long)s->axes[i].values[k].n);
}

static int sweep_check_options(const struct sweep_command *c)
{
	const struct sweep_job *job = &c->job;
	const struct cli_pair pairs[] = {
		{!job->read && !job->write, "--read-only and --write-only"},
		{!job->write && job->opts.durability,
		 "--read-only and --durability, which is of writes,"},
		{!job->read && job->flush,
		 "--write-only and --flush-page-cache, which is of reads,"},
		{job->flush && c->no_sudo, "--flush-page-cache and --no-sudo"},
		{job->limit && !job->measure_limit, "--limit and --no-limit"},
		{c->gpu.gpu && c->axes[CONFIG_SPACE_MEMORY].nr, "--gpu and --memory"},
	};
	int r = cli_exclude(&cmd_sweep, pairs, ARRAY_SIZE(pairs));

	if (r == CLI_OK && c->gpu.gds && !c->gpu.gpu)
		return cli_usage(&cmd_sweep, "--gds goes with --gpu only");
	if (r == CLI_OK && c->gpu.gds && c->axes[CONFIG_SPACE_ENGINE].nr)
		return cli_usage(&cmd_sweep, "--gds is the engine cufile: leave out --engine");
	if (r == CLI_OK && job->flush && access("/proc/sys/vm/drop_caches", W_OK) < 0)
		return cli_fail(
			&cmd_sweep, CLI_UNSUPPORTED,
			"--flush-page-cache: drop_caches cannot be written: %s; files of the "
			"sweep are dropped anyway",
			strerror(errno));
	return r;
}

/* What options leave open: the file says it, or a default. */
static void sweep_set_job(struct sweep_command *c)
{
	static const char *const here[] = {"."};
	const struct cli_space_job *more = &c->more;
	struct sweep_job *job = &c->job;

	job->folders = c->folders.nr ? c->folders.items : here;
	job->nr_folders = c->folders.nr ? (unsigned)c->folders.nr : 1;
	job->space = &c->space;
	job->opts.size = sizeof(job->opts);
	job->memory = c->gpu.gpu || more->gpu ? BED_GPU : BED_OWN;
	job->opts.engine = c->gpu.gds || more->gds ? "cufile" : NULL;
	job->io_size = job->io_size ? job->io_size : more->io_size ? more->io_size : IO_SIZE;
	job->loops = job->loops ? job->loops : more->loops ? (uint32_t)more->loops : 1;
	job->state = c->state;
}

/* Is it free?  From now on it is nobody else's: another sweep may begin at the same moment. */
static bool take_log_dir(struct sweep_command *c, const char *dir)
{
	if (sweep_logs_check(dir, false, NULL) < 0)
		return false;
	if (c->dry_run || c->job.resume)
		return true;
	if (mkdir(dir, 0777) < 0)
		return errno != EEXIST; /* why it cannot be made is told later */
	c->logs_made = 1;
	return true;
}

/*
 * Where none was named, one that no sweep has used, so that sweeps can be repeated in one
 * place; to resume, the last one used.
 */
static int pick_log_dir(struct sweep_command *c)
{
	CLEANUP_FREE char *last = NULL;

	for (unsigned n = 1; !c->log_dir; n++) {
		free(last);
		last = TAKE_PTR(c->picked);
		if (asprintf(&c->picked, n > 1 ? LOG_DIR "-%u" : LOG_DIR, n) < 0) {
			c->picked = NULL;
			return cli_fail(&cmd_sweep, CLI_FAILED, "out of memory");
		}
		if (n == LOG_DIRS || take_log_dir(c, c->picked))
			c->log_dir = c->picked;
	}
	if (last && c->job.resume) {
		free(c->picked);
		c->log_dir = c->picked = TAKE_PTR(last);
	} else if (last) {
		cli_note(&cmd_sweep, "logs go to %s: %s has those of another sweep", c->log_dir,
			 last);
	}
	return CLI_OK;
}

static int sweep_build(struct sweep_command *c)
{
	struct penstock_err err = {0, ""};
	int r = sweep_check_options(c);

	if (r == CLI_OK)
		r = build_space(c);
	if (r != CLI_OK)
		return r;
	r = pick_log_dir(c);
	if (r != CLI_OK)
		return r;
	if (asprintf(&c->state, "%s/" SWEEP_STATE, c->log_dir) < 0) {
		c->state = NULL;
		return cli_fail(&cmd_sweep, CLI_FAILED, "out of memory");
	}
	sweep_set_job(c);
	r = cli_s3_for(&c->job.opts.s3, &c->s3, c->job.folders, c->job.nr_folders, &cmd_sweep);
	if (r != CLI_OK)
		return r;
	if (c->job.limit && !sweep_moves(&c->job))
		return cli_usage(&cmd_sweep,
				 "--limit and --engine null, which moves nothing, exclude "
				 "each other");
	r = sweep_logs_check(c->log_dir, c->job.resume, &err);
	if (r == 0)
		r = sweep_check(&c->job, &err);
	if (r == 0 && c->job.resume)
		r = sweep_logs_own(c->log_dir, &c->job, &err);
	if (r < 0)
		return cli_refuse(&cmd_sweep, r, err.msg);
	note_odd_blocks(&c->space);
	return CLI_OK;
}

/* ---------------------------------------------------------------------- run */

static void sweep_progress(void *arg, const char *name, uint64_t done, uint64_t total)
{
	struct sweep_command *c = arg;

	/* One bar for all: only its label changes, so the time left is that of the sweep. */
	if (!c->progress.on)
		cli_progress_start(&c->progress, name, total);
	snprintf(c->progress.label, sizeof(c->progress.label), "%s", name);
	cli_progress_update(&c->progress, done);
}

static int point_done(void *arg, const struct sweep_job *job, const struct run_series *s,
		      const struct sweep_point *p, struct penstock_err *err)
{
	struct sweep_command *c = arg;

	return sweep_log_write(c->log_dir, job, s, p, err);
}

static int make_logs(void *arg, struct penstock_err *err)
{
	struct sweep_command *c = arg;

	return sweep_logs_make(c->log_dir, &c->logs_made, err);
}

/* The series that have something to say, for the result. */
static unsigned pick_series(struct run_series *out, const struct sweep_result *res)
{
	unsigned n = 0;

	for (unsigned i = 0; i < res->nr; i++)
		if (res->series[i].ops)
			out[n++] = res->series[i];
	return n;
}

static int sweep_write_result(void *args, struct result *r)
{
	struct sweep_command *c = args;
	const struct sweep_result *res = &c->res;
	CLEANUP_FREE struct run_series *series = calloc(res->nr + 1, sizeof(*series));
	CLEANUP_FREE struct result_target *targets = calloc(c->job.nr_folders, sizeof(*targets));

	if (!series || !targets)
		return cli_fail(&cmd_sweep, CLI_FAILED, "out of memory");
	for (unsigned i = 0; i < c->job.nr_folders; i++)
		targets[i] = (struct result_target){c->job.folders[i], res->paths[i]};
	r->targets = targets;
	r->nr_targets = c->job.nr_folders;
	r->settings = cli_settings(&cmd_sweep, c);
	sweep_settings(r->settings, &c->job);
	r->series = series;
	r->nr_series = pick_series(series, res);
	r->grid = sweep_grid_json(&c->job, res);
	r->bytes_written = res->bytes_written;
	result_finish(r);
	r->duration_sec += res->earlier_sec;
	if (c->out.text)
		sweep_report_text(stdout, &c->job, res, c->verbose);
	if (c->job.opts.s3)
		r->objects = cli_s3_report(c->out.text ? stdout : NULL, c->job.opts.s3);
	return cli_outputs_finish(&c->out, r);
}

static int sweep_do(void *args, struct cli_outcome *outcome, struct penstock_err *err)
{
	struct sweep_command *c = args;
	int r;

	c->job.progress = isatty(STDERR_FILENO) ? sweep_progress : NULL;
	c->job.ready = make_logs;
	c->job.point_done = point_done;
	c->job.arg = c;
	r = sweep_run(&c->job, &c->res, err);
	outcome->has_result = c->res.began;
	outcome->refused = !c->res.began;
	snprintf(outcome->interrupted, sizeof(outcome->interrupted),
		 "--resume goes on with what is in %s", c->log_dir);
	return r;
}

static int dry_run(const struct sweep_command *c)
{
	struct penstock_err err = {0, ""};
	struct sweep_plan plan;

	if (sweep_plan(&c->job, &plan, &err) < 0)
		return cli_fail(&cmd_sweep, CLI_FAILED, "%s", err.msg);
	sweep_report_plan(stdout, &c->job, &plan);
	return CLI_OK;
}

static int sweep_main(void *args, int argc, char **argv)
{
	struct sweep_command *c = args;
	int r;

	(void)argc;
	(void)argv;
	c->job.stop = cli_stop_catch();
	r = sweep_build(c);
	if (r == CLI_OK && c->dry_run) {
		r = dry_run(c);
	} else if (r == CLI_OK) {
		r = cli_measure(&(struct cli_measure){&cmd_sweep, &c->out, &c->files, &c->progress,
						      c->job.stop, sweep_do, sweep_write_result},
				c);
	}
	if (!c->res.began)
		sweep_logs_undo(c->log_dir, c->logs_made);
	sweep_result_fini(&c->res);
	config_space_fini(&c->space);
	free(c->state);
	free(c->picked);
	penstock_s3_close(c->job.opts.s3);
	return r;
}

const struct cli_cmd cmd_sweep = {
	.name = "sweep",
	.summary = "every configuration of a space: logs, table, heat map",
	.opts = sweep_opts,
	.args_size = sizeof(struct sweep_command),
	.run = sweep_main,
};
