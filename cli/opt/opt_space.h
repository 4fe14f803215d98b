/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OPT_SPACE_H
#define PENSTOCK_CLI_OPT_SPACE_H

/*
 * A search space from the command line: --sweep-config, a JSON file in upstream's
 * schema, and options that each replace an axis.
 */
#include "load/jobs/config_space.h"

struct cli_cmd;
struct cli_list;

/* Configurations; more are a mistake. */
#define CLI_SPACE_MAX 100000

/* What such a file may say of all configurations; 0 and false where it does not. */
struct cli_space_job {
	uint64_t io_size;
	uint64_t loops;
	bool gpu, gds;
};

/*
 * Read @file: an object of lists, whose keys are ds_io's options; the product is
 * walked in the order of the keys.  Options that cannot vary here have one value: it
 * goes to @job, or is what this program does anyway, or a note says that it has no
 * effect.  Whatever is not understood is refused.  Returns an exit status, having said
 * what is wrong; config_space_fini() is due only after CLI_OK.
 */
int cli_space_read(struct config_space *out, struct cli_space_job *job, const struct cli_cmd *cmd,
		   const char *file);

/*
 * Do options go with what the file says?  @gpu: memory of a GPU was asked for; @engine:
 * the option, "--gds" or "--engine", that names an engine, or NULL.  An exit status.
 */
int cli_space_check(const struct config_space *s, const struct cli_space_job *job, bool gpu,
		    const char *engine, const struct cli_cmd *cmd);

/*
 * Replace the axes for which options were given: @axes[kind] are their words.  An
 * axis keeps its place in the order; new ones come last.  Returns an exit status,
 * having said what is wrong; config_space_fini() is due either way.
 */
int cli_space_replace(struct config_space *s, const struct cli_cmd *cmd,
		      const struct cli_list *axes);

#endif
