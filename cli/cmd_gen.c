/* SPDX-License-Identifier: Apache-2.0 */
/* penstock gen: files of content with stated ratios; load/jobs/gen_files.h has the job. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/gen.h"
#include "base/size.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/opt/transfer_opts.h"
#include "cli/progress.h"
#include "load/jobs/gen_files.h"
#include "load/report/jobs/gen_report.h"
#include "load/report/result/result.h"

#define SIZES_MAX 64

struct gen_command {
	struct gen_job job;
	struct cli_list sizes_given;
	uint64_t count;
	struct cli_result_args files;
	/* what the run needs */
	uint64_t sizes[SIZES_MAX];
	unsigned nr_sizes;
	uint64_t bytes;
	json_t *settings;
	struct cli_outputs out;
	struct cli_progress progress;
	struct gen_result res;
};

static const struct cli_opt gen_opts[] = {
	CLI_GROUP("What"),
	CLI_EACH(struct gen_command, sizes_given, 's', "size", "BYTES", SIZES_MAX,
		 "bytes of a file (1G); given several times: of one after the other, by turns"),
	CLI_U64(struct gen_command, count, 0, "files", "N", "1", 1, 10000000,
		"so many for each FILE: FILE.0, FILE.1, ...", .often = true),
	CLI_U64(struct gen_command, job.seed, 0, "seed", "N", "1", 0, INT64_MAX,
		"another number, other content"),
	CLI_DBL(struct gen_command, job.dedup, 0, "dedup", "RATIO", "1", 1, GEN_DEDUP_MAX,
		"blocks of 4 KiB for each different one, in all files together"),
	CLI_DBL(struct gen_command, job.compress, 0, "compress", "RATIO", "1", 1, GEN_COMPRESS_MAX,
		"what zstd shall make of it: 2 is half the size"),
	CLI_FLAG(struct gen_command, job.verify, 0, "verify",
		 "read files that were written with the same options and compare every byte"),
	CLI_FLAG(struct gen_command, job.overwrite, 0, "overwrite", "replace files that are there"),
	CLI_FLAG(struct gen_command, job.no_crc, 0, "no-crc", "without FILE.crc beside each FILE"),
	CLI_GROUP("How"),
	CLI_TABLE(struct gen_command, job.opts, struct penstock_opts, cli_engine_opts),
	CLI_GROUP("Output"),
	CLI_TABLE(struct gen_command, files, struct cli_result_args, cli_result_opts),
	CLI_END,
};

/* ------------------------------------------------------------- from options */

static int parse_sizes(struct gen_command *c)
{
	const struct cli_list *l = &c->sizes_given;

	c->nr_sizes = l->nr ? (unsigned)l->nr : 1;
	c->sizes[0] = 1u << 30;
	for (unsigned i = 0; i < l->nr; i++)
		if (penstock_size_parse(&c->sizes[i], l->items[i]) < 0 || c->sizes[i] > 1ull << 50)
			return cli_usage(&cmd_gen,
					 "--size: '%s' is not a size of 0..1P; give bytes, or a "
					 "number with K, M, G or T",
					 l->items[i]);
	return CLI_OK;
}

static int name_files(struct gen_command *c, int argc, char **argv)
{
	struct gen_job *job = &c->job;

	job->nr = (uint64_t)argc * c->count;
	job->files = calloc(job->nr, sizeof(*job->files));
	if (!job->files)
		return cli_fail(&cmd_gen, CLI_FAILED, "out of memory");
	for (uint64_t i = 0; i < job->nr; i++) {
		struct gen_file *f = &job->files[i];
		const char *name = argv[i / c->count];
		int n = c->count == 1 ? asprintf(&f->path, "%s", name)
				      : asprintf(&f->path, "%s.%llu", name,
						 (unsigned long long)(i % c->count));

		if (n < 0) {
			f->path = NULL;
			return cli_fail(&cmd_gen, CLI_FAILED, "out of memory");
		}
		f->len = c->sizes[i % c->nr_sizes];
	}
	return CLI_OK;
}

static void set_settings(struct gen_command *c)
{
	json_t *sizes = json_array();

	for (unsigned i = 0; i < c->nr_sizes; i++)
		json_array_append_new(sizes, json_integer((json_int_t)c->sizes[i]));
	c->settings = cli_settings(&cmd_gen, c);
	json_object_set_new(c->settings, "size", sizes);
}

static int gen_build(struct gen_command *c, int argc, char **argv)
{
	struct penstock_err err = {0, ""};
	int r;

	if (!argc)
		return cli_usage(&cmd_gen, "name at least one FILE");
	if (c->job.verify && c->job.overwrite)
		return cli_usage(&cmd_gen, "--verify and --overwrite exclude each other");
	r = parse_sizes(c);
	if (r == CLI_OK)
		r = cli_opts_check(&c->job.opts, &cmd_gen);
	if (r == CLI_OK)
		r = name_files(c, argc, argv);
	if (r != CLI_OK)
		return r;
	set_settings(c);
	r = gen_files_plan(&c->job, &c->bytes, &err);
	return r < 0 ? cli_refuse(&cmd_gen, r, err.msg) : CLI_OK;
}

/* -------------------------------------------------------------------- the job */

static void gen_progress(void *arg, uint64_t bytes)
{
	struct gen_command *c = arg;

	cli_progress_update(&c->progress, bytes);
}

static int gen_write_result(void *args, struct result *r)
{
	struct gen_command *c = args;
	const struct gen_result *res = &c->res;
	struct result_target target = {.folder = res->folder, .info = res->path};

	r->targets = &target;
	r->nr_targets = 1;
	r->settings = json_incref(c->settings);
	r->series = &res->series;
	r->nr_series = 1;
	r->bytes_written = series_written(&res->series);
	result_finish(r);
	if (c->out.text)
		gen_report_text(stdout, &c->job, res);
	return cli_outputs_finish(&c->out, r);
}

static int gen_do(void *args, struct cli_outcome *outcome, struct penstock_err *err)
{
	struct gen_command *c = args;
	int r;

	c->job.progress = gen_progress;
	c->job.arg = c;
	cli_progress_start(&c->progress, c->job.verify ? "Verify:" : "Write:", c->bytes);
	r = gen_files_run(&c->job, &c->res, err);
	outcome->has_result = c->res.series.ops > 0;
	snprintf(outcome->interrupted, sizeof(outcome->interrupted),
		 "%llu of %llu files are complete", (unsigned long long)c->res.series.ops,
		 (unsigned long long)c->job.nr);
	return r;
}

static int gen_main(void *args, int argc, char **argv)
{
	struct gen_command *c = args;
	int r;

	c->job.stop = cli_stop_catch();
	r = gen_build(c, argc, argv);
	if (r == CLI_OK)
		r = cli_measure(&(struct cli_measure){&cmd_gen, &c->out, &c->files, &c->progress,
						      c->job.stop, gen_do, gen_write_result},
				c);
	gen_result_fini(&c->res);
	for (uint64_t i = 0; c->job.files && i < c->job.nr; i++)
		free(c->job.files[i].path);
	free(c->job.files);
	json_decref(c->settings);
	return r;
}

const struct cli_cmd cmd_gen = {
	.name = "gen",
	.summary = "files of content with stated ratios of deduplication and compression",
	.usage = "FILE...",
	.operands = "w",
	.opts = gen_opts,
	.args_size = sizeof(struct gen_command),
	.run = gen_main,
};
