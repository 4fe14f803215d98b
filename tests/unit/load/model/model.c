/* SPDX-License-Identifier: Apache-2.0 */
/* Models: sizes of their entries, and tables that a configuration adds to. */
#include "load/model/kv_model.h"

#include "base/util.h"
#include "load/model/kv_params.h"
#include "tests/common/t.h"

static struct kv_models models;

static void setup(void)
{
	T_EQ(kv_models_init(&models), 0);
}

static void teardown(void)
{
	kv_models_fini(&models);
}

static void nine_models_have_these_bytes_per_token(void)
{
	static const struct {
		const char *key, *name;
		uint64_t bytes;
	} want[] = {
		{"tiny-1b", "Tiny 1B", 24576},
		{"mistral-7b", "Mistral 7B", 131072},
		{"llama2-7b", "Llama 2 7B", 524288},
		{"llama3.1-8b", "Llama 3.1 8B", 131072},
		{"llama3.1-70b-instruct", "Llama 3.1 70B Instruct", 327680},
		{"deepseek-v3", "DeepSeek V3", 70272},
		{"qwen3-32b", "Qwen3 32B", 262144},
		{"gpt-oss-120b", "GPT OSS 120B (MoE)", 73728},
		{"gpt-oss-20b", "GPT OSS 20B (MoE)", 49152},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(want); i++) {
		const struct kv_model *m = kv_models_find(&models, want[i].key);

		T_OK(m && m == &models.v[i] && !strcmp(m->name, want[i].name));
		T_EQ(kv_model_bytes_per_token(m), want[i].bytes);
		T_EQ(kv_model_check(m, NULL), 0);
		T_OK(!strcmp(kv_model_builtin(i)->key, want[i].key));
	}
	T_EQ(models.nr, ARRAY_SIZE(want));
	T_OK(!kv_model_builtin(ARRAY_SIZE(want)));
	T_OK(!kv_models_find(&models, "llama"));
}

static void only_deepseek_is_mla(void)
{
	for (unsigned i = 0; i < models.nr; i++)
		T_EQ(kv_model_is_mla(&models.v[i]), !strcmp(models.v[i].key, "deepseek-v3"));
}

static void elements_are_as_large_as_their_type(void)
{
	static const struct {
		const char *dtype;
		unsigned size;
	} want[] = {{"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"int8", 1}, {"fp4", 2}};
	struct kv_model m = *kv_model_builtin(0);

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		snprintf(m.dtype, sizeof(m.dtype), "%s", want[i].dtype);
		T_EQ(kv_model_element_size(&m), want[i].size);
		T_EQ(kv_model_bytes_per_token(&m), 12288 * want[i].size);
	}
}

static void an_object_is_one_part_of_its_entry(void)
{
	const struct kv_model *tiny = kv_models_find(&models, "tiny-1b");

	T_EQ(kv_model_object_bytes(tiny, 10, 1), 245760);
	T_EQ(kv_model_object_bytes(tiny, 10, 4), 61440);
	T_EQ(kv_model_object_bytes(tiny, 10, 7), 35108); /* rounded down */
	T_EQ(kv_model_object_bytes(tiny, 0, 7), 0);
	T_EQ(kv_model_object_bytes(tiny, UINT32_MAX, 1), 24576ull * UINT32_MAX);
}

static void latents_of_mla_are_replicated_unless_upstream_is_asked_for(void)
{
	struct kv_params p = {.tensor_parallel = 8};
	const struct kv_model *m = kv_models_find(&models, "deepseek-v3");

	p.model = m;
	T_EQ(kv_model_object_bytes(m, 10, kv_params_shards(&p)), 702720);
	p.policy.divides_latents = true;
	T_EQ(kv_model_object_bytes(m, 10, kv_params_shards(&p)), 87840);
}

static void a_new_model_has_the_usual_values(void)
{
	struct kv_model *m = kv_models_add(&models, "mine");

	T_OK(m && !strcmp(m->key, "mine") && !strcmp(m->dtype, "float16"));
	T_EQ(kv_model_head_dim(m), 128);
	T_EQ(kv_model_bytes_per_token(m), 131072);
	m->layers = 1;
	T_OK(kv_models_add(&models, "mine") == m && m->layers == 1);
	T_EQ(models.nr, 10);
	T_OK(kv_models_add(&models, "tiny-1b") == &models.v[0]);
}

static void what_has_no_size_is_refused(void)
{
	struct penstock_err err;
	struct kv_model m = *kv_model_builtin(0);

	m.layers = 0;
	T_ERR(kv_model_check(&m, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "model 'tiny-1b': num_layers is 0");
	m.layers = 12;
	m.kv_heads = 0;
	T_ERR(kv_model_check(&m, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "kv_heads");
	m.kv_heads = 4;
	m.heads = 0;
	T_ERR(kv_model_check(&m, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "kv_dim_per_head");
	m.kv_dim_per_head = 1;
	T_EQ(kv_model_check(&m, NULL), 0);
	m.layers = m.kv_heads = m.kv_dim_per_head = UINT32_MAX;
	T_ERR(kv_model_check(&m, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "bytes per token");
	m = *kv_models_find(&models, "deepseek-v3");
	m.kv_lora_rank = m.qk_rope_head_dim = 0;
	T_ERR(kv_model_check(&m, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "kv_lora_rank");
}

static void large_is_wide_or_deep(void)
{
	static const char *const large[] = {"llama3.1-70b-instruct", "qwen3-32b"};
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(large); i++)
		T_OK(kv_model_is_large(kv_models_find(&models, large[i])));
	for (unsigned i = 0; i < models.nr; i++)
		n += kv_model_is_large(&models.v[i]);
	T_EQ(n, ARRAY_SIZE(large));
}

static void the_limits_of_a_run_become_those_of_the_cache(void)
{
	struct kv_params p = {.gpus = 8, .gpu_gb = 0.5, .cpu_gb = 0.1, .tensor_parallel = 4};
	struct kv_cache_opts o;

	T_EQ(kv_config_defaults(&p.config), 0);
	p.model = &p.config.models.v[0];
	p.config.max_evictions_min = 7;
	kv_params_cache(&p, 12345, true, &o);
	T_EQ(o.limit[KV_GPU], GIB(1)); /* of each tier of the node a rank has its part */
	T_EQ(o.limit[KV_CPU], 107374182 / 4);
	T_EQ(o.limit[KV_NVME], 12345 / 4);
	T_EQ(o.shards, 4);
	T_EQ(o.max_evictions_min, 7);
	T_OK(o.has_gpu && o.target_usage_ratio == 0.8);
	kv_params_as_upstream(&p);
	kv_params_cache(&p, KV_UNLIMITED, false, &o);
	T_EQ(o.limit[KV_GPU], GIB(4)); /* upstream's has all of it */
	T_EQ(o.limit[KV_CPU], 107374182);
	T_EQ(o.limit[KV_NVME], KV_UNLIMITED);
	T_OK(!o.has_gpu);
	kv_config_fini(&p.config);
}

static void refused(const struct kv_config *c, const char *says)
{
	struct penstock_err err;

	T_ERR(kv_config_check(c, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, says);
}

static void a_configuration_that_cannot_work_is_refused(void)
{
	struct kv_config c, ok;

	T_EQ(kv_config_defaults(&ok), 0);
	T_EQ(kv_config_check(&ok, NULL), 0);
	c = ok;
	c.user[KV_CODING].context[0] = 25001;
	refused(&c, "user_templates.coding.context_range: 25001 to 25000");
	c = ok;
	c.user[KV_CHATBOT].think[0] = -1;
	refused(&c, "user_templates.chatbot.think_time_range: -1 to 0.5");
	c = ok;
	c.decode_batch = 0;
	refused(&c, "decode.batch_size: 0 is outside 1..");
	c = ok;
	c.max_turns = 65536;
	refused(&c, "conversation.max_turns_per_conv: 65536 is outside 1..65535");
	c = ok;
	c.target_usage_ratio = 1.5;
	refused(&c, "eviction.target_usage_ratio: 1.5 is outside 0..1");
	c = ok;
	c.models.v[3].layers = 0;
	refused(&c, "llama3.1-8b");
	kv_config_fini(&ok);
}

int main(int argc, char **argv)
{
	const struct t_case cases[] = {
		T_CASE(nine_models_have_these_bytes_per_token),
		T_CASE(only_deepseek_is_mla),
		T_CASE(elements_are_as_large_as_their_type),
		T_CASE(an_object_is_one_part_of_its_entry),
		T_CASE(latents_of_mla_are_replicated_unless_upstream_is_asked_for),
		T_CASE(a_new_model_has_the_usual_values),
		T_CASE(what_has_no_size_is_refused),
		T_CASE(large_is_wide_or_deep),
		T_CASE(the_limits_of_a_run_become_those_of_the_cache),
		T_CASE(a_configuration_that_cannot_work_is_refused),
	};
	const struct t_group group = {"models", setup, teardown, cases, ARRAY_SIZE(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
