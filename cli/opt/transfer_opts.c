/* SPDX-License-Identifier: Apache-2.0 */
/* The options of one configuration, and how they become options of the library. */
#include "cli/opt/transfer_opts.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
#define ENGINE_OPTS(...) \
	CLI_ENGINE(struct penstock_opts, engine), \
	CLI_SIZE_OF(struct penstock_opts, block, 'b', "block-size", "BYTES", "block", \
		    "bytes per block; default: what suits the device, near 1M"), \
	CLI_U32_OF(struct penstock_opts, depth, 'd', "queue-depth", "N", "depth", \
		   "blocks in flight per I/O thread; default: 128 within 32M, of io 32"), \
	CLI_U32_OF(struct penstock_opts, threads, 't', "threads", "N", "threads", \
		   "I/O threads; default: as many as the work needs, of io 1", \
		   .key = "io_parallel"), \
	__VA_ARGS__ \
	CLI_BIT(struct penstock_opts, flags, PENSTOCK_SINGLE_SUBMIT, 0, "single-submit", \
		"submit blocks one by one"), \
	CLI_BIT(struct penstock_opts, flags, PENSTOCK_NO_OVERLAP, 0, "sequential-requests", \
		"let the queue run empty before it is filled again"), \
	CLI_BIT(struct penstock_opts, flags, PENSTOCK_SPARE_CPU, 0, "spare-cpu", \
		"copy nothing that can go straight, even if that were faster"), \
	CLI_DIRECT(struct penstock_opts, direct), \
	CLI_ENUM(struct penstock_opts, huge, 0, "huge", io_huge_words, "auto", \
		 "huge pages for the library's memory: transparent, set aside by the " \
		 "administrator, or none"), \
	CLI_END
/* clang-format on */

const struct cli_opt cli_engine_opts[] = {ENGINE_OPTS()};
const struct cli_opt cli_engine_ds_io_opts[] = {
	ENGINE_OPTS(CLI_ALIAS_OF("ds_io", "io_parallel"), )};

bool cli_engine_known(const char *name)
{
	size_t len = strcspn(name, ":");

	for (unsigned i = 0; penstock_engine_name(i); i++)
		if (strlen(penstock_engine_name(i)) == len &&
		    !strncmp(name, penstock_engine_name(i), len))
			return true;
	return false;
}

int cli_engine(const char **ret, const char *name, const struct cli_cmd *cmd)
{
	char list[160] = "";

	*ret = NULL;
	if (!name || !strcmp(name, "aio_handle") || !strcmp(name, "aio_basic"))
		return CLI_OK;
	*ret = name;
	if (cli_engine_known(name))
		return CLI_OK;
	for (unsigned i = 0; penstock_engine_name(i); i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
			 penstock_engine_name(i));
	return cli_usage(cmd, "--engine: '%s' is unknown; there are %s", name, list);
}

int cli_opts_check(struct penstock_opts *opts, const struct cli_cmd *cmd)
{
	opts->size = sizeof(*opts);
	opts->threads = opts->threads ? opts->threads : 1;
	return cli_engine(&opts->engine, opts->engine, cmd);
}

int cli_gpu_set(struct cli_gpu *g, uint32_t *memory, struct penstock_opts *opts,
		const struct cli_cmd *cmd)
{
	if (g->gpu && g->memory_given && *memory != BED_GPU)
		return cli_usage(cmd, "--gpu and --memory %s exclude each other",
				 bed_memory_words[*memory]);
	g->gpu |= *memory == BED_GPU;
	*memory = g->gpu ? BED_GPU : *memory;
	if (g->gds && !g->gpu)
		return cli_usage(cmd, "--gds moves GPU memory: it needs --gpu");
	if (g->gds && opts->engine && strcmp(opts->engine, "cufile") != 0)
		return cli_usage(cmd, "--gds is the engine cufile: leave out --engine");
	if (g->gds)
		opts->engine = "cufile";
	return CLI_OK;
}
