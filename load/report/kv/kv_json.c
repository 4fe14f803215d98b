/* SPDX-License-Identifier: Apache-2.0 */
/* Upstream's JSON: names, order and units are its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/text.h"

#define GIB ((double)(1u << 30))

const char *const kv_profile_names[] = {"latency", "throughput", NULL};
const char *const kv_layout_names[] = {"npy", "raw", "slab", NULL};
const char *const kv_backend_names[] = {"files", "store", NULL};
const char *const kv_clock_names[] = {"virtual", "real", NULL};
const char *const kv_order_names[] = {"seed", "live", NULL};

/* How upstream calls the tiers in results. */
static const char *const tiers[KV_TIERS] = {"gpu", "cpu", "storage"};
static const char *const ways[2] = {"read", "write"};

static void set_member(json_t *j, json_t *value, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void set_member(json_t *j, json_t *value, const char *fmt, ...)
{
	char key[80];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(key, sizeof(key), fmt, ap);
	va_end(ap);
	json_object_set_new(j, key, value);
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* ------------------------------------------------------------------- samples */

static const double levels[] = {50, 95, 99, 99.9, 99.99};
static const char *const level_names[] = {"p50", "p95", "p99", "p999", "p9999"};

/* All that are kept, in the order of arrival.  Equal neighbours, such as the zeros of a trace, are
 * one object. */
static json_t *list_json(const struct samples *s)
{
	CLEANUP_FREE double *list = samples_list(s);
	json_t *j = json_array(), *last = NULL;

	for (uint64_t i = 0; list && i < min_u64(s->n, SAMPLE_KEEP); i++) {
		if (!last || list[i] != list[i - 1]) {
			json_decref(last);
			last = json_real(list[i]);
		}
		json_array_append(j, last);
	}
	json_decref(last);
	return j;
}

/* {mean, p50, ...} in milliseconds. */
static json_t *latency_json(const struct samples *s)
{
	double v[ARRAY_SIZE(levels)] = {0};
	json_t *j = json_object();

	samples_percentiles(s, levels, v, ARRAY_SIZE(levels));
	set_member(j, report_real(samples_mean(s) * 1e3), "mean");
	for (unsigned i = 0; i < ARRAY_SIZE(levels); i++)
		set_member(j, report_real(v[i] * 1e3), "%s", level_names[i]);
	return j;
}

/* "storage_read_device_p50_ms" and so on, where there are samples. */
static void set_levels(json_t *j, const char *name, const struct samples *s)
{
	double v[ARRAY_SIZE(levels)];

	if (!s->n || samples_percentiles(s, levels, v, ARRAY_SIZE(levels)) < 0)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(levels); i++)
		set_member(j, report_real(v[i] * 1e3), "%s_%s_ms", name, level_names[i]);
}

static void set_all_levels(json_t *j, const struct kv_result *res)
{
	char name[40];

	for (unsigned t = 0; t < KV_TIERS; t++) {
		for (unsigned w = 0; w < 2; w++) {
			snprintf(name, sizeof(name), "%s_%s", tiers[t], ways[w]);
			set_levels(j, name, &res->tier[t][w]);
		}
	}
	for (unsigned w = 0; w < 2; w++) {
		snprintf(name, sizeof(name), "storage_%s_device", ways[w]);
		set_levels(j, name, &res->device[w]);
		snprintf(name, sizeof(name), "storage_%s_host", ways[w]);
		set_levels(j, name, &res->host[w]);
	}
}

/* --------------------------------------------------------------- cache_stats */

static void set_tiers(json_t *j, const struct kv_result *res)
{
	const struct kv_counts *n = &res->counts;

	for (unsigned t = 0; t < KV_TIERS; t++) {
		set_member(j, json_real((double)n->tier_written[t] / GIB),
			   "tier_%s_kv_bytes_written_gb", tiers[t]);
		set_member(j, json_real((double)n->tier_read[t] / GIB), "tier_%s_kv_bytes_read_gb",
			   tiers[t]);
	}
	for (unsigned t = 0; t < KV_TIERS; t++) {
		set_member(j, json_real(ratio((double)n->tier_read[t] / GIB, res->elapsed_sec)),
			   "tier_%s_read_bandwidth_gbps", tiers[t]);
		set_member(j, json_real(ratio((double)n->tier_written[t] / GIB, res->elapsed_sec)),
			   "tier_%s_write_bandwidth_gbps", tiers[t]);
	}
}

static void set_totals(json_t *j, const struct kv_counts *n)
{
	set_member(j, report_count(n->kind_hits[KV_SYSTEM]), "system_prompt_hits");
	set_member(j, report_count(n->kind_hits[KV_COMMON]), "common_phrase_hits");
	set_member(j, report_count(n->kind_hits[KV_USER]), "user_cache_hits");
	set_member(j, report_count(n->kind_hits[KV_MULTI_TURN]), "multi_turn_hits");
	set_member(j, report_count(n->total_read_bytes), "total_read_bytes");
	set_member(j, report_count(n->total_write_bytes), "total_write_bytes");
	set_member(j, json_real((double)n->total_read_bytes / GIB), "total_read_gb");
	set_member(j, json_real((double)n->total_write_bytes / GIB), "total_write_gb");
	set_member(
		j,
		json_real((double)n->total_read_bytes / (double)max_u64(n->total_write_bytes, 1)),
		"read_write_ratio");
	set_member(j, report_count(n->read_ops), "read_iops");
	set_member(j, report_count(n->write_ops), "write_iops");
	set_member(j,
		   n->storage_tokens_float ? json_real(n->storage_tokens)
					   : json_integer((json_int_t)n->storage_tokens),
		   "storage_tokens_processed");
}

static json_t *kv_cache_json(const struct kv_report *r)
{
	const struct kv_result *res = r->res;
	const struct kv_counts *n = &res->counts;
	json_t *j = json_object();

	set_member(j, json_real(ratio((double)n->hits, (double)(n->hits + n->misses))),
		   "cache_hit_rate");
	set_member(j, report_count(n->hits), "cache_hits");
	set_member(j, report_count(n->misses), "cache_misses");
	for (unsigned t = 0; t < KV_TIERS; t++)
		set_member(j, report_count(res->entries[t]), "%s_entries", tiers[t]);
	set_member(j, json_real((double)res->used[KV_GPU] / GIB), "gpu_memory_used_gb");
	set_member(j, json_real((double)res->used[KV_CPU] / GIB), "cpu_memory_used_gb");
	set_member(j, report_count(n->offloads_cpu), "offloads_cpu");
	set_member(j, report_count(n->offloads_storage), "offloads_storage");
	set_member(j, kv_health_json(r), "storage_health");
	set_member(j, report_count(n->prefill_writes), "prefill_writes");
	set_member(j, report_count(n->decode_reads), "decode_reads");
	set_tiers(j, res);
	set_totals(j, n);
	set_all_levels(j, res);
	return j;
}

/* ------------------------------------------------------------------- summary */

static json_t *qos_json(const struct kv_report *r, unsigned level)
{
	const struct samples *s = &r->res->qos[level];
	double target = r->job->params->config.qos[level].p95_ms, v[ARRAY_SIZE(levels)];
	double kept = s->n ? 1 - (double)r->res->qos_violations[level] / (double)s->n : 1;

	if (!s->n || samples_percentiles(s, levels, v, ARRAY_SIZE(levels)) < 0)
		return json_pack("{s:b}", "no_data", 1);
	return json_pack("{s:I, s:{s:f, s:f, s:f, s:f, s:f}, s:{s:f, s:f, s:f, s:b}}",
			 "total_requests", (json_int_t)s->n, "latency_ms", "mean",
			 samples_mean(s) * 1e3, "p50", v[0] * 1e3, "p95", v[1] * 1e3, "p99",
			 v[2] * 1e3, "max", s->max * 1e3, "sla", "target_p95_ms", target,
			 "actual_p95_ms", v[1] * 1e3, "compliance", kept, "met", kept >= 0.95);
}

static json_t *prefix_json(const struct kv_report *r)
{
	const struct kv_result *res = r->res;

	if (!r->job->params->prefix)
		return json_object();
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "prefix_hits", (json_int_t)res->prefix_hits,
			 "prefix_misses", (json_int_t)res->prefix_misses, "system_prompt_reuse",
			 (json_int_t)res->prefix_hits, "common_phrase_reuse", (json_int_t)0,
			 "bytes_saved", (json_int_t)res->prefix_bytes_saved);
}

/* Local time, as Python's isoformat() writes it. */
static void iso_time(char out[40], time_t started, double at_sec)
{
	time_t t = started + (time_t)at_sec;
	struct tm tm;

	*out = 0;
	if (localtime_r(&t, &tm) && strftime(out, 40, "%Y-%m-%dT%H:%M:%S", &tm))
		snprintf(out + strlen(out), 40 - strlen(out), ".%06u",
			 (unsigned)((at_sec - floor(at_sec)) * 1e6));
}

/* A change of the number of users, or the end; upstream has fewer members for that. */
static json_t *scale_event_json(const struct kv_report *r, const struct kv_scale_event *e)
{
	bool capacity = r->job->params->autoscale_mode == KV_SCALE_CAPACITY;
	char when[40];
	json_t *j;

	iso_time(when, r->started, e->at_sec);
	j = json_pack("{s:s, s:s, s:s, s:I, s:f}", "timestamp", when, "mode",
		      capacity ? "capacity" : "qos", "action", e->action, "users",
		      (json_int_t)e->users, "saturation_level", e->saturation);
	if (!strcmp(e->action, "stop"))
		json_object_set_new(j, "peak_throughput_tokens_per_sec",
				    json_real(r->res->peak_tokens_per_sec));
	else
		json_object_update_new(j, json_pack("{s:f, s:f, s:f}", "read_latency_p95_ms",
						    e->read_p95_ms, "write_latency_p95_ms",
						    e->write_p95_ms, "throughput_tokens_per_sec",
						    e->tokens_per_sec));
	return j;
}

static bool changes_something(const struct kv_scale_event *e)
{
	return strcmp(e->action, "hold") != 0;
}

static json_t *scale_json(const struct kv_report *r)
{
	json_t *j = json_array();

	for (uint32_t i = 0; i < r->res->nr_scale; i++)
		if (changes_something(&r->res->scale[i]))
			json_array_append_new(j, scale_event_json(r, &r->res->scale[i]));
	return j;
}

/* How often the number of users changed. */
static uint32_t scale_events(const struct kv_result *res)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < res->nr_scale; i++)
		nr += changes_something(&res->scale[i]);
	return nr;
}

static json_t *scale_summary_json(const struct kv_report *r)
{
	const struct kv_result *res = r->res;
	json_t *j;

	if (!r->job->params->autoscale)
		return json_null();
	j = json_pack("{s:I, s:I, s:I}", "initial_users", (json_int_t)res->users_start,
		      "final_users", (json_int_t)res->users_end, "total_scale_events",
		      (json_int_t)scale_events(res));
	if (r->job->params->autoscale_mode == KV_SCALE_CAPACITY) {
		set_member(j, report_count(res->users_peak), "peak_user_count");
		set_member(j, json_real(res->peak_tokens_per_sec),
			   "peak_throughput_tokens_per_sec");
	}
	return j;
}

static json_t *summary_json(const struct kv_report *r)
{
	const struct kv_result *res = r->res;
	double tokens = (double)res->tokens;
	json_t *j = json_object(), *qos = json_object();

	for (unsigned i = 0; i < KV_QOS; i++)
		set_member(qos, qos_json(r, i), "%s", kv_qos_names[i]);
	set_member(j, report_count(res->requests), "total_requests");
	set_member(j, report_count(res->tokens), "total_tokens");
	set_member(j, json_real(res->elapsed_sec), "elapsed_time");
	set_member(j, json_real(ratio(tokens, res->elapsed_sec)), "avg_throughput_tokens_per_sec");
	set_member(j, json_real(res->storage_io_sec), "total_storage_io_time");
	set_member(j, json_real(ratio(tokens, res->storage_io_sec)),
		   "storage_throughput_tokens_per_sec");
	set_member(j, json_real(ratio((double)res->requests, res->elapsed_sec)),
		   "requests_per_second");
	set_member(j, latency_json(&res->end_to_end), "end_to_end_latency_ms");
	set_member(j, latency_json(&res->storage), "storage_io_latency_ms");
	set_member(j, latency_json(&res->generation), "generation_latency_ms");
	set_member(j, kv_cache_json(r), "cache_stats");
	set_member(j, qos, "qos_metrics");
	set_member(j, prefix_json(r), "prefix_cache_stats");
	set_member(j, scale_json(r), "autoscaling_stats");
	set_member(j, scale_summary_json(r), "autoscaling_summary");
	set_member(j,
		   json_pack("{s:I, s:I, s:f}", "cache_hits", (json_int_t)res->turn_hits,
			     "cache_misses", (json_int_t)res->turn_misses, "hit_rate",
			     ratio((double)res->turn_hits,
				   (double)(res->turn_hits + res->turn_misses))),
		   "multi_turn_stats");
	return j;
}

/* ----------------------------------------------------------------- the whole */

static json_t *timeline_json(const struct kv_result *res)
{
	json_t *j = json_array();

	for (uint32_t i = 0; i < res->nr_timeline; i++)
		json_array_append_new(
			j, json_pack("{s:f, s:f}", "timestamp", res->timeline[i].at_sec,
				     "throughput_tokens_per_sec", res->timeline[i].tokens_per_sec));
	return j;
}

json_t *kv_report_json(const struct kv_report *r)
{
	const struct kv_result *res = r->res;
	const struct kv_params *p = r->job->params;
	json_t *j = json_object();

	set_member(j, report_count(res->requests), "requests_completed");
	set_member(j, report_count(res->tokens), "total_tokens_generated");
	set_member(j, json_real(res->storage_io_sec), "total_storage_io_latency");
	set_member(j, json_real(res->generation_sec), "total_generation_latency");
	set_member(j, list_json(&res->end_to_end), "end_to_end_latencies");
	set_member(j, list_json(&res->storage), "storage_latencies");
	set_member(j, list_json(&res->generation), "generation_latencies");
	set_member(j, timeline_json(res), "throughput_timeline");
	set_member(j, list_json(&res->prefill), "prefill_latencies");
	set_member(j, list_json(&res->decode), "decode_latencies");
	set_member(j, report_count(res->turn_hits), "multi_turn_cache_hits");
	set_member(j, report_count(res->turn_misses), "multi_turn_cache_misses");
	set_member(j, p->seed_given ? report_count(p->seed) : json_null(), "seed");
	if (res->requests)
		set_member(j, summary_json(r), "summary");
	if (r->validation)
		json_object_set(j, "validation", r->validation);
	return j;
}

double kv_report_number(const json_t *json, const char *path)
{
	char name[64];

	while (json && *path) {
		size_t len = strcspn(path, ".");

		snprintf(name, sizeof(name), "%.*s", (int)len, path);
		json = json_object_get(json, name);
		path += len + (path[len] == '.');
	}
	return json_is_number(json) ? json_number_value(json) : NAN;
}
