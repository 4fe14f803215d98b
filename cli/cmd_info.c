/* SPDX-License-Identifier: Apache-2.0 */
/*
 * penstock info: what this machine and these paths can do, and why not the rest.
 * Collects everything first; nothing is measured unless asked for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/cli_s3.h"
#include "cli/info.h"
#include "cli/opt/opt_file.h"
#include "cli/opt/opt_json.h"

struct info_args {
	bool measure_gpu, try_put;
	struct penstock_s3_opts s3;
	struct cli_output out;
};

static const struct cli_opt info_opts[] = {
	CLI_GROUP("What"),
	CLI_FLAG(struct info_args, measure_gpu, 0, "measure-gpu",
		 "measure how fast each GPU copies, and open cuFile's driver; takes seconds",
		 .often = true),
	CLI_GROUP("Object store"),
	CLI_FLAG(struct info_args, try_put, 0, "try-put",
		 "put a small object below each s3:// URI, read and remove it", .often = true),
	CLI_TABLE(struct info_args, s3, struct penstock_s3_opts, cli_s3_opts),
	CLI_GROUP("Output"),
	CLI_TABLE(struct info_args, out, struct cli_output, cli_output_opts),
	CLI_END,
};

/* ----------------------------------------------------------------- collect */

/* Never picked: of no use without a GPU, or moving no bytes by themselves. */
static bool by_name_only(const char *engine)
{
	return !strcmp(engine, "cufile") || !strcmp(engine, "null") || !strcmp(engine, "fault");
}

/* Engines that need a library, which may have been missing when this was built. */
static const char *const optional_engines[] = {"io_uring", "libaio"};

static int collect_engines(struct info *in)
{
	size_t n = 0;

	while (penstock_engine_name((unsigned)n))
		n++;
	in->engines = calloc(n + ARRAY_SIZE(optional_engines), sizeof(*in->engines));
	if (!in->engines)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		in->engines[in->nr_engines++].name = penstock_engine_name((unsigned)i);
	for (size_t i = 0; i < ARRAY_SIZE(optional_engines); i++)
		if (!penstock_engine_descr(optional_engines[i]))
			in->engines[in->nr_engines++].name = optional_engines[i];
	for (size_t i = 0; i < in->nr_engines; i++) {
		struct info_engine *e = &in->engines[i];

		e->descr = penstock_engine_descr(e->name);
		e->usable = penstock_engine_probe(e->name, &e->why) == 0;
		e->by_name_only = by_name_only(e->name);
		in->usable |= e->usable && !e->by_name_only;
	}
	return 0;
}

static int collect_gpus(struct info *in, bool measure)
{
	in->gpu.size = sizeof(in->gpu);
	penstock_probe_gpu(&in->gpu);
	in->gpus = calloc((size_t)in->gpu.devices + 1, sizeof(*in->gpus));
	if (!in->gpus)
		return -ENOMEM;
	for (uint32_t i = 0; i < in->gpu.devices; i++) {
		struct info_gpu *g = &in->gpus[i];

		g->device.size = sizeof(g->device);
		penstock_probe_gpu_device(i, &g->device, NULL);
		g->speed.size = sizeof(g->speed);
		g->speed_code = measure ? penstock_probe_gpu_speed(i, &g->speed, &g->err) : 1;
	}
	in->cufile.size = measure && in->gpu.cufile ? sizeof(in->cufile) : 0;
	if (in->cufile.size)
		penstock_probe_cufile(&in->cufile);
	return 0;
}

static int collect_offers(struct info *in, const char *path)
{
	struct penstock_kernel_offer o = {.size = sizeof(o)};
	size_t n = 0;

	while (penstock_probe_kernel((unsigned)n, path, &o) == 0)
		n++;
	in->offers = calloc(n, sizeof(*in->offers));
	if (!in->offers)
		return -ENOMEM;
	for (in->nr_offers = 0; in->nr_offers < n; in->nr_offers++) {
		in->offers[in->nr_offers].size = sizeof(*in->offers);
		penstock_probe_kernel((unsigned)in->nr_offers, path, &in->offers[in->nr_offers]);
	}
	return 0;
}

static void collect_path(struct info *in, const char *path)
{
	struct info_path *p = &in->paths[in->nr_paths++];

	p->path = path;
	p->info.size = sizeof(p->info);
	p->code = penstock_probe_path(p->path, &p->info, &p->err);
}

static void collect_store(struct info *in, struct info_args *a, const char *uri)
{
	struct info_store *s = &in->stores[in->nr_stores++];
	struct penstock_s3 *c;

	s->uri = uri;
	s->report.size = sizeof(s->report);
	a->s3.size = sizeof(a->s3);
	a->s3.env = getenv;
	s->code = penstock_s3_open(&c, &a->s3, &s->err);
	if (s->code < 0)
		return;
	s->code = penstock_s3_check(c, uri, a->try_put ? PENSTOCK_S3_CHECK_WRITE : 0, &s->report,
				    &s->err);
	penstock_s3_close(c);
}

/* What is named, or where nothing is, this folder. */
static int collect_names(struct info *in, struct info_args *a, int argc, char **argv)
{
	in->paths = calloc((size_t)argc + 1, sizeof(*in->paths));
	in->stores = calloc((size_t)argc + 1, sizeof(*in->stores));
	if (!in->paths || !in->stores)
		return -ENOMEM;
	for (int i = 0; i < argc; i++)
		if (cli_is_object(argv[i]))
			collect_store(in, a, argv[i]);
		else
			collect_path(in, argv[i]);
	if (!argc)
		collect_path(in, ".");
	return 0;
}

static const char *first_path(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!cli_is_object(argv[i]))
			return argv[i];
	return ".";
}

static int machine_info_run(void *args, int argc, char **argv)
{
	struct info_args *a = args;
	struct info in = {.usable = false};
	int status = CLI_OK;
	struct cli_file json;

	if (cli_file_open(&json, &cmd_info, "--json", a->out.json) != CLI_OK)
		return CLI_USAGE;
	report_machine_load(&in.machine);
	if (collect_gpus(&in, a->measure_gpu) < 0 || collect_engines(&in) < 0 ||
	    collect_offers(&in, first_path(argc, argv)) < 0 ||
	    collect_names(&in, a, argc, argv) < 0) {
		status = cli_fail(&cmd_info, CLI_FAILED, "out of memory");
		goto out;
	}
	if (!cli_is_stdout(json.name))
		info_show(&in);
	for (size_t i = 0; i < in.nr_paths; i++)
		if (in.paths[i].code < 0)
			status = cli_fail(&cmd_info, CLI_FAILED, "%s", in.paths[i].err.msg);
	for (size_t i = 0; i < in.nr_stores; i++)
		if (in.stores[i].code < 0)
			status = cli_fail(&cmd_info, CLI_FAILED, "%s", in.stores[i].err.msg);
	if (!in.usable)
		status = cli_fail(&cmd_info, CLI_UNSUPPORTED, "no engine works on this machine");
	if (json.f && cli_json_write(&json, &cmd_info, info_json(&in)) != CLI_OK)
		status = CLI_FAILED;
out:
	cli_file_abandon(&json);
	free(in.offers);
	free(in.paths);
	free(in.stores);
	free(in.engines);
	free(in.gpus);
	return status;
}

const struct cli_cmd cmd_info = {
	.name = "info",
	.summary = "what this machine and these paths can do, and why not the rest",
	.usage = "[PATH...]",
	.operands = "o",
	.notes =
		"PATH is a file, a directory or a block device; by default the current directory.\n"
		"s3://BUCKET/PREFIX is checked in five points before a long run.\n"
		"Exit status 3 when no engine works here.\n",
	.opts = info_opts,
	.args_size = sizeof(struct info_args),
	.run = machine_info_run,
};
