/* SPDX-License-Identifier: Apache-2.0 */
#include "common/kvparams.h"

#include "common/t.h"

void t_kv_params(struct kv_params *p, uint32_t users, double duration_sec)
{
	*p = (struct kv_params){
		.seed = 42,
		.seed_given = true,
		.users = users,
		.duration_ns = (uint64_t)(duration_sec * 1e9),
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

struct t_kv t_kv;

void t_kv_setup(void)
{
	t_kv_params(&t_kv.params, 20, 60);
	t_kv.texts = kv_texts_new();
	T_OK(t_kv.texts != NULL);
}

void t_kv_teardown(void)
{
	kv_load_free(t_kv.load);
	kv_texts_free(t_kv.texts);
	kv_config_fini(&t_kv.params.config);
	t_kv = (struct t_kv){0};
}

void t_kv_begin(void)
{
	struct penstock_err err;

	kv_load_free(t_kv.load);
	t_kv.load = NULL;
	T_ERR(kv_load_new(&t_kv.load, &t_kv.params, t_kv.texts, &err), 0, &err);
}

bool t_kv_next(struct kv_request *r)
{
	return kv_load_next(t_kv.load, r) == 1;
}

unsigned t_kv_count(void)
{
	struct kv_request r;
	unsigned nr = 0;

	for (t_kv_begin(); t_kv_next(&r); nr++)
		kv_load_row(t_kv.load);
	return nr;
}

bool t_kv_is_key(struct kv_key key, const char *want)
{
	char name[256];

	kv_key_format(name, sizeof(name), key, t_kv.texts);
	if (strcmp(name, want))
		t_note("%s, not %s", name, want);
	return !strcmp(name, want);
}

uint64_t t_sum(uint64_t sum, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum = (sum ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
	return sum;
}
