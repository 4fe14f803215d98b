/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_KV_KV_OUTPUT_H
#define SLUICE_CLI_KV_KV_OUTPUT_H

/* Where the result of `sluice kv' goes: upstream's files beside those all commands have. */
#include "cli/kv/kv_args.h"

struct kv_report;
struct result;

struct kv_outputs {
	const struct cli_cmd *cmd;
	struct cli_file json; /* --output */
	struct cli_file table;
	struct cli_file fio;
	struct cli_outputs common;
	bool csv; /* the table is one */
	char *json_name, *csv_name;
	bool text; /* standard output is for people */
};

/* Before the job starts.  Returns CLI_OK, or another exit status after a message. */
int kv_outputs_open(struct kv_outputs *o, const struct cli_cmd *cmd, const struct kv_args *a);
/* Write all, the summary for people included.  Returns an exit status. */
int kv_outputs_finish(struct kv_outputs *o, const struct kv_report *rep, const struct result *r);
/* Nothing to show: leave no trace.  Safe after finish. */
void kv_outputs_abandon(struct kv_outputs *o);

#endif
