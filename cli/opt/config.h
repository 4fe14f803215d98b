/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_OPT_CONFIG_H
#define SLUICE_CLI_OPT_CONFIG_H

/* --config: settings as `sluice tune' writes and DeepSpeed reads them, {"aio": {...}}. */
#include <sluice/sluice.h>

struct cli_cmd;

/*
 * Set in @opts what @file says; names and spellings of earlier DeepSpeeds are taken too.  Members
 * of other parts of a DeepSpeed configuration are not looked at; of "aio" all must be known.
 * Returns an exit status, having said what is wrong.
 */
int cli_config_read(struct sluice_opts *opts, const struct cli_cmd *cmd, const char *file);

#endif
