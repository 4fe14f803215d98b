/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/requests.h"

#include "cli/trace.h"

#define FOREVER  1e9 /* seconds of the model's clock: an input ends by itself */
#define EPOCH_NS 1735689600000000000ull

const struct cli_opt cli_requests_opts[] = {
	CLI_GROUP("BurstGPT and ShareGPT: the model the requests go through"),
	CLI_U32(struct cli_requests, params.users, 0, "num-users", "N", "100", 1, 100000,
		"users of the model: how many requests it serves at a time"),
	CLI_DBL(struct cli_requests, params.gpu_gb, 0, "gpu-mem-gb", "GIB", "16", 0, 65536,
		"memory of a GPU of the model"),
	CLI_U32(struct cli_requests, params.gpus, 0, "num-gpus", "N", "1", 1, 1 << 20, "its GPUs"),
	CLI_U32(struct cli_requests, params.tensor_parallel, 0, "tensor-parallel", "N", "1", 1,
		1 << 20, "ranks an entry is divided among, at most --num-gpus"),
	CLI_DBL(struct cli_requests, params.cpu_gb, 0, "cpu-mem-gb", "GIB", "32", 0, 131072,
		"its second tier"),
	CLI_DBL(struct cli_requests, params.storage_gb, 0, "storage-capacity-gb", "GIB", "0", 0,
		1e12, "its third tier; 0: no limit"),
	CLI_U32(struct cli_requests, params.sharegpt_conversations, 0, "max-conversations", "N",
		"500", 1, UINT32_MAX, "conversations of a ShareGPT file"),
	CLI_U64(struct cli_requests, params.max_requests, 0, "max-requests", "N", "0", 0, INT64_MAX,
		"end after so many requests; 0: all"),
	CLI_WORD(struct cli_requests, params.generation, 0, "generation-mode", kv_gen_names,
		 "realistic", "0, 2 or 30 ms per generated token"),
	CLI_END,
};

static int set_params(struct kv_params *p, const char *model, const struct cli_cmd *cmd)
{
	if (p->tensor_parallel > p->gpus)
		return cli_usage(cmd, "--tensor-parallel: %u is more than --num-gpus %u",
				 p->tensor_parallel, p->gpus);
	p->seed_given = p->multi_turn = p->prefix = true;
	p->duration_sec = FOREVER;
	p->target_saturation = 0.8;
	p->trace_speedup = 1;
	p->replay_cycles = 1;
	p->epoch_ns = EPOCH_NS;
	if (kv_config_defaults(&p->config) < 0)
		return cli_fail(cmd, CLI_FAILED, "out of memory");
	p->model = kv_models_find(&p->config.models, model ? model : "llama3.1-8b");
	return CLI_OK;
}

int cli_requests(struct cli_requests *q, struct trace_reader_opts *o, const char *model,
		 uint64_t seed, const char *trace, const struct cli_cmd *cmd)
{
	enum trace_format format = o->format;
	struct sluice_err err = {0, ""};
	int r;

	if (format == TRACE_AUTO && cli_trace_twice(trace) &&
	    trace_detect(&format, trace, &err) < 0)
		return cli_usage(cmd, "%s", err.msg);
	if (format != TRACE_BURSTGPT && format != TRACE_SHAREGPT)
		return CLI_OK;
	r = set_params(&q->params, model, cmd);
	if (r != CLI_OK)
		return r;
	q->params.seed = seed;
	q->params.input = o->strict ? KV_INPUT_STRICT : KV_INPUT_CHECKED;
	*(format == TRACE_BURSTGPT ? &q->params.burst_path : &q->params.sharegpt_path) = trace;
	q->maker = kv_rows_maker(&q->params);
	o->maker = &q->maker;
	return CLI_OK;
}

void cli_requests_fini(struct cli_requests *q)
{
	if (q->maker.open)
		kv_config_fini(&q->params.config);
}
