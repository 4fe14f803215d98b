/* SPDX-License-Identifier: Apache-2.0 */
/* What `penstock kv' found out as a result like that of the other commands; docs/result.md. */

#include "base/util.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/report_lines.h"
#include "load/report/result/result.h"
#include "load/report/result/text.h"

static json_t *common_limit_json(uint64_t v)
{
	return v == KV_UNLIMITED ? json_null() : report_count(v);
}

/* ------------------------------------------------------------------ settings */

/* What is not the value of one option. */
static void add_settings(json_t *j, const struct kv_report *r)
{
	const struct kv_job *job = r->job;
	const struct kv_params *p = job->params;

	json_object_set_new(j, "seed", report_count(p->seed));
	json_object_set_new(j, "seed_given", json_boolean(p->seed_given));
	json_object_set_new(j, "burst_trace_path", report_str_or_null(p->burst_path));
	json_object_set_new(j, "io_trace_log", report_str_or_null(job->trace_path));
	json_object_set_new(j, "order", json_string(kv_order_names[job->order]));
}

/* --------------------------------------------------------------------- flows */

/* Of what happened in a tier: how much of it was an entry on its way down. */
struct part {
	uint64_t bytes, ops;
};

static uint64_t subtract(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* @way 0: what was read for users; 1: what was written new. */
static struct part used_part(const struct kv_report *r, unsigned tier, unsigned way)
{
	const struct kv_result *res = r->res;
	const struct kv_counts *n = &res->counts;
	uint64_t ops = res->tier[tier][way].n;

	/* with --compat the samples of the tier are without those of evictions already */
	if (!r->job->params->policy.hides_evictions)
		ops = subtract(ops, res->evict[tier][way].n);
	return way ? (struct part){subtract(n->tier_written[tier], n->tier_evicted_in[tier]), ops}
		   : (struct part){subtract(n->tier_read[tier], n->tier_evicted_out[tier]), ops};
}

static void flow(json_t *all, const char *from, const char *to, struct part p)
{
	json_array_append_new(all,
			      json_pack("{s:s, s:s, s:I, s:I}", "from", from, "to", to, "bytes",
					(json_int_t)p.bytes, "ops", (json_int_t)p.ops));
}

static json_t *flows_json(const struct kv_report *r)
{
	static const char *const names[KV_TIERS] = {"GPU", "CPU", "storage"};
	const struct kv_result *res = r->res;
	const struct kv_counts *n = &res->counts;
	json_t *j = json_array();
	uint64_t moved = 0;

	for (unsigned t = 0; t < KV_TIERS; t++)
		flow(j, "new entries", names[t], used_part(r, t, 1));
	for (unsigned t = 0; t + 1 < KV_TIERS; t++) {
		/* either half may be too quick to be measured */
		struct part p = {n->tier_evicted_out[t],
				 max_u64(res->evict[t][0].n, res->evict[t + 1][1].n)};

		moved += p.ops;
		flow(j, names[t], names[t + 1], p);
	}
	flow(j, names[KV_NVME], "deleted",
	     (struct part){n->tier_deleted[KV_NVME], subtract(n->evictions, moved)});
	for (unsigned t = 0; t < KV_TIERS; t++)
		flow(j, names[t], "requests", used_part(r, t, 0));
	return j;
}

/* --------------------------------------------------------------------- tiers */

/* What is real in a run, and what is only counted. */
static const char *tier_kind(const struct kv_report *r, unsigned tier)
{
	const struct kv_result *res = r->res;

	if (r->job->trace_path)
		return "trace";
	if (tier == KV_GPU)
		return !res->has_gpu ? "absent" : res->gpu_real ? "device memory" : "bookkeeping";
	return tier == KV_CPU ? "host memory" : "storage";
}

static json_t *tier_json(const struct kv_report *r, unsigned t)
{
	const struct kv_result *res = r->res;
	const struct kv_counts *n = &res->counts;
	json_t *j = json_pack("{s:s, s:s, s:o, s:o, s:I, s:I}", "name", kv_tier_names[t], "kind",
			      tier_kind(r, t), "how",
			      report_str_or_null(t == KV_GPU ? res->gpu_how : ""), "limit_bytes",
			      common_limit_json(res->limit[t]), "used_bytes",
			      (json_int_t)res->used[t], "entries", (json_int_t)res->entries[t]);

	json_object_set_new(j, "read_bytes", report_count(n->tier_read[t]));
	json_object_set_new(j, "written_bytes", report_count(n->tier_written[t]));
	json_object_set_new(j, "evicted_in_bytes", report_count(n->tier_evicted_in[t]));
	json_object_set_new(j, "evicted_out_bytes", report_count(n->tier_evicted_out[t]));
	json_object_set_new(j, "deleted_bytes", report_count(n->tier_deleted[t]));
	json_object_set_new(j, "read", report_samples(&res->tier[t][0], false));
	json_object_set_new(j, "write", report_samples(&res->tier[t][1], false));
	json_object_set_new(j, "evict_read", report_samples(&res->evict[t][0], false));
	json_object_set_new(j, "evict_write", report_samples(&res->evict[t][1], false));
	if (t == KV_NVME) {
		json_object_set_new(j, "device_read", report_samples(&res->device[0], false));
		json_object_set_new(j, "device_write", report_samples(&res->device[1], false));
		json_object_set_new(j, "host_read", report_samples(&res->host[0], false));
		json_object_set_new(j, "host_write", report_samples(&res->host[1], false));
	}
	return j;
}

/* ------------------------------------------------------------------------ kv */

static json_t *model_json(const struct kv_params *p)
{
	const struct kv_model *m = p->model;

	return json_pack("{s:o, s:o, s:I, s:I, s:o}", "key", report_str(m->key), "name",
			 report_str(m->name), "bytes_per_token",
			 (json_int_t)kv_model_bytes_per_token(m), "object_bytes_per_1000_tokens",
			 (json_int_t)kv_model_object_bytes(m, 1000, kv_params_shards(p)),
			 "attention", report_str(m->attention));
}

static json_t *common_cache_json(const struct kv_result *res)
{
	const struct kv_counts *n = &res->counts;
	uint64_t asked = n->hits + n->misses;

	return json_pack("{s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "hits",
			 (json_int_t)n->hits, "misses", (json_int_t)n->misses, "hit_rate",
			 asked ? json_real((double)n->hits / (double)asked) : json_null(),
			 "user_hits", (json_int_t)n->kind_hits[KV_USER], "system_hits",
			 (json_int_t)n->kind_hits[KV_SYSTEM], "common_hits",
			 (json_int_t)n->kind_hits[KV_COMMON], "multi_turn_hits",
			 (json_int_t)n->kind_hits[KV_MULTI_TURN], "turn_hits",
			 (json_int_t)res->turn_hits, "turn_misses", (json_int_t)res->turn_misses,
			 "evictions", (json_int_t)n->evictions);
}

static json_t *errors_json(const struct kv_result *res)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:o}", "reads", (json_int_t)res->errors[0], "writes",
			 (json_int_t)res->errors[1], "verify", (json_int_t)res->verify_errors,
			 "requests", (json_int_t)res->failed_requests, "first",
			 report_str_or_null(res->first_error));
}

static json_t *latencies_json(const struct kv_report *r)
{
	const struct kv_result *res = r->res;
	json_t *qos = json_object(), *j;

	for (unsigned i = 0; i < KV_QOS; i++)
		json_object_set_new(qos, kv_qos_names[i], report_samples(&res->qos[i], false));
	j = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "end_to_end",
		      report_samples(&res->end_to_end, false), "storage",
		      report_samples(&res->storage, false), "generation",
		      report_samples(&res->generation, false), "prefill",
		      report_samples(&res->prefill, false), "decode",
		      report_samples(&res->decode, false), "qos", qos);
	return j;
}

static json_t *kv_json(const struct kv_report *r)
{
	const struct kv_result *res = r->res;
	json_t *tiers = json_array(), *j;

	for (unsigned t = 0; t < KV_TIERS; t++)
		json_array_append_new(tiers, tier_json(r, t));
	j = json_pack("{s:s, s:b, s:I, s:o, s:f, s:f, s:I, s:I, s:I, s:I}", "mode",
		      r->job->trace_path ? "trace" : "real", "compat", r->job->params->compat,
		      "tensor_ranks", (json_int_t)r->job->params->tensor_parallel, "model",
		      model_json(r->job->params), "elapsed_sec", res->elapsed_sec, "wall_sec",
		      res->wall_sec, "requests", (json_int_t)res->requests, "tokens",
		      (json_int_t)res->tokens, "late_operations", (json_int_t)res->late, "rows",
		      (json_int_t)res->rows);
	if (!r->job->trace_path)
		json_object_set_new(j, "storage_moved",
				    json_pack("{s:o, s:o}", "read_bytes",
					      report_count(res->storage_bytes[0]), "written_bytes",
					      report_count(res->storage_bytes[1])));
	json_object_set_new(j, "memory_bytes", report_count(res->memory_bytes));
	json_object_set_new(j, "errors", errors_json(res));
	json_object_set_new(j, "cache", common_cache_json(res));
	json_object_set_new(j, "tiers", tiers);
	json_object_set_new(j, "latency", latencies_json(r));
	json_object_set_new(j, "storage_health", kv_health_json(r));
	json_object_set_new(j, "seconds", result_seconds(&res->seconds, res->elapsed_sec));
	return j;
}

void kv_report_result(const struct kv_report *r, struct result *common,
		      const struct result_target *target)
{
	const struct kv_result *res = r->res;

	common->targets = target;
	common->nr_targets = 1;
	add_settings(common->settings, r);
	common->kv = kv_json(r);
	if (res->has_store)
		common->store = report_store_json(&res->store, r->job->policy);
	if (res->has_remote)
		common->objects = report_object_requests_json(&res->remote);
	common->flows = flows_json(r);
	common->bytes_written = res->bytes_written;
	/* a trace moves nothing */
	common->series = res->series;
	common->nr_series = r->job->trace_path ? 0 : 2;
	if (res->partial)
		result_partial(common, res->partial_why);
}
