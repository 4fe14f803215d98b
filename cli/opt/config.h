/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OPT_CONFIG_H
#define PENSTOCK_CLI_OPT_CONFIG_H

/* --config: settings as `penstock tune' writes and DeepSpeed reads them, {"aio": {...}}. */
#include <penstock/penstock.h>

struct cli_cmd;

/*
 * Set in @opts what @file says; names and spellings of earlier DeepSpeeds are taken too.  Members
 * of other parts of a DeepSpeed configuration are not looked at; of "aio" all must be known.
 * Returns an exit status, having said what is wrong.
 */
int cli_config_read(struct penstock_opts *opts, const struct cli_cmd *cmd, const char *file);

#endif
