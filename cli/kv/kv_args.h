/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_KV_KV_ARGS_H
#define PENSTOCK_CLI_KV_KV_ARGS_H

/* The options of `penstock kv', which fill a job. */
#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/opt/opt.h"
#include "cli/opt/transfer_opts.h"
#include "load/kv/kv.h"

/* What the options set: those of kv-cache.py, then ours, most of it in the job itself. */
struct kv_args {
	struct kv_params params;
	struct kv_job job;
	/* what is wrong (status 1), and what is odd */
	struct cli_problems problems, warnings;
	uint32_t log_level, profile;
	uint32_t order; /* KV_ORDER_SEED + 1 and so on; 0: automatic */
	const char *model, *config, *burst_path, *dataset, *validation, *output, *xlsx, *export_fio;
	bool cpu_given; /* cpu_gb is not the default */
	bool burst, latency_tracing, dry_run;
	struct cli_result_args out;
};
extern const struct cli_opt kv_upstream_opts[];
extern const struct cli_opt kv_opts[];
enum { KV_LOG_DEBUG, KV_LOG_INFO, KV_LOG_WARNING, KV_LOG_ERROR, KV_LOG_CRITICAL };

/*
 * Make the job whole, and put what is wrong or odd into its lists.  Returns CLI_OK, or CLI_USAGE
 * having said what is wrong with the command line as such.  kv_setup_fini() is due in any case.
 */
int kv_setup(struct kv_args *a, const struct cli_cmd *cmd);
void kv_setup_fini(struct kv_args *a);

/* The table of `--model list'. */
void kv_list_models(const struct kv_models *m);

/* Where the result of `penstock kv' goes: upstream's files beside those all commands have. */

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
