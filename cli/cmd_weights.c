/* SPDX-License-Identifier: Apache-2.0 */
/* penstock weights: weights through a window, as a model larger than memory needs them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/cli_s3.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/report/jobs/weights_report.h"
#include "load/report/result/result.h"
#include "load/weights/weights_job.h"

#define WEIGHTS_GPUS_MAX 1024

struct weights_command {
	struct weights_job job;
	struct cli_list gpu;
	bool dry_run;
	struct penstock_s3_opts s3;
	struct cli_result_args files;
	/* what the run needs */
	json_t *settings;
	struct cli_outputs out;
	struct cli_progress progress;
	struct weights_result res;
};

static const struct cli_opt weights_opts[] = {
	CLI_GROUP("What"),
	CLI_U32(struct weights_command, job.batch, 0, "batch", "N", "96", 1, 1u << 20,
		"tokens that a step makes, one for each of so many sequences", .often = true),
	CLI_DBL(struct weights_command, job.compute_ms, 'c', "compute-ms", "MS", "0", 0, 60000,
		"time that a group is held for"),
	CLI_ENUM(struct weights_command, job.by, 0, "by", weights_by_words, "layer",
		 "what is used at once, of a model on disk"),
	CLI_STR(struct weights_command, job.experts, 0, "experts", "TRACE|zipf", NULL,
		"read the experts that tokens use: drawn by Zipf's law, or lines of a layer and "
		"its experts"),
	CLI_U32(struct weights_command, job.active, 0, "active", "N", NULL, 1, 64,
		"experts of a token and layer, with zipf; default: as the model has them, or 2"),
	CLI_FLAG(struct weights_command, job.ahead, 0, "ahead",
		 "with --experts: read those of the next layer beside this one's use"),
	CLI_DBL(struct weights_command, job.sec, 0, "runtime", "SECONDS", "12", 0.1, 86400,
		"to measure for, in turns with the limit"),
	CLI_U64(struct weights_command, job.seed, 0, "seed", "N", "1", 0, INT64_MAX,
		"of what is drawn"),
	CLI_GROUP("A model that is known by its shape"),
	CLI_PLACE(struct weights_command, job.folder, 'f', "folder", "FOLDER", ".",
		  "where its file is made: in a new folder in this one, removed at the end"),
	CLI_SIZE(struct weights_command, job.size, 's', "size", "BYTES", "4G", 1, 1ull << 50,
		 "of that file, whose blocks are read again and again"),
	CLI_U32(struct weights_command, job.bits, 0, "bits", "N", NULL, 1, 64,
		"of a parameter; default: as it is published"),
	CLI_GROUP("How"),
	CLI_SIZE(struct weights_command, job.window, 0, "window", "BYTES", "2G", 1u << 20,
		 1ull << 50, "memory that the weights pass through", .often = true),
	CLI_LIST(struct weights_command, gpu, 0, "gpu", "ID", NULL, 0, 1,
		 "the window is memory of a GPU; default: of the first"),
	CLI_TABLE(struct weights_command, job.opts, struct penstock_opts, cli_engine_opts),
	CLI_GROUP("Object stores"),
	CLI_TABLE(struct weights_command, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Yardsticks"),
	CLI_LIMIT(struct weights_command, job.limit, job.measure_limit),
	CLI_GROUP("Output"),
	CLI_DRY_RUN(struct weights_command, dry_run, .quiet = true),
	CLI_TABLE(struct weights_command, files, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* --gpu, or --gpu=ID. */
static int weights_set_gpu(struct weights_command *c)
{
	int64_t id = 0;

	c->job.gpu = c->gpu.given;
	if (c->gpu.nr &&
	    (cli_int_parse(&id, c->gpu.items[0]) < 0 || id < 0 || id > WEIGHTS_GPUS_MAX))
		return cli_usage(&cmd_weights, "--gpu: '%s' is not a GPU's number in 0..%d",
				 c->gpu.items[0], WEIGHTS_GPUS_MAX);
	c->job.device = (uint32_t)id;
	return CLI_OK;
}

static int weights_build(struct weights_command *c, int argc, char **argv,
			 struct weights_plan *plan)
{
	const struct cli_pair pairs[] = {
		{c->job.limit && !c->job.measure_limit, "--limit and --no-limit"},
	};
	struct penstock_err err = {0, ""};
	int r;

	if (argc != 1)
		return cli_usage(&cmd_weights,
				 "name one MODEL: a file, a folder, or the name of a shape");
	c->job.model = argv[0];
	r = cli_exclude(&cmd_weights, pairs, ARRAY_SIZE(pairs));
	if (r == CLI_OK)
		r = weights_set_gpu(c);
	if (r == CLI_OK && c->job.ahead && !c->job.experts)
		r = cli_usage(&cmd_weights, "--ahead is about experts: it needs --experts");
	if (r == CLI_OK)
		r = cli_opts_check(&c->job.opts, &cmd_weights);
	if (r == CLI_OK)
		r = cli_s3_for(&c->job.opts.s3, &c->s3, (const char *const *)argv, 1, &cmd_weights);
	if (r != CLI_OK)
		return r;
	c->settings = cli_settings(&cmd_weights, c);
	json_object_set_new(c->settings, "gpu", json_boolean(c->job.gpu));
	r = weights_make_plan(&c->job, plan, &err);
	return r < 0 ? cli_refuse(&cmd_weights, r, err.msg) : CLI_OK;
}

static void weights_progress(void *arg, uint64_t done, uint64_t total)
{
	struct weights_command *c = arg;

	cli_progress_show(&c->progress, 0, "Read:", done, total);
}

static int weights_write_result(void *args, struct result *r)
{
	struct weights_command *c = args;
	const struct weights_result *res = &c->res;
	struct result_target target = {
		.folder = res->plan.shape ? c->job.folder : c->job.model,
		.info = res->path,
	};

	r->targets = &target;
	r->nr_targets = 1;
	r->settings = json_incref(c->settings);
	r->series = &res->series;
	r->nr_series = 1;
	r->weights = weights_report_json(&c->job, res);
	r->bytes_written = res->made;
	result_finish(r);
	if (c->out.text)
		weights_report_text(stdout, &c->job, res);
	if (c->job.opts.s3)
		r->objects = cli_s3_report(c->out.text ? stdout : NULL, c->job.opts.s3);
	return cli_outputs_finish(&c->out, r);
}

static int weights_do(void *args, struct cli_outcome *outcome, struct penstock_err *err)
{
	struct weights_command *c = args;
	int r;

	c->job.progress = isatty(STDERR_FILENO) ? weights_progress : NULL;
	c->job.arg = c;
	r = weights_run(&c->job, &c->res, err);
	outcome->has_result = c->res.ran;
	snprintf(outcome->interrupted, sizeof(outcome->interrupted), "the result is partial");
	return r;
}

static int weights_main(void *args, int argc, char **argv)
{
	struct weights_command *c = args;
	struct weights_plan plan;
	int r;

	c->job.stop = cli_stop_catch();
	r = weights_build(c, argc, argv, &plan);
	if (r == CLI_OK && c->dry_run) {
		weights_report_plan(stdout, &c->job, &plan);
	} else if (r == CLI_OK) {
		r = cli_measure(&(struct cli_measure){&cmd_weights, &c->out, &c->files,
						      &c->progress, c->job.stop, weights_do,
						      weights_write_result},
				c);
	}
	weights_result_fini(&c->res);
	json_decref(c->settings);
	penstock_s3_close(c->job.opts.s3);
	return r;
}

const struct cli_cmd cmd_weights = {
	.name = "weights",
	.summary = "weights larger than memory: the bound, and what is reached",
	.usage = "MODEL",
	.operands = "i",
	.notes = "MODEL is a file or folder of safetensors or GGUF, s3://BUCKET/PREFIX/\n"
		 "or an object of such, a swap folder of\n"
		 "DeepSpeed, or a shape: llama-8b, llama-70b, llama-405b, bloom-176b,\n"
		 "mixtral-8x7b, mixtral-8x22b, deepseek-v3.\n",
	.opts = weights_opts,
	.args_size = sizeof(struct weights_command),
	.run = weights_main,
};
