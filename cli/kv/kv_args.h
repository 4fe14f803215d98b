/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_KV_KV_ARGS_H
#define SLUICE_CLI_KV_KV_ARGS_H

/* The options of `sluice kv', and how they become a job. */
#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/kv/kv_problems.h"
#include "cli/opt/how.h"
#include "cli/output.h"
#include "load/kv/kv.h"

/* Those of kv-cache.py.  Ranges are checked when all options are known, all of them at once. */
struct kv_upstream {
	uint32_t log_level, generation_mode, profile, autoscaler_mode;
	const char *model, *cache_dir, *burst_path, *validation, *dataset, *output, *xlsx, *config;
	const char *trace, *seed;
	int64_t users, duration, gpus, tensor_parallel, rag_docs, conversations;
	int64_t concurrent_allocs, max_requests, precondition_threads, replay_cycles;
	double gpu_gb, cpu_gb, saturation, request_rate, storage_gb, precondition_gb, speedup;
	bool cpu_told; /* cpu_gb is not the default */
	bool no_multi_turn, no_prefix, rag, autoscale, burst, precondition, prefill_only,
		decode_only, latency_tracing;
};
extern const struct cli_opt kv_upstream_opts[];
enum { KV_LOG_DEBUG, KV_LOG_INFO, KV_LOG_WARNING, KV_LOG_ERROR, KV_LOG_CRITICAL };

struct kv_args {
	struct kv_upstream up;
	uint32_t layout, order, clock, durability;
	bool new_files, verify, compat, closed_loop, trace_extended, simulated_gpu, dry_run;
	uint64_t trace_epoch;
	double gpu_bandwidth;
	const char *export_fio;
	struct sluice_opts opts;
	struct cli_result_args out;
};
extern const struct cli_opt kv_opts[];
enum { KV_ORDER_AUTO }; /* of the option; KV_ORDER_SEED + 1 and so on are the others */

/*
 * A job from options: what is wrong goes to @problems (status 1), what is odd to @warnings.
 * Returns CLI_OK, or CLI_USAGE having said what is wrong with the command line as such.
 * kv_setup_fini() is due in any case.
 */
struct kv_setup {
	struct kv_params params;
	struct kv_job job;
	struct kv_problems problems, warnings;
};
int kv_setup(struct kv_setup *s, const struct kv_args *a, const struct cli_cmd *cmd);
void kv_setup_fini(struct kv_setup *s);

/* The table of `--model list'. */
void kv_list_models(const struct kv_models *m);

#endif
