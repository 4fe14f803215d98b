/* SPDX-License-Identifier: Apache-2.0 */
/* The options of one configuration, and how they become options of the library. */
#include "cli/opt/how.h"

#include <stdio.h>
#include <string.h>

#include "load/bed/buffers.h"
#include "load/jobs/io.h"

const struct cli_opt cli_engine_opts[] = {
	CLI_STR(struct cli_how, engine, 'e', "engine", "NAME", NULL,
		"as `sluice info' lists them; default: the first usable"),
	CLI_SIZE(struct cli_how, block_size, 'b', "block-size", "BYTES", NULL, 512, 1ull << 30,
		 "bytes per block; default: what suits the device, near 1M"),
	CLI_U32(struct cli_how, queue_depth, 'd', "queue-depth", "N", NULL, 1, 4096,
		"blocks in flight per I/O thread; default: 128, within 32M"),
	CLI_U32(struct cli_how, threads, 't', "threads", "N", "1", 1, 256, "I/O threads"),
	CLI_ALIAS("io_parallel"),
	CLI_FLAG(struct cli_how, single_submit, 0, "single-submit", "submit blocks one by one"),
	CLI_FLAG(struct cli_how, sequential_requests, 0, "sequential-requests",
		 "let the queue run empty before it is filled again"),
	CLI_ENUM(struct cli_how, direct, 0, "direct", io_direct_words, "auto",
		 "use O_DIRECT: where it works, or fail, or not at all"),
	CLI_ENUM(struct cli_how, huge, 0, "huge", io_huge_words, "auto",
		 "huge pages for the library's memory: transparent, set aside by the "
		 "administrator, or none"),
	CLI_END,
};

const struct cli_opt cli_how_opts[] = {
	{.kind = CLI_KIND_TABLE, .sub = cli_engine_opts},
	CLI_ENUM(struct cli_how, durability, 0, "durability", io_durability_words, "none",
		 "end each write with nothing, fdatasync, or fsync of file and folder"),
	CLI_ENUM(struct cli_how, memory, 'm', "memory", bed_memory_words, "own",
		 "buffers: the library's own, plain (unpinned, 4 KiB pages), plain at an odd "
		 "address, or a GPU's"),
	CLI_ALIAS("buffer"),
	CLI_FLAG(struct cli_how, lock, 0, "lock", "lock the buffers in memory"),
	CLI_END,
};

bool cli_engine_known(const char *name)
{
	size_t len = strcspn(name, ":");

	for (unsigned i = 0; sluice_engine_name(i); i++)
		if (strlen(sluice_engine_name(i)) == len &&
		    !strncmp(name, sluice_engine_name(i), len))
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
	for (unsigned i = 0; sluice_engine_name(i); i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
			 sluice_engine_name(i));
	return cli_usage(cmd, "--engine: '%s' is unknown; there are %s", name, list);
}

int cli_how_set(struct sluice_opts *opts, const struct cli_how *how, const struct cli_cmd *cmd)
{
	*opts = (struct sluice_opts)SLUICE_OPTS_INIT;
	opts->depth = how->queue_depth;
	opts->block = how->block_size;
	opts->threads = how->threads;
	opts->flags = (how->single_submit ? SLUICE_SINGLE_SUBMIT : 0) |
		      (how->sequential_requests ? SLUICE_NO_OVERLAP : 0);
	opts->direct = how->direct;
	opts->durability = how->durability;
	opts->huge = how->huge;
	if (how->block_size % 512)
		return cli_usage(cmd, "--block-size: %llu is not a multiple of 512",
				 (unsigned long long)how->block_size);
	return cli_engine(&opts->engine, how->engine, cmd);
}
