/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_PARAMS_H
#define PENSTOCK_MODEL_KV_PARAMS_H

/*
 * Everything that decides what a KV-cache workload does: struct kv_config is what the YAML file
 * can say, struct kv_params what the command line can.  kv_config_defaults() fills in upstream's
 * built-in values.
 */
#include <stdbool.h>
#include <stdint.h>

#include "load/model/kv_cache.h"
#include "load/model/kv_model.h"

enum { KV_CHATBOT, KV_CODING, KV_DOCUMENT, KV_TEMPLATES };
enum { KV_INTERACTIVE, KV_RESPONSIVE, KV_BATCH, KV_QOS };
enum { KV_GEN_NONE, KV_GEN_FAST, KV_GEN_REALISTIC, KV_GENS };
enum { KV_RETRIEVE_ZIPFIAN, KV_RETRIEVE_UNIFORM, KV_RETRIEVE_RANDOM };
enum { KV_SCALE_QOS, KV_SCALE_CAPACITY };
extern const char *const kv_template_names[KV_TEMPLATES + 1]; /* NULL at the end */
extern const char *const kv_qos_names[KV_QOS + 1];
extern const char *const kv_gen_names[KV_GENS + 1];

struct kv_template {
	int64_t context[2], generation[2]; /* tokens, inclusive */
	double think[2];                   /* seconds */
};

struct kv_qos {
	double p95_ms, p99_ms, p999_ms, p9999_ms;
	int64_t priority;
};

struct kv_config {
	struct kv_template user[KV_TEMPLATES];
	double generation_sec[KV_GENS]; /* per token */
	struct kv_qos qos[KV_QOS];
	double interactive_probability, responsive_threshold;
	int64_t max_recursion_depth;
	double target_usage_ratio, large_entry_limit_ratio;
	int64_t max_evictions_hard_cap, max_evictions_min;
	double gpu_memory_fraction;
	int64_t gpu_max_eviction_attempts;
	double gpu_free_memory_threshold;
	int64_t min_prefix_length, max_prefix_entries;
	double system_prompt_hit_probability;
	int64_t rag_chunk_tokens, rag_top_k, rag_max_chunk_bytes;
	double rag_request_probability;
	int rag_retrieval; /* KV_RETRIEVE_* */
	int64_t rag_max_documents;
	int64_t rag_large_tokens[2], rag_small_tokens[2];
	int64_t max_conversations, max_turns;
	double end_conversation_probability;
	int64_t min_users, max_users;
	double scale_up_factor, scale_down_factor;
	int64_t consecutive_samples;
	int64_t decode_batch;
	int64_t sharegpt_max_context, sharegpt_max_generation, sharegpt_chars_per_token;
	double read_p95_threshold_ms, write_p95_threshold_ms;
	int64_t queue_depth_threshold, history_window;
	int64_t limit_users, limit_duration; /* validation_limits */
	double limit_gpu_gb, limit_cpu_gb;
	struct kv_models models;
};
int kv_config_defaults(struct kv_config *c); /* 0 or -ENOMEM */
void kv_config_fini(struct kv_config *c);
/* 0, or -EINVAL and the first value with which the model could not work, by its key in the file. */
int kv_config_check(const struct kv_config *c, struct penstock_err *err);

/*
 * What is decided otherwise than we would, as upstream does it (--compat); zeroed is ours.  What
 * upstream has as constants kv_params_as_upstream() puts into the configuration.
 */
struct kv_policy {
	bool divides_latents;  /* those of MLA, too, among the ranks */
	bool undivided_limits; /* one rank has all of every tier, not its part */
	bool needs_gpu;        /* without one there is no first tier */
	bool live;             /* the queue is by priority, on the real clock */
	bool counts_late;      /* what ends after the interval */
	bool counts_failed; /* operations before they are done, requests whatever became of them */
	bool hides_evictions;           /* from latencies of tiers and requests */
	bool counts_missed_prefixes;    /* a prefix that is missing saves its bytes all the same */
	bool sees_later_turns;          /* of a conversation, as soon as they are registered */
	bool keeps_forgotten_documents; /* that are forgotten */
	bool ignores_rate;              /* but of ShareGPT */
	bool recordings_only; /* no documents, no earlier turns, a level per request, end with them
			       */
	bool scales_number_only;   /* the autoscaler changes a number, not the users */
	bool new_files;            /* those of deleted entries are not written over */
	bool ignores_failures;     /* failed operations are no failure of the run */
	bool averages_since_start; /* it is told the tokens per second since the start */
};

struct kv_params {
	struct kv_config config;
	const struct kv_model *model; /* in config.models */
	uint64_t seed;
	bool seed_given;
	uint32_t users;
	uint32_t part, parts; /* what is asked for: this one of so many parts; 0 and 1: all */
	uint64_t duration_ns;
	double gpu_gb, cpu_gb, storage_gb; /* storage 0: automatic */
	double asked_cpu_gb;               /* where cpu_gb is what this machine has of it */
	uint32_t gpus, tensor_parallel;
	int generation; /* KV_GEN_* */
	bool multi_turn, prefix, rag;
	uint32_t rag_docs;
	bool autoscale;
	int autoscale_mode;
	double target_saturation;
	const char *burst_path; /* NULL: not used */
	const char *sharegpt_path;
	/* Without requests an input is an error; KV_INPUT_STRICT: with bad rows as well. */
	enum { KV_INPUT_ANY, KV_INPUT_CHECKED, KV_INPUT_STRICT } input;
	uint32_t sharegpt_conversations;
	uint32_t max_concurrent_allocs;
	double request_rate;
	uint64_t max_requests;
	bool precondition;
	double precondition_gb;
	uint32_t precondition_threads;
	double trace_speedup;
	uint32_t replay_cycles;
	bool prefill_only, decode_only;
	bool closed_loop;
	bool compat; /* for those who tell; what it means is in @policy */
	struct kv_policy policy;
	uint64_t epoch_ns; /* what the clock shows when the run begins: row times and conversation
			      ids */
};

/* --compat: once the configuration is read. */
void kv_params_as_upstream(struct kv_params *p);

/* How many of the users are of this part. */
uint32_t kv_params_own_users(const struct kv_params *p);

/* Bytes of the storage tier, as far as the settings say: KV_UNLIMITED where they do not. */
uint64_t kv_params_storage(const struct kv_params *p);

/* Into how many parts an entry is divided; what is stored is one. */
uint32_t kv_params_shards(const struct kv_params *p);

/*
 * The cache of a run, of one rank: of the limits, which are those of the node, it has its part.
 * Limits and eviction settings from @p; nvme as given.
 */
void kv_params_cache(const struct kv_params *p, uint64_t nvme_limit, bool has_gpu,
		     struct kv_cache_opts *o);

#endif
