/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_SPACE_H
#define SLUICE_CLI_SPACE_H

/* --sweep_config: a search space as a JSON file in upstream's schema. */
#include "load/run/space.h"

struct cli_cmd;

/*
 * Read @file: an object of lists, whose keys are ds_io's options; the product is
 * walked in the order of the keys.  Whatever is not understood is refused.
 * Returns an exit status, having said what is wrong; space_fini() is due only
 * after CLI_OK.
 */
int cli_space_read(struct space *out, const struct cli_cmd *cmd, const char *file);

#endif
