/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in values of the configuration, and what they mean for the cache. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/model/kv_params.h"

const char *const kv_template_names[KV_TEMPLATES + 1] = {"chatbot", "coding", "document", NULL};
const char *const kv_qos_names[KV_QOS + 1] = {"interactive", "responsive", "batch", NULL};
const char *const kv_gen_names[KV_GENS + 1] = {"none", "fast", "realistic", NULL};

static const struct kv_config builtin = {
	.user = {{{512, 4096}, {50, 200}, {0.1, 0.5}},
		 {{4096, 25000}, {100, 500}, {0.2, 1.0}},
		 {{4096, 16384}, {200, 800}, {0.3, 1.5}}},
	.generation_sec = {0, 0.002, 0.030},
	.qos = {{50, 100, 150, 200, 3}, {100, 200, 350, 500, 2}, {1000, 5000, 7500, 10000, 1}},
	.interactive_probability = 0.15,
	.responsive_threshold = 0.50,
	.max_recursion_depth = 10,
	.target_usage_ratio = 0.8,
	.large_entry_limit_ratio = 0.95,
	.max_evictions_hard_cap = 5000,
	.max_evictions_min = 1000,
	.gpu_memory_fraction = 0.8,
	.gpu_max_eviction_attempts = 100,
	.gpu_free_memory_threshold = 0.1,
	.min_prefix_length = 50,
	.max_prefix_entries = 1000,
	.system_prompt_hit_probability = 0.2,
	.rag_chunk_tokens = 512,
	.rag_top_k = 5,
	.rag_max_chunk_bytes = 256 << 20,
	.rag_request_probability = 0.1,
	.rag_retrieval = KV_RETRIEVE_ZIPFIAN,
	.rag_large_tokens = {1024, 4096},
	.rag_small_tokens = {4000, 12000},
	.max_conversations = 1000,
	.max_turns = 50,
	.end_conversation_probability = 0.2,
	.min_users = 1,
	.max_users = 10000,
	.scale_up_factor = 1.2,
	.scale_down_factor = 0.8,
	.consecutive_samples = 2,
	.decode_batch = 32,
	/* What counts without a configuration file; the one upstream ships says 8192. */
	.sharegpt_max_context = 16384,
	.sharegpt_max_generation = 2048,
	.sharegpt_chars_per_token = 4,
	.read_p95_threshold_ms = 100,
	.write_p95_threshold_ms = 50,
	.queue_depth_threshold = 100,
	.history_window = 10,
	.limit_users = 100000,
	.limit_duration = 86400,
	.limit_gpu_gb = 65536,
	.limit_cpu_gb = 131072,
};

int kv_config_defaults(struct kv_config *c)
{
	*c = builtin;
	return kv_models_init(&c->models);
}

void kv_config_fini(struct kv_config *c)
{
	kv_models_fini(&c->models);
}

static uint64_t gib(double v)
{
	double bytes = v * 1073741824.0;

	if (!(bytes > 0))
		return 0;
	return bytes < 0x1p63 ? (uint64_t)bytes : 1ull << 63;
}

static uint32_t u32(int64_t v)
{
	return v < 0 ? 0 : (uint32_t)min_u64((uint64_t)v, UINT32_MAX);
}

void kv_params_cache(const struct kv_params *p, uint64_t nvme_limit, bool has_gpu,
		     struct kv_cache_opts *o)
{
	const struct kv_config *c = &p->config;
	uint32_t ranks = p->policy.undivided_limits ? 1 : p->tensor_parallel;

	kv_cache_opts_defaults(o);
	o->model = p->model;
	o->shards = kv_params_shards(p);
	o->has_gpu = has_gpu;
	o->limit[KV_GPU] = gib(p->gpus * p->gpu_gb) / ranks;
	o->limit[KV_CPU] = gib(p->cpu_gb) / ranks;
	o->limit[KV_NVME] = nvme_limit == KV_UNLIMITED ? nvme_limit : nvme_limit / ranks;
	o->max_recursion_depth = u32(c->max_recursion_depth);
	o->target_usage_ratio = c->target_usage_ratio;
	o->large_entry_limit_ratio = c->large_entry_limit_ratio;
	o->max_evictions_hard_cap = u32(c->max_evictions_hard_cap);
	o->max_evictions_min = u32(c->max_evictions_min);
}

uint64_t kv_params_storage(const struct kv_params *p)
{
	return p->storage_gb > 0 ? (uint64_t)fmin(p->storage_gb * 0x1p30, 0x1p62) : KV_UNLIMITED;
}

uint32_t kv_params_own_users(const struct kv_params *p)
{
	return p->parts < 2 ? p->users : (p->users + p->parts - 1 - p->part) / p->parts;
}

uint32_t kv_params_shards(const struct kv_params *p)
{
	return kv_model_is_mla(p->model) && !p->policy.divides_latents ? 1 : p->tensor_parallel;
}

/* ---- as upstream ---- */

#define UPSTREAM_MAX_USERS 500

/* Keys that have no effect upstream have the value that is written there. */
void kv_params_as_upstream(struct kv_params *p)
{
	const struct kv_config *d = &builtin;
	struct kv_config *c = &p->config;

	p->compat = true;
	p->policy = (struct kv_policy){.divides_latents = true,
				       .undivided_limits = true,
				       .needs_gpu = true,
				       .live = true,
				       .counts_late = true,
				       .counts_failed = true,
				       .hides_evictions = true,
				       .counts_missed_prefixes = true,
				       .sees_later_turns = true,
				       .keeps_forgotten_documents = true,
				       .ignores_rate = true,
				       .recordings_only = true,
				       .scales_number_only = true,
				       .new_files = true,
				       .ignores_failures = true,
				       .averages_since_start = true};
	c->min_prefix_length = c->max_prefix_entries = 0; /* asked for, never written */
	c->end_conversation_probability = d->end_conversation_probability;
	memcpy(c->generation_sec, d->generation_sec, sizeof(c->generation_sec));
	memcpy(c->qos, d->qos, sizeof(c->qos));
	c->scale_up_factor = d->scale_up_factor;
	c->scale_down_factor = d->scale_down_factor;
	c->consecutive_samples = d->consecutive_samples;
	c->history_window = d->history_window;
	c->max_users = c->max_users < UPSTREAM_MAX_USERS ? c->max_users : UPSTREAM_MAX_USERS;
	c->sharegpt_max_context = d->sharegpt_max_context;
	c->sharegpt_max_generation = d->sharegpt_max_generation;
	c->sharegpt_chars_per_token = d->sharegpt_chars_per_token;
	c->limit_users = d->limit_users;
	c->limit_duration = d->limit_duration;
	c->limit_gpu_gb = d->limit_gpu_gb;
	c->limit_cpu_gb = d->limit_cpu_gb;
}

/* ---- what the model cannot do ---- */

struct range {
	const char *name;
	const int64_t *v; /* two of them */
	int64_t least;
};

static int kv_config_check_ranges(const struct kv_config *c, struct penstock_err *err)
{
	const struct range ranges[] = {
		{"user_templates.chatbot.context_range", c->user[KV_CHATBOT].context, 0},
		{"user_templates.chatbot.generation_range", c->user[KV_CHATBOT].generation, 0},
		{"user_templates.coding.context_range", c->user[KV_CODING].context, 0},
		{"user_templates.coding.generation_range", c->user[KV_CODING].generation, 0},
		{"user_templates.document.context_range", c->user[KV_DOCUMENT].context, 0},
		{"user_templates.document.generation_range", c->user[KV_DOCUMENT].generation, 0},
		{"rag.large_model_doc_tokens_min and _max", c->rag_large_tokens, 0},
		{"rag.small_model_doc_tokens_min and _max", c->rag_small_tokens, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		const struct range *r = &ranges[i];

		if (r->v[0] < r->least || r->v[1] < r->v[0] || r->v[1] > INT32_MAX)
			return penstock_fail(err, -EINVAL,
					     "%s: %lld to %lld is no range within %lld..%d",
					     r->name, (long long)r->v[0], (long long)r->v[1],
					     (long long)r->least, INT32_MAX);
	}
	for (int i = 0; i < KV_TEMPLATES; i++) {
		const double *v = c->user[i].think;

		if (!(v[0] >= 0 && v[1] >= v[0] && v[1] <= 1e6))
			return penstock_fail(err, -EINVAL,
					     "user_templates.%s.think_time_range: %g to %g is no "
					     "range within 0..1000000",
					     kv_template_names[i], v[0], v[1]);
	}
	return 0;
}

struct integer {
	const char *name;
	int64_t v, least, most;
};

static int check_integers(const struct kv_config *c, struct penstock_err *err)
{
	const struct integer all[] = {
		{"eviction.max_recursion_depth", c->max_recursion_depth, 0, INT32_MAX},
		{"eviction.max_evictions_hard_cap", c->max_evictions_hard_cap, 1, INT32_MAX},
		{"eviction.max_evictions_min", c->max_evictions_min, 0, INT32_MAX},
		{"prefix_cache.min_prefix_length", c->min_prefix_length, 0, INT32_MAX},
		{"prefix_cache.max_prefix_entries", c->max_prefix_entries, 0, INT32_MAX},
		{"rag.chunk_size_tokens", c->rag_chunk_tokens, 1, INT32_MAX},
		{"rag.top_k_chunks", c->rag_top_k, 0, INT32_MAX},
		{"rag.max_chunk_bytes", c->rag_max_chunk_bytes, 1, INT64_MAX},
		{"rag.max_documents", c->rag_max_documents, 0, INT32_MAX},
		{"conversation.max_conversations", c->max_conversations, 1, INT32_MAX},
		{"conversation.max_turns_per_conv", c->max_turns, 1, UINT16_MAX},
		{"autoscaler.min_users", c->min_users, 1, INT32_MAX},
		{"autoscaler.max_users", c->max_users, 1, INT32_MAX},
		{"autoscaler.consecutive_samples_required", c->consecutive_samples, 1, INT32_MAX},
		{"decode.batch_size", c->decode_batch, 1, INT32_MAX},
		{"sharegpt.max_context_tokens", c->sharegpt_max_context, 0, INT32_MAX},
		{"sharegpt.max_generation_tokens", c->sharegpt_max_generation, 0, INT32_MAX},
		{"sharegpt.chars_per_token_estimate", c->sharegpt_chars_per_token, 1, INT32_MAX},
		{"saturation_detection.history_window_size", c->history_window, 1, INT32_MAX},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].v < all[i].least || all[i].v > all[i].most)
			return penstock_fail(err, -EINVAL, "%s: %lld is outside %lld..%lld",
					     all[i].name, (long long)all[i].v,
					     (long long)all[i].least, (long long)all[i].most);
	return 0;
}

struct number {
	const char *name;
	double v, most;
};

static int check_numbers(const struct kv_config *c, struct penstock_err *err)
{
	const struct number all[] = {
		{"generation_timing.none", c->generation_sec[KV_GEN_NONE], 1e6},
		{"generation_timing.fast", c->generation_sec[KV_GEN_FAST], 1e6},
		{"generation_timing.realistic", c->generation_sec[KV_GEN_REALISTIC], 1e6},
		{"qos_distribution.interactive_probability", c->interactive_probability, 1},
		{"qos_distribution.responsive_threshold", c->responsive_threshold, 1},
		{"eviction.target_usage_ratio", c->target_usage_ratio, 1},
		{"eviction.large_entry_limit_ratio", c->large_entry_limit_ratio, 1},
		{"prefix_cache.system_prompt_hit_probability", c->system_prompt_hit_probability, 1},
		{"rag.request_probability", c->rag_request_probability, 1},
		{"conversation.end_conversation_probability", c->end_conversation_probability, 1},
		{"autoscaler.scale_up_factor", c->scale_up_factor, 1e6},
		{"autoscaler.scale_down_factor", c->scale_down_factor, 1e6},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (!(all[i].v >= 0 && all[i].v <= all[i].most))
			return penstock_fail(err, -EINVAL, "%s: %g is outside 0..%g", all[i].name,
					     all[i].v, all[i].most);
	return 0;
}

int kv_config_check(const struct kv_config *c, struct penstock_err *err)
{
	int r = kv_config_check_ranges(c, err);

	if (r == 0)
		r = check_integers(c, err);
	if (r == 0)
		r = check_numbers(c, err);
	for (unsigned i = 0; r == 0 && i < c->models.nr; i++)
		r = kv_model_check(&c->models.v[i], err);
	return r;
}
