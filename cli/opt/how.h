/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_OPT_HOW_H
#define SLUICE_CLI_OPT_HOW_H

/* Options that say how bytes are moved, for commands that measure one configuration. */
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "cli/opt/opt.h"

struct cli_how {
	const char *engine;
	uint64_t block_size;
	uint32_t queue_depth;
	uint32_t threads;
	uint32_t direct, durability, huge, memory;
	bool single_submit;
	bool sequential_requests;
	bool lock;
};
extern const struct cli_opt cli_how_opts[];
/* Those of them that a command with memory of its own has: fields of struct cli_how, too. */
extern const struct cli_opt cli_engine_opts[];

/* To options of the library.  Returns an exit status, having said what is wrong. */
int cli_how_set(struct sluice_opts *opts, const struct cli_how *how, const struct cli_cmd *cmd);

/* Is it in this build?  What follows a `:' is left to the engine. */
bool cli_engine_known(const char *name);

/*
 * "io_uring", "fault:seed=1", or one of ds_io's names, which mean the first usable:
 * *@ret is what struct sluice_opts.engine takes.  Returns an exit status.
 */
int cli_engine(const char **ret, const char *name, const struct cli_cmd *cmd);

#endif
