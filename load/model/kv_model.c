/* SPDX-License-Identifier: Apache-2.0 */
/* The table of language models, and how large their KV cache is. */
#include "load/model/kv_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

/* Nothing real comes near: layers * heads * width of a token in bytes. */
#define MOST_BYTES_PER_TOKEN (1ull << 30)

/* clang-format off */
static const struct kv_model builtin[] = {
	{"tiny-1b", "Tiny 1B", 12, 1024, 8, 4, 0, "float16", "mha", 0, 0},
	{"mistral-7b", "Mistral 7B", 32, 4096, 32, 8, 0, "float16", "mha", 0, 0},
	{"llama2-7b", "Llama 2 7B", 32, 4096, 32, 32, 0, "float16", "mha", 0, 0},
	{"llama3.1-8b", "Llama 3.1 8B", 32, 4096, 32, 8, 0, "float16", "mha", 0, 0},
	{"llama3.1-70b-instruct", "Llama 3.1 70B Instruct", 80, 8192, 64, 8, 0, "float16", "mha", 0, 0},
	{"deepseek-v3", "DeepSeek V3", 61, 7168, 128, 128, 0, "float16", "mla", 512, 64},
	{"qwen3-32b", "Qwen3 32B", 64, 5120, 64, 8, 128, "float16", "mha", 0, 0},
	{"gpt-oss-120b", "GPT OSS 120B (MoE)", 36, 2880, 64, 8, 64, "float16", "mha", 0, 0},
	{"gpt-oss-20b", "GPT OSS 20B (MoE)", 24, 2880, 64, 8, 64, "float16", "mha", 0, 0},
};
/* clang-format on */

const struct kv_model *kv_model_builtin(unsigned i)
{
	return i < ARRAY_SIZE(builtin) ? &builtin[i] : NULL;
}

int kv_models_init(struct kv_models *m)
{
	*m = (struct kv_models){0};
	for (; m->nr < ARRAY_SIZE(builtin); m->nr++) {
		if (ARRAY_GROW(m->v, m->nr) < 0) {
			kv_models_fini(m);
			return -ENOMEM;
		}
		m->v[m->nr] = builtin[m->nr];
	}
	return 0;
}

void kv_models_fini(struct kv_models *m)
{
	free(m->v);
	*m = (struct kv_models){0};
}

struct kv_model *kv_models_find(const struct kv_models *m, const char *key)
{
	for (unsigned i = 0; i < m->nr; i++)
		if (!strcmp(m->v[i].key, key))
			return &m->v[i];
	return NULL;
}

struct kv_model *kv_models_add(struct kv_models *m, const char *key)
{
	struct kv_model *found = kv_models_find(m, key), *v;

	if (found)
		return found;
	if (ARRAY_GROW(m->v, m->nr) < 0)
		return NULL;
	v = &m->v[m->nr++];
	*v = (struct kv_model){.layers = 32,
			       .hidden_dim = 4096,
			       .heads = 32,
			       .kv_heads = 8,
			       .dtype = "float16",
			       .attention = "mha"};
	snprintf(v->key, sizeof(v->key), "%s", key);
	snprintf(v->name, sizeof(v->name), "%s", key);
	return v;
}

/* Asked for with every event: words are compared as bytes, which needs no call. */
bool kv_model_is_mla(const struct kv_model *m)
{
	return !memcmp(m->attention, "mla", sizeof("mla"));
}

uint32_t kv_model_head_dim(const struct kv_model *m)
{
	if (m->kv_dim_per_head)
		return m->kv_dim_per_head;
	return m->heads ? m->hidden_dim / m->heads : 0;
}

uint32_t kv_model_element_size(const struct kv_model *m)
{
	if (!memcmp(m->dtype, "float32", sizeof("float32")))
		return 4;
	return !memcmp(m->dtype, "int8", sizeof("int8")) ? 1 : 2;
}

/* UINT64_MAX when it does not fit. */
static uint64_t bytes_per_token(const struct kv_model *m)
{
	uint64_t size = kv_model_element_size(m), v;
	uint64_t wide = kv_model_is_mla(m) ? (uint64_t)m->kv_lora_rank + m->qk_rope_head_dim
					   : (uint64_t)m->kv_heads * kv_model_head_dim(m);

	if (!kv_model_is_mla(m))
		size *= 2; /* keys and values */
	if (__builtin_mul_overflow(wide, m->layers, &v) || __builtin_mul_overflow(v, size, &v))
		return UINT64_MAX;
	return v;
}

uint64_t kv_model_bytes_per_token(const struct kv_model *m)
{
	return bytes_per_token(m);
}

int kv_model_check(const struct kv_model *m, struct penstock_err *err)
{
	uint64_t v = bytes_per_token(m);

	if (!m->layers)
		return penstock_fail(err, -EINVAL, "model '%s': num_layers is 0", m->key);
	if (kv_model_is_mla(m) && !v)
		return penstock_fail(err, -EINVAL,
				     "model '%s': kv_lora_rank and qk_rope_head_dim are both 0",
				     m->key);
	if (!kv_model_is_mla(m) && !m->kv_heads)
		return penstock_fail(err, -EINVAL, "model '%s': kv_heads is 0", m->key);
	if (!kv_model_is_mla(m) && !kv_model_head_dim(m))
		return penstock_fail(err, -EINVAL,
				     "model '%s': hidden_dim %u of num_heads %u is no width of a "
				     "head; give kv_dim_per_head",
				     m->key, m->hidden_dim, m->heads);
	if (v > MOST_BYTES_PER_TOKEN)
		return penstock_fail(
			err, -EINVAL,
			"model '%s': more than %llu bytes per token; check num_layers, "
			"kv_heads and kv_dim_per_head",
			m->key, MOST_BYTES_PER_TOKEN);
	return 0;
}

uint64_t kv_model_object_bytes(const struct kv_model *m, uint64_t tokens, uint32_t shards)
{
	uint64_t bytes = bytes_per_token(m) * tokens;

	return bytes / shards;
}

bool kv_model_is_large(const struct kv_model *m)
{
	return m->hidden_dim >= 8192 || m->layers >= 64;
}
