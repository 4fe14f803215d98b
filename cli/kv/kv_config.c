/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table has every key with its type, its range and its place in struct kv_config; what a
 * section may contain follows from the table.  Upstream checks no ranges and fails later, if at
 * all: here a value nothing can be done with is refused with the others.
 *
 * Only what the table names is looked at, so aliases cannot make a small file large.
 */
#include "cli/kv/kv_config.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/kv/kv_yaml.h"
#include "cli/opt/opt.h"

#define CONFIG_MAX ((size_t)16 << 20)
#define I31        2147483647.0
#define I53        9007199254740992.0 /* whole numbers are exact in double up to here */

enum kind {
	WHOLE,    /* int64_t */
	NUMBER,   /* double */
	RANGE,    /* int64_t[2], a list of two */
	TIMES,    /* double[2], the same */
	RETRIEVAL /* a word */
};

struct key {
	const char *path;
	enum kind kind;
	bool dead; /* has no effect upstream */
	double min, max;
	size_t at;
};

#define AT(field) offsetof(struct kv_config, field)
/* clang-format off */
#define TEMPLATE(name, i) \
	{"user_templates." name ".context_range", RANGE, false, 0, I31, AT(user[i].context)}, \
	{"user_templates." name ".generation_range", RANGE, false, 0, I31, AT(user[i].generation)}, \
	{"user_templates." name ".think_time_range", TIMES, false, 0, 1e6, AT(user[i].think)}
#define QOS(name, i) \
	{"qos_profiles." name ".target_latency_p95_ms", NUMBER, true, 0, 1e15, AT(qos[i].p95_ms)}, \
	{"qos_profiles." name ".target_latency_p99_ms", NUMBER, true, 0, 1e15, AT(qos[i].p99_ms)}, \
	{"qos_profiles." name ".target_latency_p999_ms", NUMBER, true, 0, 1e15, AT(qos[i].p999_ms)}, \
	{"qos_profiles." name ".target_latency_p9999_ms", NUMBER, true, 0, 1e15, AT(qos[i].p9999_ms)}, \
	{"qos_profiles." name ".priority", WHOLE, true, -I31, I31, AT(qos[i].priority)}

static const struct key keys[] = {
	TEMPLATE("chatbot", KV_CHATBOT),
	TEMPLATE("coding", KV_CODING),
	TEMPLATE("document", KV_DOCUMENT),
	{"generation_timing.none", NUMBER, true, 0, 1e6, AT(generation_sec[KV_GEN_NONE])},
	{"generation_timing.fast", NUMBER, true, 0, 1e6, AT(generation_sec[KV_GEN_FAST])},
	{"generation_timing.realistic", NUMBER, true, 0, 1e6, AT(generation_sec[KV_GEN_REALISTIC])},
	QOS("interactive", KV_INTERACTIVE),
	QOS("responsive", KV_RESPONSIVE),
	QOS("batch", KV_BATCH),
	{"qos_distribution.interactive_probability", NUMBER, false, 0, 1, AT(interactive_probability)},
	{"qos_distribution.responsive_threshold", NUMBER, false, 0, 1, AT(responsive_threshold)},
	{"eviction.max_recursion_depth", WHOLE, false, 0, I31, AT(max_recursion_depth)},
	{"eviction.target_usage_ratio", NUMBER, false, 0, 1, AT(target_usage_ratio)},
	{"eviction.large_entry_limit_ratio", NUMBER, false, 0, 1, AT(large_entry_limit_ratio)},
	{"eviction.max_evictions_hard_cap", WHOLE, false, 1, I31, AT(max_evictions_hard_cap)},
	{"eviction.max_evictions_min", WHOLE, false, 0, I31, AT(max_evictions_min)},
	{"gpu_backend.memory_fraction", NUMBER, false, 0, 1, AT(gpu_memory_fraction)},
	{"gpu_backend.max_eviction_attempts", WHOLE, false, 0, I31, AT(gpu_max_eviction_attempts)},
	{"gpu_backend.free_memory_threshold", NUMBER, false, 0, 1, AT(gpu_free_memory_threshold)},
	{"prefix_cache.min_prefix_length", WHOLE, true, 0, I31, AT(min_prefix_length)},
	{"prefix_cache.max_prefix_entries", WHOLE, true, 0, I31, AT(max_prefix_entries)},
	{"prefix_cache.system_prompt_hit_probability", NUMBER, false, 0, 1, AT(system_prompt_hit_probability)},
	{"rag.chunk_size_tokens", WHOLE, false, 1, I31, AT(rag_chunk_tokens)},
	{"rag.top_k_chunks", WHOLE, false, 0, I31, AT(rag_top_k)},
	{"rag.max_chunk_bytes", WHOLE, false, 1, I53, AT(rag_max_chunk_bytes)},
	{"rag.request_probability", NUMBER, false, 0, 1, AT(rag_request_probability)},
	{"rag.retrieval_distribution", RETRIEVAL, false, 0, 0, AT(rag_retrieval)},
	{"rag.max_documents", WHOLE, false, 0, I31, AT(rag_max_documents)},
	{"rag.large_model_doc_tokens_min", WHOLE, false, 1, I31, AT(rag_large_tokens[0])},
	{"rag.large_model_doc_tokens_max", WHOLE, false, 1, I31, AT(rag_large_tokens[1])},
	{"rag.small_model_doc_tokens_min", WHOLE, false, 1, I31, AT(rag_small_tokens[0])},
	{"rag.small_model_doc_tokens_max", WHOLE, false, 1, I31, AT(rag_small_tokens[1])},
	{"conversation.max_conversations", WHOLE, false, 1, I31, AT(max_conversations)},
	{"conversation.max_turns_per_conv", WHOLE, false, 1, 65535, AT(max_turns)},
	{"conversation.end_conversation_probability", NUMBER, true, 0, 1, AT(end_conversation_probability)},
	{"autoscaler.min_users", WHOLE, false, 1, I31, AT(min_users)},
	{"autoscaler.max_users", WHOLE, false, 1, I31, AT(max_users)},
	{"autoscaler.scale_up_factor", NUMBER, true, 1, 1000, AT(scale_up_factor)},
	{"autoscaler.scale_down_factor", NUMBER, true, 0, 1, AT(scale_down_factor)},
	{"autoscaler.consecutive_samples_required", WHOLE, true, 1, I31, AT(consecutive_samples)},
	{"decode.batch_size", WHOLE, false, 1, I31, AT(decode_batch)},
	{"sharegpt.max_context_tokens", WHOLE, true, 1, I31, AT(sharegpt_max_context)},
	{"sharegpt.max_generation_tokens", WHOLE, true, 1, I31, AT(sharegpt_max_generation)},
	{"sharegpt.chars_per_token_estimate", WHOLE, true, 1, I31, AT(sharegpt_chars_per_token)},
	{"saturation_detection.read_latency_p95_threshold_ms", NUMBER, false, 0, 1e15, AT(read_p95_threshold_ms)},
	{"saturation_detection.write_latency_p95_threshold_ms", NUMBER, false, 0, 1e15, AT(write_p95_threshold_ms)},
	{"saturation_detection.queue_depth_threshold", WHOLE, false, 0, I31, AT(queue_depth_threshold)},
	{"saturation_detection.history_window_size", WHOLE, true, 1, 10000, AT(history_window)},
	{"validation_limits.max_users", WHOLE, true, 1, I31, AT(limit_users)},
	{"validation_limits.max_duration_seconds", WHOLE, true, 1, I31, AT(limit_duration)},
	{"validation_limits.max_gpu_memory_gb", NUMBER, true, 0, 1e9, AT(limit_gpu_gb)},
	{"validation_limits.max_cpu_memory_gb", NUMBER, true, 0, 1e9, AT(limit_cpu_gb)},
};
/* clang-format on */

#define MODELS     "model_configs"
#define MODELS_MAX 1000

const char *kv_config_key(unsigned i, bool *ret_dead)
{
	if (i >= ARRAY_SIZE(keys))
		return NULL;
	*ret_dead = keys[i].dead;
	return keys[i].path;
}

struct reading {
	struct kv_config *config;
	const char *name;
	struct cli_problems *problems, *warnings;
	int line; /* of the key at hand */
};

/* ---------------------------------------------------------------- one value */

static void *field(struct reading *r, const struct key *k)
{
	return (char *)r->config + k->at;
}

static void wrong_value(struct reading *r, struct fy_node *n, const struct key *k, const char *why)
{
	char value[60];

	cli_problem(r->problems, "%s: line %d: %s: %s is not %s", r->name, r->line, k->path,
		    kv_yaml_text(value, sizeof(value), n), why);
}

/* Where the value must lie, in words; numbers without end are "0 or more". */
static void wrong_range(struct reading *r, struct fy_node *n, const struct key *k)
{
	char why[80];

	if (k->max >= I31)
		snprintf(why, sizeof(why), "a number of %.15g or more", k->min);
	else
		snprintf(why, sizeof(why), "a number of %.15g to %.15g", k->min, k->max);
	wrong_value(r, n, k, why);
}

static bool number_in_range(struct reading *r, struct fy_node *n, const struct key *k, double *ret)
{
	bool whole = k->kind == WHOLE || k->kind == RANGE;

	if (!kv_yaml_number(n, ret) || (whole && !kv_yaml_is_whole(n)))
		wrong_value(r, n, k, whole ? "a whole number" : "a number");
	else if (*ret < k->min || *ret > k->max)
		wrong_range(r, n, k);
	else
		return true;
	return false;
}

static void set_pair(struct reading *r, struct fy_node *n, const struct key *k)
{
	double v[2];

	if (!fy_node_is_sequence(n) || fy_node_sequence_item_count(n) != 2) {
		wrong_value(r, n, k, "a list of two numbers");
		return;
	}
	for (int i = 0; i < 2; i++)
		if (!number_in_range(r, kv_yaml_item(n, i), k, &v[i]))
			return;
	if (v[0] > v[1]) {
		cli_problem(r->problems, "%s: line %d: %s: %.15g is larger than %.15g", r->name,
			    r->line, k->path, v[0], v[1]);
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (k->kind == RANGE)
			((int64_t *)field(r, k))[i] = (int64_t)v[i];
		else
			((double *)field(r, k))[i] = v[i];
	}
}

static void set_retrieval(struct reading *r, struct fy_node *n, const struct key *k)
{
	static const char *const words[] = {[KV_RETRIEVE_ZIPFIAN] = "zipfian",
					    [KV_RETRIEVE_UNIFORM] = "uniform",
					    [KV_RETRIEVE_RANDOM] = "random"};
	char text[64];

	if (!kv_yaml_is_string(n)) {
		wrong_value(r, n, k, "one of zipfian, uniform, random");
		return;
	}
	kv_yaml_word(text, sizeof(text), n);
	*(int *)field(r, k) = KV_RETRIEVE_ZIPFIAN;
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strcmp(words[i], text)) {
			*(int *)field(r, k) = (int)i;
			return;
		}
	}
	cli_problem(r->warnings,
		    "%s: line %d: %s: '%s' is not one of zipfian, uniform, random; "
		    "zipfian is used",
		    r->name, r->line, k->path, text);
}

static void set_value(struct reading *r, struct fy_node *n, const struct key *k)
{
	double v;

	if (k->kind == RANGE || k->kind == TIMES)
		set_pair(r, n, k);
	else if (k->kind == RETRIEVAL)
		set_retrieval(r, n, k);
	else if (!number_in_range(r, n, k, &v))
		return;
	else if (k->kind == WHOLE)
		*(int64_t *)field(r, k) = (int64_t)v;
	else
		*(double *)field(r, k) = v;
}

/* ------------------------------------------------------------------ sections */

/* Is @path the key @k, a section of it, or neither? */
enum fit { OTHER, SECTION, LEAF };

static enum fit kv_config_fits(const struct key *k, const char *path)
{
	size_t len = strlen(path);

	if (!*path)
		return SECTION;
	if (strncmp(k->path, path, len) != 0)
		return OTHER;
	return k->path[len] == '.' ? SECTION : k->path[len] ? OTHER : LEAF;
}

static const struct key *find_key(const char *path, enum fit *ret)
{
	*ret = OTHER;
	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++) {
		*ret = kv_config_fits(&keys[i], path);
		if (*ret != OTHER)
			return &keys[i];
	}
	return NULL;
}

/* The names a section may have: those of the table, each once. */
static void valid_names(char *out, size_t size, const char *section)
{
	size_t skip = *section ? strlen(section) + 1 : 0, used = 0, last = 0;
	const char *previous = "";

	*out = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(keys) && used < size; i++) {
		const char *name = keys[i].path + skip;
		size_t len;

		if (kv_config_fits(&keys[i], section) != SECTION)
			continue;
		len = strcspn(name, ".");
		if (len == last && !strncmp(name, previous, len))
			continue;
		used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? ", " : "",
					 (int)len, name);
		previous = name;
		last = len;
	}
	if (!*section && used < size)
		snprintf(out + used, size - used, ", " MODELS);
}

static void unknown_key(struct reading *r, const char *section, const char *path)
{
	char valid[700];

	valid_names(valid, sizeof(valid), section);
	cli_problem(r->problems, "%s: line %d: Unknown configuration key: '%s'; valid keys%s%s: %s",
		    r->name, r->line, path, *section ? " of " : "", section, valid);
}

static void no_mapping(struct reading *r, const char *path)
{
	if (*path)
		cli_problem(r->problems, "%s: line %d: %s: is not a mapping of keys to values",
			    r->name, r->line, path);
	else
		cli_problem(r->problems, "%s: is not a mapping of sections", r->name);
}

static void refuse_twice(struct reading *r, struct fy_node *mapping)
{
	struct fy_node *key = kv_yaml_twice(mapping);
	char name[60];

	if (key)
		cli_problem(r->problems, "%s: line %d: duplicate key %s", r->name,
			    kv_yaml_line(key), kv_yaml_text(name, sizeof(name), key));
}

/* -------------------------------------------------------------------- models */

#define MODEL(name_, field_)                                                                     \
	{                                                                                        \
		name_, offsetof(struct kv_model, field_), sizeof(((struct kv_model *)0)->field_) \
	}

static const struct model_field {
	const char *name;
	size_t at, size;
} model_numbers[] =
	{
		MODEL("num_layers", layers),
		MODEL("hidden_dim", hidden_dim),
		MODEL("num_heads", heads),
		MODEL("kv_heads", kv_heads),
		MODEL("kv_dim_per_head", kv_dim_per_head),
		MODEL("kv_lora_rank", kv_lora_rank),
		MODEL("qk_rope_head_dim", qk_rope_head_dim),
},
  model_texts[] = {
	  MODEL("name", name),
	  MODEL("dtype", dtype),
	  MODEL("attention_type", attention),
};

static const struct model_field *model_field(const struct model_field *f, size_t nr,
					     const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(f[i].name, name))
			return &f[i];
	return NULL;
}

static void model_number(struct reading *r, struct kv_model *m, const char *name,
			 const struct model_field *f, struct fy_node *n)
{
	char value[60];
	double v = 0;

	if (!kv_yaml_is_null(n) &&
	    (!kv_yaml_number(n, &v) || !kv_yaml_is_whole(n) || v < 0 || v > I31)) {
		cli_problem(r->problems, "%s: line %d: " MODELS ".%s.%s: %s is not a whole number",
			    r->name, r->line, m->key, name, kv_yaml_text(value, sizeof(value), n));
		return;
	}
	*(uint32_t *)(void *)((char *)m + f->at) = (uint32_t)v;
}

static void model_text(struct reading *r, struct kv_model *m, const char *name,
		       const struct model_field *f, struct fy_node *n)
{
	if (!fy_node_is_scalar(n)) {
		cli_problem(r->problems, "%s: line %d: " MODELS ".%s.%s: is not a text", r->name,
			    r->line, m->key, name);
		return;
	}
	kv_yaml_word((char *)m + f->at, f->size, n);
}

/* Free-form: what is not known is not looked at. */
static void set_model(struct reading *r, const char *key, struct fy_node *body)
{
	struct kv_model *m;
	struct penstock_err err = {0, ""};
	struct kv_yaml_pair p;
	char path[128];

	snprintf(path, sizeof(path), MODELS ".%s", key);
	if (!body || !fy_node_is_mapping(body)) {
		no_mapping(r, path);
		return;
	}
	m = strlen(key) < sizeof(m->key) ? kv_models_add(&r->config->models, key) : NULL;
	if (!m) {
		cli_problem(r->problems, "%s: line %d: %s: the name is too long", r->name, r->line,
			    path);
		return;
	}
	refuse_twice(r, body);
	for (void *pos = NULL; kv_yaml_next(body, &pos, &p);) {
		const struct model_field *number_of =
			model_field(model_numbers, ARRAY_SIZE(model_numbers), p.name);
		const struct model_field *text_of =
			model_field(model_texts, ARRAY_SIZE(model_texts), p.name);

		r->line = kv_yaml_line(p.key);
		if (number_of)
			model_number(r, m, p.name, number_of, p.value);
		else if (text_of)
			model_text(r, m, p.name, text_of, p.value);
	}
	if (kv_model_check(m, &err) < 0)
		cli_problem(r->problems, "%s: line %d: %s: %s", r->name, r->line, path, err.msg);
}

static void set_models(struct reading *r, struct fy_node *section)
{
	struct kv_yaml_pair p;

	if (!section || !fy_node_is_mapping(section)) {
		no_mapping(r, MODELS);
		return;
	}
	if (fy_node_mapping_item_count(section) > MODELS_MAX) {
		cli_problem(r->problems, "%s: line %d: " MODELS ": more than %d models", r->name,
			    r->line, MODELS_MAX);
		return;
	}
	refuse_twice(r, section);
	for (void *pos = NULL; kv_yaml_next(section, &pos, &p);) {
		r->line = kv_yaml_line(p.key);
		set_model(r, p.name, p.value);
	}
}

/* --------------------------------------------------------------------- file */

static void set_section(struct reading *r, struct fy_node *section, const char *name,
			unsigned depth)
{
	struct kv_yaml_pair p;

	refuse_twice(r, section);
	for (void *pos = NULL; kv_yaml_next(section, &pos, &p);) {
		const struct key *k;
		char path[160];
		enum fit fit;

		r->line = kv_yaml_line(p.key);
		snprintf(path, sizeof(path), "%s%s%s", name, *name ? "." : "", p.name);
		k = find_key(path, &fit);
		if (depth == 0 && !strcmp(p.name, MODELS))
			set_models(r, p.value);
		else if (fit == OTHER || !*p.name || strchr(p.name, '.'))
			unknown_key(r, name, path);
		else if (fit == LEAF)
			set_value(r, p.value, k);
		else if (!p.value || !fy_node_is_mapping(p.value))
			no_mapping(r, path);
		else
			set_section(r, p.value, path, depth + 1);
	}
}

/* What single keys cannot say. */
static void kv_config_check_all(struct reading *r)
{
	const struct kv_config *c = r->config;
	struct penstock_err err = {0, ""};

	if (c->min_users > c->max_users)
		cli_problem(r->problems,
			    "%s: autoscaler.min_users (%lld) is larger than max_users (%lld)",
			    r->name, (long long)c->min_users, (long long)c->max_users);
	if (!r->problems->nr && kv_config_check(c, &err) < 0)
		cli_problem(r->problems, "%s: %s", r->name, err.msg);
}

void kv_config_parse(struct kv_config *c, const char *text, size_t len, const char *name,
		     struct cli_problems *problems, struct cli_problems *warnings)
{
	struct reading r = {c, name, problems, warnings, 0};
	struct kv_yaml *y = kv_yaml_parse(text, len, name, problems);
	struct fy_node *root = y ? kv_yaml_root(y) : NULL;

	if (root && !kv_yaml_is_null(root)) {
		if (fy_node_is_mapping(root))
			set_section(&r, root, "", 0);
		else
			no_mapping(&r, "");
		kv_config_check_all(&r);
	}
	kv_yaml_free(y);
}

void kv_config_load(struct kv_config *c, const char *path, struct cli_problems *problems,
		    struct cli_problems *warnings)
{
	CLEANUP_FREE char *text = malloc(CONFIG_MAX + 1);
	FILE *f = text ? fopen(path, "re") : NULL;
	char name[300];
	size_t len;

	snprintf(name, sizeof(name), "--config: '%.250s'", path);
	if (!f) {
		cli_problem(problems, "%s: %s", name, strerror(text ? errno : ENOMEM));
		return;
	}
	len = fread(text, 1, CONFIG_MAX + 1, f);
	if (ferror(f))
		cli_problem(problems, "%s: %s", name, strerror(errno));
	else if (len > CONFIG_MAX)
		cli_problem(problems, "%s: is larger than 16 MiB", name);
	else
		kv_config_parse(c, text, len, name, problems, warnings);
	fclose(f);
}
