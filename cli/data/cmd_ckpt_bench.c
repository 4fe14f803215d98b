/* SPDX-License-Identifier: Apache-2.0 */
/* penstock ckpt bench: checkpoints saved and loaded by several processes; see load/jobs/ckpt.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/gen.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/jobs/ckpt.h"
#include "load/report/jobs/ckpt_report.h"
#include "load/report/result/result.h"

struct ckpt_command {
	struct ckpt_job job;
	struct cli_list methods;
	bool dry_run;
	struct cli_result_args files;
	/* what the run needs */
	json_t *settings;
	struct cli_outputs out;
	struct cli_progress progress;
	struct ckpt_result res;
};

static const struct cli_opt ckpt_opts[] = {
	CLI_GROUP("Where"),
	CLI_PLACE(struct ckpt_command, job.folder, 'f', "folder", "FOLDER", ".",
		  "where to measure: in a new folder in this one, removed at the end"),
	CLI_GROUP("What"),
	CLI_ENUM(struct ckpt_command, job.model, 0, "model", ckpt_model_words, "none",
		 "the shape of a checkpoint of MLPerf Storage, in its mode of 8 processes",
		 .often = true),
	CLI_SIZE(struct ckpt_command, job.size, 's', "size", "BYTES", NULL, 1, 1ull << 50,
		 "of each process; default: 128M, or what the model says"),
	CLI_U32(struct ckpt_command, job.processes, 'p', "processes", "N", NULL, 1, 1024,
		"on this host, each with a file of its own; default: 4, or 8 with --model"),
	CLI_U32(struct ckpt_command, job.saves, 0, "saves", "N", "10", 0, 100000,
		"checkpoints saved by each method"),
	CLI_U32(struct ckpt_command, job.loads, 0, "loads", "N", "10", 0, 100000,
		"checkpoints loaded, with an empty page cache"),
	CLI_LIST(struct ckpt_command, methods, 0, "methods", "NAME", NULL, 1, CKPT_METHODS,
		 "memory, streaming, torch; default: all, torch where it is installed"),
	CLI_FLAG(struct ckpt_command, job.distinct, 0, "distinct",
		 "keep every save until the end, as MLPerf does; default: each replaces the one "
		 "before"),
	CLI_U64(struct ckpt_command, job.seed, 0, "seed", "N", "1", 0, INT64_MAX, "of the content"),
	CLI_DBL(struct ckpt_command, job.dedup, 0, "dedup", "RATIO", "1", 1, GEN_DEDUP_MAX,
		"blocks of 4 KiB for each different one, of a process"),
	CLI_DBL(struct ckpt_command, job.compress, 0, "compress", "RATIO", "1", 1, GEN_COMPRESS_MAX,
		"what zstd shall make of the content"),
	CLI_GROUP("How"),
	CLI_SIZE(struct ckpt_command, job.chunk, 0, "chunk", "BYTES", "32M", 1u << 20, 1u << 30,
		 "of a buffer of a process, a multiple of 1M"),
	CLI_U32(struct ckpt_command, job.buffers, 0, "buffers", "N", "4", 2, 64,
		"of each process, beside the memory of method `memory'"),
	CLI_TABLE(struct ckpt_command, job.opts, struct penstock_opts, cli_engine_opts),
	CLI_STR(struct ckpt_command, job.python, 0, "python", "NAME", "python3",
		"the interpreter that has torch"),
	CLI_GROUP("Yardsticks"),
	CLI_LIMIT(struct ckpt_command, job.limit, job.measure_limit),
	CLI_GROUP("Output"),
	CLI_FLAG(struct ckpt_command, dry_run, 0, "dry-run",
		 "print what would run, what it would write and what it needs", .quiet = true),
	CLI_TABLE(struct ckpt_command, files, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* ------------------------------------------------------------- from options */

static int parse_methods(struct ckpt_command *c)
{
	const struct cli_list *l = &c->methods;

	for (unsigned m = 0; m < CKPT_METHODS && !l->nr; m++)
		c->job.methods[m] = true;
	for (size_t i = 0; i < l->nr; i++) {
		unsigned m = 0;

		while (m < CKPT_METHODS && strcmp(l->items[i], ckpt_method_words[m]) != 0)
			m++;
		if (m == CKPT_METHODS)
			return cli_usage(&cmd_ckpt_bench,
					 "--methods: '%s' is none of memory, streaming, torch",
					 l->items[i]);
		c->job.methods[m] = true;
	}
	return CLI_OK;
}

static int ckpt_build(struct ckpt_command *c)
{
	struct penstock_err err = {0, ""};
	const struct cli_pair pairs[] = {
		{c->job.model && c->job.size, "--model and --size"},
		{c->job.limit && !c->job.measure_limit, "--limit and --no-limit"},
	};
	int r = cli_exclude(&cmd_ckpt_bench, pairs, ARRAY_SIZE(pairs));

	if (r == CLI_OK)
		r = parse_methods(c);
	if (r == CLI_OK && !is_aligned(c->job.chunk, 1u << 20))
		r = cli_usage(&cmd_ckpt_bench, "--chunk: %llu is not a multiple of 1M",
			      (unsigned long long)c->job.chunk);
	if (r == CLI_OK)
		r = cli_opts_check(&c->job.opts, &cmd_ckpt_bench);
	if (r != CLI_OK)
		return r;
	c->settings = cli_settings(&cmd_ckpt_bench, c);
	r = ckpt_check(&c->job, &err);
	return r < 0 ? cli_refuse(&cmd_ckpt_bench, r, err.msg) : CLI_OK;
}

/* -------------------------------------------------------------------- the job */

static void ckpt_progress(void *arg, unsigned method, bool read, uint64_t done, uint64_t total)
{
	struct ckpt_command *c = arg;
	char label[32];

	snprintf(label, sizeof(label), "%s %s:", read ? "Load" : "Save", ckpt_method_words[method]);
	cli_progress_show(&c->progress, 2 * method + read, label, done, total);
}

static int ckpt_write_result(void *args, struct result *r)
{
	struct ckpt_command *c = args;
	const struct ckpt_result *res = &c->res;
	int status;
	struct result_target target = {.folder = c->job.folder, .info = res->path};

	r->targets = &target;
	r->nr_targets = 1;
	r->settings = json_incref(c->settings);
	r->series = res->series;
	r->nr_series = res->nr_series;
	r->ckpt = ckpt_report_json(&c->job, res);
	r->bytes_written = res->limit_bytes;
	for (unsigned i = 0; i < res->nr_series; i++)
		r->bytes_written += series_written(&res->series[i]);
	result_finish(r);
	if (c->out.text)
		ckpt_report_text(stdout, &c->job, res);
	status = cli_outputs_finish(&c->out, r);
	if (status == CLI_OK && !res->nr_series)
		status = cli_fail(&cmd_ckpt_bench, CLI_UNSUPPORTED,
				  "nothing was measured: no method could be used here");
	return status;
}

static int ckpt_do(void *args, struct cli_outcome *outcome, struct penstock_err *err)
{
	struct ckpt_command *c = args;
	int r;

	c->job.progress = isatty(STDERR_FILENO) ? ckpt_progress : NULL;
	c->job.arg = c;
	r = ckpt_run(&c->job, &c->res, err);
	outcome->has_result = c->res.nr_series || r == 0;
	return r;
}

static int ckpt_main(void *args, int argc, char **argv)
{
	struct ckpt_command *c = args;
	struct ckpt_plan plan;
	int r;

	(void)argc;
	(void)argv;
	c->job.stop = cli_stop_catch();
	r = ckpt_build(c);
	if (r == CLI_OK && c->dry_run) {
		ckpt_plan(&c->job, &plan);
		ckpt_report_plan(stdout, &c->job, &plan);
	} else if (r == CLI_OK) {
		r = cli_measure(&(struct cli_measure){&cmd_ckpt_bench, &c->out, &c->files,
						      &c->progress, c->job.stop, ckpt_do,
						      ckpt_write_result},
				c);
	}
	ckpt_result_fini(&c->res);
	json_decref(c->settings);
	return r;
}

const struct cli_cmd cmd_ckpt_bench = {
	.name = "ckpt bench",
	.summary = "save and load checkpoints by several processes, three methods side by side",
	.opts = ckpt_opts,
	.args_size = sizeof(struct ckpt_command),
	.run = ckpt_main,
};
