/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_CLI_H
#define SLUICE_CLI_CLI_H

/* The commands; how to write one is in cli/opt/opt.h. */
#include "cli/opt/opt.h"

/* Commands; the table is in main.c. */
extern const struct cli_cmd cmd_bench;
extern const struct cli_cmd cmd_compare;
extern const struct cli_cmd cmd_info;
extern const struct cli_cmd cmd_io;
extern const struct cli_cmd cmd_kv;
extern const struct cli_cmd cmd_replay;
extern const struct cli_cmd cmd_report;
extern const struct cli_cmd cmd_sweep;
extern const struct cli_cmd cmd_trace;
extern const struct cli_cmd cmd_trace_convert;
extern const struct cli_cmd cmd_trace_cut;
extern const struct cli_cmd cmd_trace_stat;
extern const struct cli_cmd cmd_tune;

#endif
