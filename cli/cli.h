/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_H
#define PENSTOCK_CLI_H

/* The commands; how to write one is in cli/opt/opt.h. */
#include <stdatomic.h>

#include "cli/opt/opt.h"

/* Commands; the table is in main.c. */
extern const struct cli_cmd cmd_bench;
extern const struct cli_cmd cmd_ckpt;
extern const struct cli_cmd cmd_ckpt_bench;
extern const struct cli_cmd cmd_ckpt_cp;
extern const struct cli_cmd cmd_ckpt_ls;
extern const struct cli_cmd cmd_ckpt_verify;
extern const struct cli_cmd cmd_compare;
extern const struct cli_cmd cmd_cp;
extern const struct cli_cmd cmd_gen;
extern const struct cli_cmd cmd_info;
extern const struct cli_cmd cmd_io;
extern const struct cli_cmd cmd_kv;
extern const struct cli_cmd cmd_ls;
extern const struct cli_cmd cmd_merge;
extern const struct cli_cmd cmd_replay;
extern const struct cli_cmd cmd_report;
extern const struct cli_cmd cmd_rm;
extern const struct cli_cmd cmd_s3;
extern const struct cli_cmd cmd_store;
extern const struct cli_cmd cmd_store_drop;
extern const struct cli_cmd cmd_store_info;
extern const struct cli_cmd cmd_store_ls;
extern const struct cli_cmd cmd_store_verify;
extern const struct cli_cmd cmd_weights;
extern const struct cli_cmd cmd_stripe;
extern const struct cli_cmd cmd_stripe_check;
extern const struct cli_cmd cmd_stripe_create;
extern const struct cli_cmd cmd_stripe_info;
extern const struct cli_cmd cmd_stripe_rm;
extern const struct cli_cmd cmd_sweep;
extern const struct cli_cmd cmd_trace;
extern const struct cli_cmd cmd_trace_convert;
extern const struct cli_cmd cmd_trace_cut;
extern const struct cli_cmd cmd_trace_stat;
extern const struct cli_cmd cmd_tune;

/*
 * The first SIGINT, SIGTERM or SIGHUP ends a job cleanly; one that comes more than a second
 * later kills.  Returns what is not 0 from then on: the number of the signal.
 */
const atomic_int *cli_stop_catch(void);
/* As if signal @sig had come; a signal of a launcher that comes soon after is part of it. */
void cli_stop_now(int sig);

#endif
