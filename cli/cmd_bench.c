/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock bench: latency and bandwidth per tensor size.  Speaks the options and the
 * blocks of DS-AIO-Benchmark; load/jobs/bench.h has the job, load/report the output.
 */
#include <stdio.h>
#include <stdlib.h>

#include <penstock/penstock.h>

#include <penstock/stripe.h>

#include "base/size.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/cli_s3.h"
#include "cli/hosts.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/bed/buffers.h"
#include "load/jobs/bench.h"
#include "load/jobs/fio.h"
#include "load/measure/handle.h"
#include "load/report/jobs/bench_report.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/result.h"

#define SIZES_MAX          64
#define DEFAULT_ITERATIONS 200
/* Called with nothing it must end within a minute, the measuring of the limit included. */
#define DEFAULT_BUDGET_NS 40000000000u

struct bench_command {
	struct bench_job job;
	struct cli_list sizes_given;
	struct cli_gpu gpu;
	struct penstock_s3_opts s3;
	bool dry_run;
	struct cli_result_args files;
	/* what the run needs */
	json_t *settings; /* as they were asked for: bench_check() fills in the job */
	uint64_t sizes[SIZES_MAX];
	struct cli_outputs out;
	struct cli_progress progress;
	struct bench_result res;
	unsigned printed;
};

static const struct cli_opt bench_opts[] = {
	CLI_GROUP("Where"),
	CLI_S3(struct bench_command, job.folder, 'f', "target", "TARGET", ".",
	       "where to measure, or s3://BUCKET/PREFIX: in a new folder in this one, removed "
	       "at the end"),
	CLI_ALIAS("folder"),
	CLI_ALIAS_OF("DS-AIO-Benchmark", "nvme-path"),
	CLI_GROUP("What"),
	CLI_LIST(struct bench_command, sizes_given, 's', "size", "BYTES", NULL, 1, SIZES_MAX,
		 "tensor sizes; default: 2M 8M 32M"),
	CLI_ALIAS_OF("DS-AIO-Benchmark", "sizes"),
	CLI_U64(struct bench_command, job.iterations, 'n', "iterations", "N", NULL, 1, 100000000,
		"operations per series; default: 200, or fewer where that takes too long"),
	CLI_NOT(struct bench_command, job.write, 'r', "read-only", "only reads"),
	CLI_NOT(struct bench_command, job.read, 'w', "write-only", "only writes"),
	CLI_U32(struct bench_command, job.rwmix, 0, "rwmix", "PERCENT", NULL, 1, 99,
		"reads and writes at the same time: so many reads of a hundred"),
	CLI_FLAG(struct bench_command, job.random, 0, "random",
		 "anywhere in one file, instead of whole files in turn"),
	CLI_SIZE(struct bench_command, job.span, 0, "span", "BYTES", NULL, 1, 1ull << 60,
		 "size of that file; default: 1G, or 16 tensors"),
	CLI_U64(struct bench_command, job.runtime_ns, 0, "runtime", "SECONDS", NULL, 1, 1000000,
		"so long per series, instead of iterations", .scale = 1000000000u),
	CLI_SIZE(struct bench_command, job.rate, 0, "rate", "BYTES", NULL, 1, 1ull << 60,
		 "no more than this per second"),
	CLI_U32(struct bench_command, job.in_flight, 0, "in-flight", "N", "1", 1, 1024,
		"operations at the same time"),
	CLI_U32(struct bench_command, job.warmup, 0, "warmup", "N", "3", 0, 1000000,
		"operations before those that count; before later repeats one"),
	CLI_FLAG(struct bench_command, job.overwrite, 0, "rewrite",
		 "write over existing data; default: into empty files"),
	CLI_U32(struct bench_command, job.files, 0, "files", "N", NULL, 1, 100000,
		"tensors on disk at a time; default: one per iteration, within 2G, or fewer with "
		"--runtime"),
	CLI_FLAG(struct bench_command, job.share.on, 0, "shared",
		 "tensors of a size are ranges of one file, which the ranks of a run share; "
		 "writes go over existing data"),
	CLI_FLAG(struct bench_command, job.open_once, 0, "open-once",
		 "open files beforehand; default: in each operation"),
	CLI_FLAG(struct bench_command, job.verify, 0, "verify",
		 "compare every byte, outside the measured time"),
	CLI_U64(struct bench_command, job.seed, 0, "seed", "N", "1", 0, INT64_MAX,
		"of data, places and the mix"),
	CLI_GROUP("How"),
	CLI_TABLE(struct bench_command, job.opts, struct penstock_opts, cli_engine_opts),
	CLI_DURABILITY(struct bench_command, job.opts.durability, "none"),
	CLI_MEMORY(struct bench_command, job.memory, gpu),
	CLI_FLAG(struct bench_command, job.lock, 0, "lock", "lock the buffers in memory"),
	CLI_GROUP("Object stores"),
	CLI_TABLE(struct bench_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Yardsticks"),
	CLI_LIMIT(struct bench_command, job.limit, job.measure_limit),
	CLI_FLAG(struct bench_command, job.compare_fio, 0, "compare-fio",
		 "let fio do the same work and print the ratio"),
	CLI_GROUP("Output"),
	CLI_DRY_RUN(struct bench_command, dry_run, .quiet = true),
	CLI_TABLE(struct bench_command, files, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* ------------------------------------------------------------- from options */

static int parse_sizes(struct bench_command *c)
{
	static const uint64_t defaults[] = {2u << 20, 8u << 20, 32u << 20};
	const struct cli_list *l = &c->sizes_given;

	c->job.nr_sizes = l->nr ? (unsigned)l->nr : (unsigned)ARRAY_SIZE(defaults);
	c->job.sizes = c->sizes;
	for (unsigned i = 0; i < c->job.nr_sizes; i++) {
		if (!l->nr)
			c->sizes[i] = defaults[i];
		else if (penstock_size_parse(&c->sizes[i], l->items[i]) < 0 || !c->sizes[i] ||
			 c->sizes[i] > 1ull << 40)
			return cli_usage(&cmd_bench,
					 "--size: '%s' is not a size of 1..1T; give bytes, or a "
					 "number with K, M or G",
					 l->items[i]);
	}
	return CLI_OK;
}

static int bench_check_options(const struct bench_command *c)
{
	const struct bench_job *job = &c->job;
	bool null = engine_is_null(job->opts.engine), object = cli_is_object(job->folder);
	const struct cli_pair pairs[] = {
		{!job->read && !job->write, "--read-only and --write-only"},
		{job->rwmix && !job->write, "--rwmix and --read-only"},
		{job->rwmix && !job->read, "--rwmix and --write-only"},
		{job->runtime_ns && job->iterations, "--runtime and --iterations"},
		{job->random && job->files, "--random and --files"},
		{job->limit && !job->measure_limit, "--limit and --no-limit"},
		{!job->write && job->overwrite, "--read-only and --rewrite"},
		{!job->write && job->opts.durability,
		 "--read-only and --durability, which is of writes,"},
		{job->lock && job->memory == BED_GPU,
		 "--lock, which is for the host's memory, and --gpu"},
		{job->verify && null, "--verify and --engine null, which moves nothing,"},
		{job->compare_fio && job->verify,
		 "--compare-fio, which writes over the files, and --verify"},
		{job->compare_fio && null, "--compare-fio and --engine null, which moves nothing,"},
		{job->limit && null, "--limit and --engine null, which moves nothing,"},
		{object && job->share.on,
		 "--shared and s3://, where objects are written as a whole,"},
		{job->share.on && job->compare_fio,
		 "--shared, of which fio knows nothing, and --compare-fio"},
		{object && job->compare_fio, "--compare-fio, which knows files only, and s3://"},
		{object && job->write && job->random,
		 "--random, unless --read-only, and s3://, where objects are written as a whole,"},
		{object && job->write && job->open_once,
		 "--open-once, unless --read-only, and s3://, where objects are written as a "
		 "whole,"},
		{object && null, "--engine null, which moves nothing, and s3://"},
	};
	int r = cli_exclude(&cmd_bench, pairs, ARRAY_SIZE(pairs));

	if (r == CLI_OK && job->span && !job->random)
		return cli_usage(&cmd_bench, "--span goes with --random only");
	if (r == CLI_OK && job->compare_fio &&
	    penstock_stripe_load_folder(NULL, job->folder, NULL) == 1)
		return cli_usage(&cmd_bench,
				 "--compare-fio: %s is a striped folder, of which fio "
				 "knows nothing",
				 job->folder);
	if (r == CLI_OK && job->compare_fio && !c->dry_run && !fio_exists())
		return cli_fail(&cmd_bench, CLI_UNSUPPORTED, "--compare-fio: fio is not installed");
	return r;
}

static void set_length(struct bench_job *job)
{
	unsigned nr = job->read && job->write && !job->rwmix ? 2 : 1;

	if (!job->iterations && !job->runtime_ns)
		job->max_ns = DEFAULT_BUDGET_NS / (nr * job->nr_sizes);
	if (!job->iterations && !job->runtime_ns)
		job->iterations = DEFAULT_ITERATIONS;
}

static void set_settings(struct bench_command *c)
{
	json_t *sizes = json_array();

	for (unsigned i = 0; i < c->job.nr_sizes; i++)
		json_array_append_new(sizes, json_integer((json_int_t)c->sizes[i]));
	c->settings = cli_settings(&cmd_bench, c);
	json_object_set_new(c->settings, "size", sizes);
}

static int bench_build(struct bench_command *c)
{
	struct penstock_err err = {0, ""};
	int r = parse_sizes(c);

	if (r == CLI_OK)
		r = cli_gpu_set(&c->gpu, &c->job.memory, &c->job.opts, &cmd_bench);
	if (r == CLI_OK)
		r = bench_check_options(c);
	if (r == CLI_OK)
		r = cli_opts_check(&c->job.opts, &cmd_bench);
	if (r == CLI_OK)
		r = cli_s3_for(&c->job.opts.s3, &c->s3, &c->job.folder, 1, &cmd_bench);
	if (r != CLI_OK)
		return r;
	cli_hosts_share(&c->job.share);
	set_length(&c->job);
	set_settings(c);
	c->job.iterations = c->job.iterations ? c->job.iterations : DEFAULT_ITERATIONS;
	r = bench_check(&c->job, &err);
	return r < 0 ? cli_refuse(&cmd_bench, r, err.msg) : CLI_OK;
}

/* ----------------------------------------------------------------- meanwhile */

static void bench_progress(void *arg, enum bench_step step, uint64_t size, uint64_t done,
			   uint64_t total)
{
	static const char *const labels[] = {
		"Prepare:", "Writes:", "Reads:", "Mixed:", "Verify:", "Limit:"};
	struct bench_command *c = arg;

	cli_progress_show(&c->progress, size * ARRAY_SIZE(labels) + step, labels[step], done,
			  total);
}

static void show_series(struct bench_command *c, const struct run_series *s)
{
	cli_progress_end(&c->progress);
	if (c->out.text) {
		bench_report_series(stdout, s);
		fflush(stdout);
	}
	c->printed++;
}

static void series_done(void *arg, const struct run_series *s)
{
	show_series(arg, s);
}

/* -------------------------------------------------------------------- results */

static int bench_write_result(void *args, struct result *r)
{
	struct bench_command *c = args;
	struct bench_result *res = &c->res;
	struct result_target target = {.folder = c->job.folder, .info = res->path};

	r->targets = &target;
	r->nr_targets = 1;
	r->settings = json_incref(c->settings);
	r->series = res->series;
	r->nr_series = res->nr_series;
	if (c->out.text) {
		for (unsigned i = c->printed; i < res->nr_series; i++)
			show_series(c, &res->series[i]);
		bench_report_summary(stdout, &c->job, res);
	}
	if (c->job.opts.s3)
		r->objects = cli_s3_report(c->out.text ? stdout : NULL, c->job.opts.s3);
	if (res->fio)
		r->fio = bench_report_fio(c->out.text ? stdout : NULL, "fio:", res->fio,
					  res->nr_fio);
	if (res->gdsio)
		r->gdsio = bench_report_fio(c->out.text ? stdout : NULL, "gdsio:", res->gdsio,
					    res->nr_fio);
	r->bytes_written = res->bytes_written;
	result_finish(r);
	return cli_outputs_finish(&c->out, r);
}

static int bench_do(void *args, struct cli_outcome *outcome, struct penstock_err *err)
{
	struct bench_command *c = args;
	int r;

	c->job.progress = isatty(STDERR_FILENO) ? bench_progress : NULL;
	c->job.progress_arg = c;
	c->job.series_done = series_done;
	c->job.series_arg = c;
	r = bench_run(&c->job, &c->res, err);
	outcome->has_result = c->res.began;
	outcome->refused = !c->res.began;
	return r;
}

static int bench_main(void *args, int argc, char **argv)
{
	struct bench_command *c = args;
	struct bench_plan plan;
	int r;

	(void)argc;
	(void)argv;
	c->job.stop = cli_stop_catch();
	r = bench_build(c);
	if (r == CLI_OK && c->dry_run) {
		bench_plan(&c->job, &plan);
		bench_report_plan(stdout, &c->job, &plan);
	} else if (r == CLI_OK) {
		r = cli_measure(&(struct cli_measure){&cmd_bench, &c->out, &c->files, &c->progress,
						      c->job.stop, bench_do, bench_write_result},
				c);
	}
	bench_result_fini(&c->res);
	json_decref(c->settings);
	penstock_s3_close(c->job.opts.s3);
	return r;
}

const struct cli_cmd cmd_bench = {
	.name = "bench",
	.summary = "latency and bandwidth per tensor size, with statistics",
	.opts = bench_opts,
	.args_size = sizeof(struct bench_command),
	.run = bench_main,
};
