/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock io: throughput of one configuration.  Speaks the options and the result
 * lines of DeepSpeed's ds_io; load/jobs/io.h has the job, load/report the output.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <penstock/penstock.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/cli_s3.h"
#include "cli/hosts.h"
#include "cli/opt/config.h"
#include "cli/opt/places.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/jobs/io.h"
#include "load/measure/handle.h"
#include "load/report/jobs/io_report.h"
#include "load/report/result/result.h"

struct io_command {
	struct io_job job;
	struct cli_list folder, mapping, gpus;
	uint32_t workers;
	const char *config;
	struct cli_gpu gpu;
	struct penstock_s3_opts s3;
	bool slow_bounce_buffer, accelerator_pin;
	struct cli_result_args files;
	/* what the run needs */
	struct cli_places places;
	struct cli_progress progress;
	struct cli_outputs out;
	struct io_result res;
	bool ready; /* what was refused before is bad input */
	bool dry_run;
};

static const struct cli_opt io_opts[] = {
	CLI_GROUP("Where"),
	CLI_S3S(struct io_command, folder, 'f', "target", "TARGET", NULL, 1, CLI_PLACES_MAX,
		"where the files go, or s3://BUCKET/PREFIX, one worker each; default: a folder "
		"of its own under the "
		"current one, removed at the end"),
	CLI_ALIAS_OF("ds_io", "folder"),
	CLI_PLACES(struct io_command, mapping, 0, "folder-to-device-mapping", "FOLDER:DEVICE", NULL,
		   1, CLI_PLACES_MAX, "the same; with --gpu, the GPU of each, else only a label"),
	CLI_U32(struct io_command, workers, 0, "workers", "N", "1", 1, CLI_PLACES_MAX,
		"workers per --target"),
	CLI_ALIAS_OF("ds_io", "multi_process"),
	CLI_GROUP("What"),
	CLI_FLAG(struct io_command, job.read, 'r', "read-only", "only reads; default: only writes"),
	CLI_ALIAS_OF("ds_io", "read"),
	CLI_SIZE(struct io_command, job.io_size, 's', "size", "BYTES", NULL, 1, 1ull << 50,
		 "bytes per operation; default: 1G, or less where space or memory is short"),
	CLI_ALIAS_OF("ds_io", "io_size"),
	CLI_U32(struct io_command, job.loops, 'n', "iterations", "N", "3", 1, 1000000,
		"operations measured"),
	CLI_ALIAS_OF("ds_io", "loops"),
	CLI_U32(struct io_command, job.warmup, 0, "warmup", "N", "1", 0, 1000000,
		"operations before them"),
	CLI_ALIAS_OF("ds_io", "warmup_loops"),
	CLI_FLAG(struct io_command, job.include_warmup, 0, "include-warmup-time",
		 "count the warm-up too, its time and its bytes"),
	CLI_FLAG(struct io_command, job.different_file, 0, "different-file-each-iteration",
		 "a file per operation instead of one for all"),
	CLI_FLAG(struct io_command, job.share.on, 0, "shared",
		 "files are ranges of one, which all workers and ranks of a run share; removed at "
		 "the end"),
	CLI_FLAG(struct io_command, job.validate, 0, "verify",
		 "compare every byte, outside the measured time"),
	CLI_ALIAS_OF("ds_io", "validate"),
	CLI_U64(struct io_command, job.seed, 0, "seed", "N", "1", 0, INT64_MAX, "of the data"),
	CLI_GROUP("How"),
	CLI_IN(struct io_command, config, 0, "config", "FILE", NULL,
	       "settings as `penstock tune' and DeepSpeed have them, where no option below is "
	       "given"),
	CLI_TABLE(struct io_command, job.opts, struct penstock_opts, cli_engine_ds_io_opts),
	CLI_DURABILITY(struct io_command, job.opts.durability, "none"),
	CLI_ENUM_GIVEN(struct io_command, job.memory, gpu.memory_given, 'm', "memory",
		       bed_memory_words, "own",
		       "buffers: the library's own, plain 4 KiB pages, plain at an odd address, or "
		       "a GPU's"),
	CLI_FLAG(struct io_command, job.lock, 0, "lock", "lock the buffers in memory"),
	CLI_LIST(struct io_command, gpus, 0, "gpu", "ID", NULL, 0, CLI_PLACES_MAX,
		 "buffers in GPU memory; workers take these devices in turn, default: all"),
	CLI_GDS(struct io_command, gpu.gds),
	CLI_ALIAS_OF("ds_io", "use_gds"),
	CLI_GROUP("Object stores"),
	CLI_TABLE(struct io_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Files and limits"),
	CLI_FLAG(struct io_command, job.keep, 'k', "keep", "leave the files that were created"),
	CLI_FLAG(struct io_command, job.overwrite, 0, "overwrite",
		 "replace files of these names that hold something else"),
	CLI_SIZE(struct io_command, job.limit, 0, "limit", "BYTES", NULL, 1, 1ull << 60,
		 "what the device can do per second; the result is shown as a share of it"),
	CLI_FLAG(struct io_command, job.measure_limit, 0, "measure-limit",
		 "find that out with plain threads of pread or pwrite; takes 1.5 s"),
	CLI_GROUP("For scripts written for ds_io"),
	CLI_FLAG(struct io_command, slow_bounce_buffer, 0, "slow-bounce-buffer",
		 "ignored: there is one way through the host, the pinned pool", .quiet = true),
	CLI_FLAG(struct io_command, accelerator_pin, 0, "use-accelerator-pin-memory",
		 "ignored: see --memory and --lock", .quiet = true),
	CLI_GROUP("Output"),
	CLI_DRY_RUN(struct io_command, dry_run),
	CLI_TABLE(struct io_command, files, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* ------------------------------------------------------------- from options */

/* Engines of ds_io that are not ours. */
static int check_torch(const char *engine)
{
	if (!engine || (strcmp(engine, "torch_io") != 0 && strcmp(engine, "torch_fastio") != 0))
		return CLI_OK;
	return cli_fail(&cmd_io, CLI_UNSUPPORTED,
			"--engine: '%s' is torch's own I/O: python3 -m penstock io has it", engine);
}

/* What options say, else the file, else defaults. */
static int set_how(struct penstock_opts *opts, const char *config)
{
	struct penstock_opts base = {.depth = 32, .threads = 1};
	int r = config ? cli_config_read(&base, &cmd_io, config) : CLI_OK;

	opts->engine = opts->engine ? opts->engine : base.engine;
	opts->depth = opts->depth ? opts->depth : base.depth;
	opts->block = opts->block ? opts->block : base.block;
	opts->threads = opts->threads ? opts->threads : base.threads;
	opts->flags |= base.flags;
	return r == CLI_OK ? cli_opts_check(opts, &cmd_io) : r;
}

/* What does not go together, and what is taken note of. */
static int io_check_options(const struct io_command *c)
{
	const struct io_job *job = &c->job;
	bool null = engine_is_null(job->opts.engine);
	const struct cli_pair pairs[] = {
		{job->limit && job->measure_limit, "--limit and --measure-limit"},
		{job->read && job->opts.durability,
		 "--read-only and --durability, which is of writes,"},
		{job->limit && null, "--limit and --engine null, which moves nothing,"},
		{job->measure_limit && null,
		 "--measure-limit and --engine null, which moves nothing,"},
		{job->share.on && job->keep, "--shared and --keep"},
		{job->share.on && job->measure_limit, "--shared and --measure-limit"},
		{job->share.on && c->mapping.nr, "--shared and --folder-to-device-mapping"},
		{job->gpu && job->lock, "--lock, which is for the host's memory, and --gpu"},
	};
	int r = cli_exclude(&cmd_io, pairs, ARRAY_SIZE(pairs));

	if (r == CLI_OK && job->share.on &&
	    (c->folder.nr != 1 || cli_is_object(c->folder.items[0])))
		return cli_usage(&cmd_io, "--shared needs one --target, which all ranks can reach");
	if (r == CLI_OK && c->slow_bounce_buffer)
		cli_note(&cmd_io, "--slow-bounce-buffer is ignored: there is one way through the "
				  "host, the pinned pool");
	if (r == CLI_OK && c->accelerator_pin)
		cli_note(&cmd_io,
			 "--use-accelerator-pin-memory is ignored: see --memory and --lock");
	return r;
}

/* --memory is of the host here, and of a GPU how its memory is registered. */
static int set_gpu(struct io_command *c)
{
	struct io_job *job = &c->job;
	uint32_t host = job->memory == BED_GPU ? BED_OWN : job->memory, all = job->memory;
	int r;

	c->gpu.gpu = c->gpus.given;
	c->gpu.memory_given &= !c->gpus.given;
	r = cli_gpu_set(&c->gpu, &all, &job->opts, &cmd_io);
	job->memory = host;
	job->gpu = c->gpu.gpu;
	job->gds = c->gpu.gds;
	return r;
}

static int io_build(struct io_command *c)
{
	struct penstock_err err = {0, ""};
	int r = check_torch(c->job.opts.engine);

	if (r == CLI_OK)
		r = set_gpu(c);
	if (r == CLI_OK)
		r = io_check_options(c);
	if (r == CLI_OK)
		r = set_how(&c->job.opts, c->config);
	if (r == CLI_OK)
		r = cli_places_init(&c->places, &cmd_io, &c->folder, &c->mapping, c->workers,
				    !c->dry_run);
	if (r == CLI_OK)
		r = cli_s3_for(&c->job.opts.s3, &c->s3, (const char *const *)c->folder.items,
			       c->folder.nr, &cmd_io);
	if (r == CLI_OK && c->job.gpu)
		r = cli_places_gpus(&c->places, &cmd_io, &c->gpus, c->mapping.nr > 0);
	if (r != CLI_OK)
		return r;
	c->job.targets = c->places.items;
	c->job.own_folder = c->places.own.path ? &c->places.own : NULL;
	c->job.nr_targets = c->places.nr;
	c->job.first_target =
		cli_hosts_rank() * (unsigned)c->places.nr; /* ranks may share a folder */
	cli_hosts_share(&c->job.share);
	if (!c->job.io_size)
		c->job.io_size = io_job_default_size(&c->job);
	r = io_job_check(&c->job, &err);
	return r < 0 ? cli_refuse(&cmd_io, r, err.msg) : CLI_OK;
}

/* ----------------------------------------------------------------- progress */

static void io_progress(void *arg, enum io_step step, uint64_t done, uint64_t total)
{
	static const char *const labels[] = {"prepare", "measure", "limit", "check"};
	struct io_command *c = arg;

	cli_progress_show(&c->progress, step, labels[step], done, total);
}

static void on_ready(void *arg)
{
	struct io_command *c = arg;

	c->ready = true;
	if (c->out.text) {
		io_report_targets(stdout, &c->job);
		fflush(stdout);
	}
}

/* ---------------------------------------------------------------------- run */

static int io_do(void *args, struct cli_outcome *outcome, struct penstock_err *err)
{
	struct io_command *c = args;
	int r;

	c->job.progress = isatty(STDERR_FILENO) ? io_progress : NULL;
	c->job.progress_arg = c;
	c->job.ready = on_ready;
	r = io_job_run(&c->job, &c->res, err);
	outcome->has_result = r == 0 || c->res.partial;
	outcome->refused = r == -EINVAL && !c->ready;
	snprintf(outcome->interrupted, sizeof(outcome->interrupted), "the result is partial, %s",
		 c->job.keep ? "files were kept" : "files it created were removed");
	return r;
}

static int io_write_result(void *args, struct result *r)
{
	struct io_command *c = args;
	const struct io_result *res = &c->res;
	struct io_report rep;
	int status;

	if (c->out.text && res->nr_loops > res->first)
		io_report_text(stdout, &c->job, res);
	if (io_report_result(&rep, r, &c->job, res) < 0) {
		status = cli_fail(&cmd_io, CLI_FAILED, "out of memory");
	} else {
		r->settings = cli_settings(&cmd_io, c);
		if (c->job.opts.s3)
			r->objects = cli_s3_report(c->out.text ? stdout : NULL, c->job.opts.s3);
		json_object_set_new(r->settings, "gpu", json_boolean(c->job.gpu));
		result_finish(r);
		status = cli_outputs_finish(&c->out, r);
	}
	io_report_fini(&rep);
	return status;
}

static int io_dry_run(const struct io_command *c)
{
	struct penstock_err err = {0, ""};
	struct io_plan plan;
	int r = io_job_plan(&c->job, &plan, &err);

	if (r < 0)
		return cli_refuse(&cmd_io, r, err.msg);
	io_report_plan(stdout, &c->job, &plan);
	return CLI_OK;
}

static int io_main(void *args, int argc, char **argv)
{
	struct io_command *c = args;
	int r;

	(void)argc;
	(void)argv;
	c->job.stop = cli_stop_catch();
	r = io_build(c);
	if (r == CLI_OK && c->dry_run) {
		r = io_dry_run(c);
	} else if (r == CLI_OK) {
		r = cli_measure(&(struct cli_measure){&cmd_io, &c->out, &c->files, &c->progress,
						      c->job.stop, io_do, io_write_result},
				c);
	}
	io_result_fini(&c->res);
	cli_places_fini(&c->places, &cmd_io, c->job.keep);
	penstock_s3_close(c->job.opts.s3);
	return r;
}

const struct cli_cmd cmd_io = {
	.name = "io",
	.summary = "throughput of reading or writing whole files with one configuration",
	.opts = io_opts,
	.args_size = sizeof(struct io_command),
	.run = io_main,
};
