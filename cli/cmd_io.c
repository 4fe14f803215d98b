/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice io: throughput of one configuration.  Speaks the options and the result
 * lines of DeepSpeed's ds_io; load/run/io.h has the job, load/report the output.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sluice/sluice.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/opt/config.h"
#include "cli/opt/how.h"
#include "cli/opt/places.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/stop.h"
#include "load/jobs/io.h"
#include "load/measure/null.h"
#include "load/report/jobs/io_report.h"
#include "load/report/result/result.h"
#include "load/report/result/text.h"

struct io_args {
	struct cli_list folder;
	struct cli_list mapping;
	struct cli_list gpu;
	uint64_t io_size;
	uint64_t block_size;
	uint64_t seed;
	uint64_t limit;
	uint32_t multi_process;
	uint32_t loops;
	uint32_t warmup_loops;
	uint32_t queue_depth;
	uint32_t io_parallel;
	uint32_t direct;
	uint32_t durability;
	uint32_t huge;
	uint32_t memory;
	const char *engine;
	const char *config;
	bool read;
	bool include_warmup_time;
	bool different_file;
	bool single_submit;
	bool sequential_requests;
	bool lock;
	bool gds;
	bool slow_bounce_buffer;
	bool accelerator_pin;
	bool validate;
	bool keep;
	bool overwrite;
	bool measure_limit;
	struct cli_result_args out;
};

static const struct cli_opt io_opts[] = {
	CLI_GROUP("Where"),
	CLI_PLACES(struct io_args, folder, 'f', "folder", "FOLDER", NULL, 1, CLI_PLACES_MAX,
		   "where the files go, one worker each; default: a folder of its own under the "
		   "current one, removed at the end"),
	CLI_PLACES(struct io_args, mapping, 0, "folder_to_device_mapping", "FOLDER:DEVICE", NULL, 1,
		   CLI_PLACES_MAX, "the same; with --gpu, the GPU of each, else only a label"),
	CLI_U32(struct io_args, multi_process, 0, "multi_process", "N", "1", 1, CLI_PLACES_MAX,
		"workers per --folder"),
	CLI_GROUP("What"),
	CLI_FLAG(struct io_args, read, 'r', "read", "read; default: write"),
	CLI_SIZE(struct io_args, io_size, 's', "io_size", "BYTES", NULL, 1, 1ull << 50,
		 "bytes per operation; default: 1G, or less where space or memory is short"),
	CLI_U32(struct io_args, loops, 0, "loops", "N", "3", 1, 1000000, "operations measured"),
	CLI_U32(struct io_args, warmup_loops, 0, "warmup_loops", "N", "1", 0, 1000000,
		"operations before them"),
	CLI_FLAG(struct io_args, include_warmup_time, 0, "include_warmup_time",
		 "count the warm-up too, its time and its bytes"),
	CLI_FLAG(struct io_args, different_file, 0, "different_file_each_iteration",
		 "a file per operation instead of one for all"),
	CLI_FLAG(struct io_args, validate, 0, "validate",
		 "compare every byte, outside the measured time"),
	CLI_U64(struct io_args, seed, 0, "seed", "N", "1", 0, INT64_MAX, "of the data"),
	CLI_GROUP("How"),
	CLI_STR(struct io_args, engine, 'e', "engine", "NAME", NULL,
		"as `sluice info' lists them; default, aio_handle and aio_basic: the first usable"),
	CLI_IN(struct io_args, config, 0, "config", "FILE", NULL,
	       "settings as `sluice tune' and DeepSpeed have them, where no option below is "
	       "given"),
	CLI_SIZE(struct io_args, block_size, 'b', "block_size", "BYTES", NULL, 512, 1ull << 30,
		 "bytes per block; default: what suits the device, near 1M"),
	CLI_U32(struct io_args, queue_depth, 'd', "queue_depth", "N", NULL, 1, 4096,
		"blocks in flight per I/O thread; default: 32"),
	CLI_U32(struct io_args, io_parallel, 't', "io_parallel", "N", NULL, 1, 256,
		"I/O threads per worker; default: 1"),
	CLI_ALIAS("threads"),
	CLI_FLAG(struct io_args, single_submit, 0, "single_submit", "submit blocks one by one"),
	CLI_FLAG(struct io_args, sequential_requests, 0, "sequential_requests",
		 "let the queue run empty before it is filled again"),
	CLI_ENUM(struct io_args, direct, 0, "direct", io_direct_words, "auto",
		 "use O_DIRECT: where it works, or fail, or not at all"),
	CLI_ENUM(struct io_args, durability, 0, "durability", io_durability_words, "none",
		 "end each write with nothing, fdatasync, or fsync of file and folder"),
	CLI_ENUM(struct io_args, huge, 0, "huge", io_huge_words, "auto",
		 "huge pages for the library's memory: transparent, set aside by the "
		 "administrator, or none"),
	CLI_ENUM(struct io_args, memory, 0, "memory", bed_host_words, "own",
		 "buffers: the library's own, plain 4 KiB pages, or plain at an odd address"),
	CLI_FLAG(struct io_args, lock, 0, "lock", "lock the buffers in memory"),
	CLI_LIST(struct io_args, gpu, 0, "gpu", "ID", NULL, 0, CLI_PLACES_MAX,
		 "buffers in GPU memory; workers take these devices in turn, default: all"),
	CLI_FLAG(struct io_args, gds, 0, "gds", "with --gpu: by cuFile (GPUDirect Storage)"),
	CLI_ALIAS("use_gds"),
	CLI_GROUP("Files and limits"),
	CLI_FLAG(struct io_args, keep, 'k', "keep", "leave the files that were created"),
	CLI_FLAG(struct io_args, overwrite, 0, "overwrite",
		 "replace files of these names that hold something else"),
	CLI_SIZE(struct io_args, limit, 0, "limit", "BYTES", NULL, 1, 1ull << 60,
		 "what the device can do per second; the result is shown as a share of it"),
	CLI_FLAG(struct io_args, measure_limit, 0, "measure_limit",
		 "find that out with plain threads of pread or pwrite; takes 1.5 s"),
	CLI_GROUP("For scripts written for ds_io"),
	CLI_FLAG(struct io_args, slow_bounce_buffer, 0, "slow_bounce_buffer",
		 "ignored: there is one way through the host, the ring"),
	CLI_FLAG(struct io_args, accelerator_pin, 0, "use_accelerator_pin_memory",
		 "ignored: see --memory and --lock"),
	CLI_GROUP("Output"),
	CLI_TABLE(struct io_args, out, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* A job, and what has to be given back after it. */
struct io_command {
	const struct io_args *args;
	struct io_job job;
	struct cli_places places;
	struct cli_progress progress;
	struct cli_outputs out;
	const atomic_int *stop;
	int step;   /* shown last */
	bool ready; /* what was refused before is bad input */
};

/* ------------------------------------------------------------- from options */

static int pick_engine(struct io_command *c)
{
	const char *name = c->args->engine;

	if (c->args->gds)
		name = "cufile";
	if (!name)
		return CLI_OK; /* or what the configuration says */
	if (!strcmp(name, "torch_io") || !strcmp(name, "torch_fastio"))
		return cli_fail(
			&cmd_io, CLI_UNSUPPORTED,
			"--engine: '%s' is torch's own I/O, which this command does not have",
			name);
	return cli_engine(&c->job.opts.engine, name, &cmd_io);
}

static void set_job(struct io_job *job, const struct io_args *a)
{
	*job = (struct io_job){
		.read = a->read,
		.loops = a->loops,
		.warmup = a->warmup_loops,
		.include_warmup = a->include_warmup_time,
		.different_file = a->different_file,
		.validate = a->validate,
		.keep = a->keep,
		.overwrite = a->overwrite,
		.seed = a->seed,
		.memory = a->memory,
		.lock = a->lock,
		.gpu = a->gpu.given,
		.gds = a->gds,
		.opts = SLUICE_OPTS_INIT,
		.limit = a->limit,
		.measure_limit = a->measure_limit,
	};
	job->opts.direct = a->direct;
	job->opts.durability = a->durability;
	job->opts.huge = a->huge;
}

/* Defaults, then what the file says, then what options say. */
static int set_how(struct sluice_opts *opts, const struct io_args *a)
{
	int r = CLI_OK;

	opts->depth = 32;
	opts->threads = 1;
	if (a->config)
		r = cli_config_read(opts, &cmd_io, a->config);
	opts->depth = a->queue_depth ? a->queue_depth : opts->depth;
	opts->block = a->block_size ? a->block_size : opts->block;
	opts->threads = a->io_parallel ? a->io_parallel : opts->threads;
	opts->flags |= (a->single_submit ? SLUICE_SINGLE_SUBMIT : 0) |
		       (a->sequential_requests ? SLUICE_NO_OVERLAP : 0);
	return r;
}

/* What does not go together, and what is taken note of. */
static int check_args(const struct io_args *a)
{
	if (a->limit && a->measure_limit)
		return cli_usage(&cmd_io, "--limit and --measure_limit exclude each other");
	if (a->read && a->durability)
		return cli_usage(&cmd_io, "--read and --durability, which is of writes, exclude "
					  "each other");
	if ((a->limit || a->measure_limit) && engine_is_null(a->engine))
		return cli_usage(&cmd_io,
				 "%s and --engine null, which moves nothing, exclude each other",
				 a->limit ? "--limit" : "--measure_limit");
	if (a->gds && !a->gpu.given)
		return cli_usage(&cmd_io, "--gds moves GPU memory: it needs --gpu");
	if (a->gds && a->engine && strcmp(a->engine, "cufile") != 0)
		return cli_usage(&cmd_io, "--gds is the engine cufile: leave out --engine");
	if (a->gpu.given && a->lock)
		return cli_usage(&cmd_io, "--lock is for the host's memory: leave it out");
	if (a->slow_bounce_buffer)
		cli_note(&cmd_io, "--slow_bounce_buffer is ignored: there is one way through the "
				  "host, the ring");
	if (a->accelerator_pin)
		cli_note(&cmd_io,
			 "--use_accelerator_pin_memory is ignored: see --memory and --lock");
	return CLI_OK;
}

static int build_job(struct io_command *c)
{
	struct sluice_err err = {0, ""};
	int r;

	set_job(&c->job, c->args);
	c->job.stop = c->stop;
	r = check_args(c->args);
	if (r == CLI_OK)
		r = set_how(&c->job.opts, c->args);
	if (r == CLI_OK)
		r = pick_engine(c);
	if (r == CLI_OK)
		r = cli_places_init(&c->places, &cmd_io, &c->args->folder, &c->args->mapping,
				    c->args->multi_process);
	if (r == CLI_OK && c->job.gpu)
		r = cli_places_gpus(&c->places, &cmd_io, &c->args->gpu, c->args->mapping.nr > 0);
	if (r != CLI_OK)
		return r;
	c->job.places = c->places.items;
	c->job.nr_places = c->places.nr;
	c->job.io_size = c->args->io_size ? c->args->io_size : io_job_default_size(&c->job);
	r = io_job_check(&c->job, &err);
	if (r == -EINVAL)
		return cli_usage(&cmd_io, "%s", err.msg);
	if (r < 0)
		return cli_fail(&cmd_io,
				r == -ENOTSUP || r == -ENODEV ? CLI_UNSUPPORTED : CLI_FAILED, "%s",
				err.msg);
	return CLI_OK;
}

/* ----------------------------------------------------------------- progress */

static void show_progress(void *arg, enum io_step step, uint64_t done, uint64_t total)
{
	static const char *const labels[] = {"prepare", "measure", "limit", "check"};
	struct io_command *c = arg;

	if (c->step != (int)step) {
		c->step = (int)step;
		cli_progress_label(&c->progress, labels[step], total);
	}
	cli_progress_update(&c->progress, done);
}

static void on_ready(void *arg)
{
	struct io_command *c = arg;

	c->ready = true;
	if (c->out.text) {
		io_report_places(stdout, &c->job);
		fflush(stdout);
	}
}

/* ---------------------------------------------------------------------- run */

/* Returns what io_job_run() does, having said what went wrong; *@status is the exit status. */
static int run_job(struct io_command *c, struct io_result *res, int *status)
{
	struct sluice_err err = {0, ""};
	int r;

	c->step = -1;
	cli_progress_start(&c->progress, "prepare", 0);
	c->job.progress = c->progress.on ? show_progress : NULL;
	c->job.progress_arg = c;
	c->job.ready = on_ready;
	r = io_job_run(&c->job, res, &err);
	cli_progress_end(&c->progress);
	*status = CLI_OK;
	if (r == -ECANCELED && *c->job.stop)
		*status = cli_fail(
			&cmd_io, 128 + *c->job.stop, "interrupted; the result is partial, %s",
			c->job.keep ? "files were kept" : "files it created were removed");
	else if (r < 0)
		*status = cli_fail(&cmd_io,
				   !c->ready && (r == -ENOSPC || r == -ENOMEM) ? CLI_USAGE
									       : CLI_FAILED,
				   "%s", err.msg);
	return r;
}

static json_t *words_json(const struct cli_list *list)
{
	json_t *j = list->nr ? json_array() : json_null();

	for (size_t i = 0; i < list->nr; i++)
		json_array_append_new(j, report_str(list->items[i]));
	return j;
}

/* Fill the files that were asked for. */
static int write_result(struct io_command *c, struct result *r, const struct io_result *res)
{
	struct io_report rep;
	int status;

	if (io_report_result(&rep, r, &c->job, res) < 0) {
		status = cli_fail(&cmd_io, CLI_FAILED, "out of memory");
	} else {
		json_object_set_new(r->settings, "folder", words_json(&c->args->folder));
		json_object_set_new(r->settings, "folder_to_device_mapping",
				    words_json(&c->args->mapping));
		json_object_set_new(r->settings, "multi_process",
				    json_integer(c->args->multi_process));
		result_finish(r);
		status = cli_outputs_finish(&c->out, r);
	}
	io_report_fini(&rep);
	return status;
}

/* Run, then report to where it was asked for. */
static int run_and_report(struct io_command *c)
{
	struct io_result res;
	struct result result;
	int r, status;

	result_init(&result, "io");
	r = run_job(c, &res, &status);
	if (r < 0 && !res.partial)
		return status;
	if (c->out.text && res.nr_loops > res.first)
		io_report_text(stdout, &c->job, &res);
	if (r < 0) {
		result.partial = true;
		snprintf(result.partial_why, sizeof(result.partial_why), "interrupted");
	}
	r = write_result(c, &result, &res);
	result_fini(&result);
	io_result_fini(&res);
	return status != CLI_OK ? status : r;
}

static int io_main(void *args, int argc, char **argv)
{
	struct io_command c = {.args = args};
	int r;

	(void)argc;
	(void)argv;
	c.stop = cli_stop_catch();
	r = build_job(&c);
	if (r == CLI_OK)
		r = cli_outputs_open(&c.out, &cmd_io, &c.args->out);
	if (r == CLI_OK)
		r = run_and_report(&c);
	cli_outputs_abandon(&c.out);
	cli_places_fini(&c.places, &cmd_io);
	return r;
}

const struct cli_cmd cmd_io = {
	.name = "io",
	.summary = "throughput of reading or writing whole files with one configuration",
	.opts = io_opts,
	.args_size = sizeof(struct io_args),
	.run = io_main,
};
