/* SPDX-License-Identifier: Apache-2.0 */
#include "common/kvparams.h"

#include "common/t.h"

void t_kv_params(struct kv_params *p, uint32_t users, double duration_sec)
{
	*p = (struct kv_params){
		.seed = 42,
		.seed_given = true,
		.users = users,
		.duration_sec = duration_sec,
		.gpu_gb = 16,
		.cpu_gb = 32,
		.gpus = 1,
		.tensor_parallel = 1,
		.generation = KV_GEN_NONE,
		.multi_turn = true,
		.prefix = true,
		.rag_docs = 10,
		.target_saturation = 0.8,
		.sharegpt_conversations = 500,
		.trace_speedup = 1,
		.epoch_ns = 1735689600000000000u,
	};
	T_EQ(kv_config_defaults(&p->config), 0);
	p->model = kv_models_find(&p->config.models, "tiny-1b");
	T_OK(p->model != NULL);
}
