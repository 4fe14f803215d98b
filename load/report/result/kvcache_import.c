/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference KV benchmark tells latencies of single requests and of their parts, and sums for
 * the tiers; times of its percentiles are in milliseconds and amounts in GiB.  It tells neither the
 * machine nor the settings.  All of it is checked by a schema of its own before it is used.
 */
#include "load/report/result/result_reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/report/result/result.h"
#include "load/report/result/schema.h"
#include "load/report/result/text.h"

#define GIB ((double)(1u << 30))

static const char *const foreign_tiers[][2] = {{"gpu", "gpu"}, {"cpu", "cpu"}, {"nvme", "storage"}};

bool kvcache_is_result(const json_t *root)
{
	return json_object_get(root, "requests_completed") &&
	       json_object_get(root, "end_to_end_latencies");
}

/* ------------------------------------------------------------------- members */

/* "tier_storage_kv_bytes_read_gb" in bytes. */
static double moved(const json_t *stats, const char *tier, const char *way)
{
	char name[80];

	snprintf(name, sizeof(name), "tier_%s_kv_bytes_%s_gb", tier, way);
	return fmin(json_number_value(json_object_get(stats, name)) * GIB, 1e18);
}

static json_t *moved_json(const json_t *stats, const char *tier, const char *way)
{
	return json_integer((json_int_t)moved(stats, tier, way));
}

static json_t *count_of(const json_t *stats, const char *name)
{
	return json_integer((json_int_t)json_number_value(json_object_get(stats, name)));
}

/* Milliseconds to seconds; null stays. */
static json_t *ms_of(const json_t *v)
{
	return json_is_number(v) ? json_real(json_number_value(v) / 1e3) : json_null();
}

/* {mean, p50, ...} of one object; @n operations, if that is known. */
static json_t *levels_of(const json_t *ms, size_t n)
{
	static const char *const names[][2] = {
		{"mean", "mean"}, {"max", "max"},    {"p50", "p50"},     {"p95", "p95"},
		{"p99", "p99"},   {"p99.9", "p999"}, {"p99.99", "p9999"}};
	json_t *j;

	if (!json_is_number(json_object_get(ms, "p50")))
		return json_null();
	j = json_pack("{s:o, s:b}", "n", report_count_or_null(n), "exact", 1);
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		json_object_set_new(j, names[i][0], ms_of(json_object_get(ms, names[i][1])));
	return j;
}

/* The same of members "storage_read_p50_ms" and so on. */
static json_t *tier_levels(const json_t *stats, const char *tier, const char *way)
{
	static const char *const levels[] = {"p50", "p95", "p99", "p999", "p9999"};
	json_t *ms = json_object(), *j;

	for (unsigned i = 0; i < ARRAY_SIZE(levels); i++) {
		char name[80];

		snprintf(name, sizeof(name), "%s_%s_%s_ms", tier, way, levels[i]);
		json_object_set(ms, levels[i], json_object_get(stats, name));
	}
	j = levels_of(ms, 0);
	json_decref(ms);
	return j;
}

/* ----------------------------------------------------------------- section kv */

/* Of the tiers in memory only. */
static json_t *used_json(const json_t *stats, const char *tier)
{
	char name[40];

	snprintf(name, sizeof(name), "%s_memory_used_gb", tier);
	return json_integer(
		(json_int_t)fmin(json_number_value(json_object_get(stats, name)) * GIB, 1e18));
}

static json_t *tier_of(const json_t *stats, const char *name, const char *tier)
{
	bool storage = !strcmp(name, "nvme"), gpu = !strcmp(name, "gpu");
	char entries[32];
	json_t *j;

	snprintf(entries, sizeof(entries), "%s_entries", tier);
	j = json_pack("{s:s, s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:o, s:o, s:n, s:n}",
		      "name", name, "kind",
		      storage                                                  ? "storage"
		      : !gpu                                                   ? "host memory"
		      : json_number_value(json_object_get(stats, entries)) > 0 ? "device memory"
									       : "absent",
		      "how", "limit_bytes", "used_bytes", used_json(stats, tier), "entries",
		      count_of(stats, entries), "read_bytes", moved_json(stats, tier, "read"),
		      "written_bytes", moved_json(stats, tier, "written"), "evicted_in_bytes", 0,
		      "evicted_out_bytes", 0, "deleted_bytes", 0, "read",
		      tier_levels(stats, tier, "read"), "write", tier_levels(stats, tier, "write"),
		      "evict_read", "evict_write");
	for (unsigned i = 0; storage && i < 4; i++) {
		static const char *const parts[][2] = {{"device_read", "read_device"},
						       {"device_write", "write_device"},
						       {"host_read", "read_host"},
						       {"host_write", "write_host"}};

		json_object_set_new(j, parts[i][0], tier_levels(stats, tier, parts[i][1]));
	}
	return j;
}

static json_t *cache_of(const json_t *stats, const json_t *turns)
{
	const json_t *rate = json_object_get(stats, "cache_hit_rate");

	return json_pack("{s:o, s:o, s:O?, s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "hits",
			 count_of(stats, "cache_hits"), "misses", count_of(stats, "cache_misses"),
			 "hit_rate", rate ? rate : json_null(), "user_hits",
			 count_of(stats, "user_cache_hits"), "system_hits",
			 count_of(stats, "system_prompt_hits"), "common_hits",
			 count_of(stats, "common_phrase_hits"), "multi_turn_hits",
			 count_of(stats, "multi_turn_hits"), "turn_hits",
			 count_of(turns, "cache_hits"), "turn_misses",
			 count_of(turns, "cache_misses"), "evictions", 0);
}

static json_t *latency_of(const json_t *root, const json_t *summary)
{
	json_t *levels = json_object_get(summary, "qos_metrics"), *qos = json_object(), *one;
	size_t n = json_array_size(json_object_get(root, "end_to_end_latencies"));
	const char *level;

	json_object_foreach(levels, level, one)
	{
		json_object_set_new(qos, level,
				    levels_of(json_object_get(one, "latency_ms"),
					      (size_t)json_number_value(
						      json_object_get(one, "total_requests"))));
	}
	return json_pack("{s:o, s:o, s:o, s:n, s:n, s:o}", "end_to_end",
			 levels_of(json_object_get(summary, "end_to_end_latency_ms"), n), "storage",
			 levels_of(json_object_get(summary, "storage_io_latency_ms"), n),
			 "generation",
			 levels_of(json_object_get(summary, "generation_latency_ms"), n), "prefill",
			 "decode", "qos", qos);
}

/* No second of it is told. */
static json_t *no_seconds(void)
{
	static const char *const names[] = {"t",
					    "span",
					    "requests",
					    "tokens",
					    "hits",
					    "misses",
					    "gpu_read_bytes",
					    "cpu_read_bytes",
					    "nvme_read_bytes",
					    "gpu_write_bytes",
					    "cpu_write_bytes",
					    "nvme_write_bytes",
					    "read_ops",
					    "write_ops",
					    "read_latency_sum",
					    "write_latency_sum",
					    "queued",
					    "in_flight"};
	json_t *j = json_object();

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		json_object_set_new(j, names[i], json_array());
	return j;
}

static json_t *kv_of(const json_t *root)
{
	const json_t *summary = json_object_get(root, "summary"),
		     *stats = json_object_get(summary, "cache_stats"),
		     *health = json_object_get(stats, "storage_health");
	double sec = json_number_value(json_object_get(summary, "elapsed_time"));
	json_t *tiers = json_array(), *j;

	for (unsigned i = 0; i < ARRAY_SIZE(foreign_tiers); i++)
		json_array_append_new(tiers,
				      tier_of(stats, foreign_tiers[i][0], foreign_tiers[i][1]));
	j = json_pack("{s:s, s:b, s:n, s:f, s:f, s:o, s:o, s:i, s:i, s:i, s:{s:i, s:i, s:i, s:i, "
		      "s:n}, s:o, s:o, s:o, s:o}",
		      "mode", "real", "compat", 1, "model", "elapsed_sec", sec, "wall_sec", sec,
		      "requests", count_of(root, "requests_completed"), "tokens",
		      count_of(root, "total_tokens_generated"), "late_operations", 0, "rows", 0,
		      "memory_bytes", 0, "errors", "reads", 0, "writes", 0, "verify", 0, "requests",
		      0, "first", "cache",
		      cache_of(stats, json_object_get(summary, "multi_turn_stats")), "tiers", tiers,
		      "latency", latency_of(root, summary), "seconds", no_seconds());
	json_object_set_new(j, "storage_health",
			    health ? json_deep_copy(health)
				   : json_pack("{s:s, s:[], s:i, s:i}", "overall_status", "PASS",
					       "criteria", "passed_count", 0, "total_count", 0));
	return j;
}

/* -------------------------------------------------------------------- series */

/* @bytes were moved by all of them together: the bandwidth is over the interval. */
static int add_series(struct run_series *s, const char *name, const json_t *latencies, bool read,
		      double bytes, double sec)
{
	size_t nr = json_array_size(latencies);
	double end = 0;
	int r = series_init(s);

	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->cache, sizeof(s->cache), "not told");
	snprintf(s->limit_how, sizeof(s->limit_how), "not told");
	snprintf(s->stats.engine, sizeof(s->stats.engine), "kv-cache.py");
	s->stats.blocks_buffered = 1; /* it has no other way */
	s->read = read;
	s->sec = sec;
	for (size_t i = 0; i < nr && r == 0; i++) {
		double v = fmin(json_number_value(json_array_get(latencies, i)), 1e9);

		end = fmin(end + sec / (double)nr, sec);
		r = series_add(s, (uint64_t)(bytes / (double)nr), (uint64_t)(v * 1e9),
			       (uint64_t)(end * 1e9));
	}
	if (r == 0)
		series_finish(s);
	/* when each of them ended is not known */
	s->seconds.nr = 0;
	return r;
}

static int make_series(struct run_series s[3], const json_t *root)
{
	const json_t *summary = json_object_get(root, "summary"),
		     *stats = json_object_get(summary, "cache_stats");
	double sec = json_number_value(json_object_get(summary, "elapsed_time"));
	double in = moved(stats, "storage", "read");
	double out = moved(stats, "storage", "written");
	int r;

	r = add_series(&s[0], "prefill", json_object_get(root, "prefill_latencies"), false, out,
		       sec);
	if (r == 0)
		r = add_series(&s[1], "decode", json_object_get(root, "decode_latencies"), true, in,
			       sec);
	if (r == 0)
		r = add_series(&s[2], "request", json_object_get(root, "end_to_end_latencies"),
			       true, 0, sec);
	return r;
}

/* ----------------------------------------------------------------- the whole */

/* What a run of our own would know of itself. */
static void set_unknown(json_t *j, const json_t *root)
{
	json_object_set_new(j, "penstock", json_string("none: written by kv-cache.py"));
	json_object_set_new(j, "command_line", json_array());
	json_object_set_new(j, "machine",
			    json_pack("{s:n, s:n, s:n, s:n, s:n}", "kernel", "cpu", "cpus",
				      "memory_bytes", "gpu"));
	json_object_set_new(j, "duration_sec",
			    json_real(json_number_value(json_object_get(
				    json_object_get(root, "summary"), "elapsed_time"))));
}

int kvcache_import(json_t **out, const json_t *root, const char *name, time_t when,
		   struct penstock_err *err)
{
	struct result_target target = {.folder = "not told"};
	struct run_series series[3] = {{.read = false}};
	struct result res = {.command = "kv",
			     .started = when,
			     .targets = &target,
			     .nr_targets = 1,
			     .series = series,
			     .nr_series = 3};
	int r = schema_check_text(report_schema_kvcache, root, name, err);

	if (r == 0)
		r = make_series(series, root);
	if (r == 0) {
		res.settings = json_pack("{s:O?}", "seed", json_object_get(root, "seed"));
		res.kv = kv_of(root);
		res.bytes_written = series[0].bytes;
		*out = result_json(&res);
		if (*out)
			set_unknown(*out, root);
		else
			r = -ENOMEM;
	}
	for (unsigned i = 0; i < 3; i++)
		series_fini(&series[i]);
	result_fini(&res);
	return r == -ENOMEM ? penstock_fail(err, r, "out of memory") : r;
}
