/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_SPACE_H
#define SLUICE_CLI_SPACE_H

/*
 * A search space from the command line: --sweep_config, a JSON file in upstream's
 * schema, and options that each replace an axis.
 */
#include "load/run/space.h"

struct cli_cmd;
struct cli_list;

/* Configurations; more are a mistake. */
#define CLI_SPACE_MAX 100000

/*
 * Read @file: an object of lists, whose keys are ds_io's options; the product is
 * walked in the order of the keys.  Whatever is not understood is refused.
 * Returns an exit status, having said what is wrong; space_fini() is due only
 * after CLI_OK.
 */
int cli_space_read(struct space *out, const struct cli_cmd *cmd, const char *file);

/*
 * Replace the axes for which options were given: @axes[kind] are their words.  An
 * axis keeps its place in the order; new ones come last.  Returns an exit status,
 * having said what is wrong; space_fini() is due either way.
 */
int cli_space_replace(struct space *s, const struct cli_cmd *cmd, const struct cli_list *axes);

#endif
