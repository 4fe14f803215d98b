/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_MODEL_H
#define PENSTOCK_MODEL_KV_MODEL_H

/* Language models, as far as the size of their KV cache goes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

struct kv_model {
	char key[64];  /* "llama3.1-8b" */
	char name[64]; /* "Llama 3.1 8B" */
	uint32_t layers, hidden_dim, heads, kv_heads;
	uint32_t kv_dim_per_head; /* 0: hidden_dim / heads */
	char dtype[16];           /* float32, float16, bfloat16, int8 */
	char attention[16];       /* "mla" is special, all others are alike */
	uint32_t kv_lora_rank, qk_rope_head_dim;
};

/* The built-in ones, NULL past the last. */
const struct kv_model *kv_model_builtin(unsigned i);

/* The built-in ones and those of a configuration; zeroed is empty. */
struct kv_models {
	struct kv_model *v;
	unsigned nr;
};
int kv_models_init(struct kv_models *m); /* the built-in ones */
void kv_models_fini(struct kv_models *m);
struct kv_model *kv_models_find(const struct kv_models *m, const char *key);
/* The model @key, made with upstream's defaults (32 / 4096 / 32 / 8 / float16 / mha) if it is new;
 * NULL: no memory. */
struct kv_model *kv_models_add(struct kv_models *m, const char *key);

bool kv_model_is_mla(const struct kv_model *m);
uint32_t kv_model_head_dim(const struct kv_model *m);
uint32_t kv_model_element_size(const struct kv_model *m);
uint64_t kv_model_bytes_per_token(const struct kv_model *m);
/* 0, or -EINVAL with the reason: a zero where none may be, a size that overflows. */
int kv_model_check(const struct kv_model *m, struct penstock_err *err);

/* Bytes of one of @shards parts of an entry of @tokens tokens, rounded down. */
uint64_t kv_model_object_bytes(const struct kv_model *m, uint64_t tokens, uint32_t shards);

/* Large by upstream's measure: hidden_dim >= 8192 or layers >= 64. */
bool kv_model_is_large(const struct kv_model *m);

#endif
