/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OPT_TRANSFER_OPTS_H
#define PENSTOCK_CLI_OPT_TRANSFER_OPTS_H

/* Options that say how bytes are moved, which fill options of the library and of a job. */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "cli/opt/opt.h"
#include "load/bed/buffers.h"
#include "load/jobs/io.h"

/* For a struct penstock_opts. */
extern const struct cli_opt cli_engine_opts[];
extern const struct cli_opt cli_engine_ds_io_opts[]; /* with ds_io's names */
/* Is it whole, and is the engine there?  Returns an exit status, having said what is wrong. */
int cli_opts_check(struct penstock_opts *opts, const struct cli_cmd *cmd);

/* The memory of GPUs, which every command that has buffers calls alike. */
struct cli_gpu {
	bool memory_given; /* --memory was given */
	bool gpu, gds;
};
/* clang-format off */
#define CLI_ENGINE(T, field) \
	CLI_STR(T, field, 'e', "engine", "NAME", NULL, \
		"as `penstock info' lists them; default: the first usable")
#define CLI_GDS(T, field) \
	CLI_FLAG(T, field, 0, "gds", "GPUDirect Storage, by cuFile; needs --gpu")
#define CLI_MEMORY(T, memory_field, gpu_field) \
	CLI_ENUM_GIVEN(T, memory_field, gpu_field.memory_given, 'm', "memory", bed_memory_words, "own", \
		      "buffers: the library's own, plain (unpinned, 4 KiB pages), plain at an odd " \
		      "address, or a GPU's"), \
	CLI_FLAG(T, gpu_field.gpu, 0, "gpu", "buffers in GPU memory: as --memory gpu"), \
	CLI_GDS(T, gpu_field.gds)
#define CLI_DURABILITY(T, field, default_) \
	CLI_ENUM(T, field, 0, "durability", io_durability_words, default_, \
		 "end each write with nothing, fdatasync, or fsync of file and folder")
#define CLI_DIRECT(T, field) \
	CLI_ENUM(T, field, 0, "direct", io_direct_words, "auto", \
		 "use O_DIRECT: where it works, or fail, or not at all")
/* The limit of a device that is measured unless it is given, or not wanted. */
#define CLI_LIMIT(T, limit_field, measure_field) \
	CLI_SIZE(T, limit_field, 0, "limit", "BYTES", NULL, 1, 1ull << 60, \
		 "what the device can do per second; default: plain threads find out"), \
	CLI_NOT(T, measure_field, 0, "no-limit", "do not find that out")
#define CLI_DRY_RUN(T, field, ...) \
	CLI_FLAG(T, field, 0, "dry-run", \
		 "print what would run, what it would write and how long it would take", ##__VA_ARGS__)
/* clang-format on */
/* What --gpu and --gds make of *@memory and the engine.  An exit status. */
int cli_gpu_set(struct cli_gpu *g, uint32_t *memory, struct penstock_opts *opts,
		const struct cli_cmd *cmd);

/* Is it in this build?  What follows a `:' is left to the engine. */
bool cli_engine_known(const char *name);

/*
 * "io_uring", "fault:seed=1", or one of ds_io's names, which mean the first usable:
 * *@ret is what struct penstock_opts.engine takes.  Returns an exit status.
 */
int cli_engine(const char **ret, const char *name, const struct cli_cmd *cmd);

#endif
