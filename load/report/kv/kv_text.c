/* SPDX-License-Identifier: Apache-2.0 */
/* The summary for people, section by section as upstream prints it; not meant for parsing. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/report_lines.h"
#include "load/stat/stat.h"

static void heading(FILE *f, const char *text)
{
	fprintf(f, "\n### %s ###\n", text);
}

static double value_at(const json_t *json, const char *path)
{
	return kv_report_number(json_object_get(json, "summary"), path);
}

static double cache(const json_t *json, const char *name)
{
	return kv_report_number(json_object_get(json_object_get(json, "summary"), "cache_stats"),
				name);
}

static void number_line(FILE *f, const char *name, double v, int digits, const char *unit)
{
	if (isfinite(v))
		fprintf(f, "  %-32s %.*f%s%s\n", name, digits, v, *unit ? " " : "", unit);
}

/* A time that is given in milliseconds, with a unit that suits it. */
static char *ms(char buf[REPORT_TIME_TEXT], double v)
{
	if (isfinite(v))
		return report_time(buf, v / 1e3);
	snprintf(buf, REPORT_TIME_TEXT, "-");
	return buf;
}

static const double level_at[] = {50, 95, 99, 99.9, 99.99};
static const char *const level_names[] = {"p50", "p95", "p99", "p999", "p9999"};

/* The result has what kv-cache.py would; here stands what @n samples tell. */
static void level_cell(FILE *f, unsigned level, double v, uint64_t n)
{
	char text[REPORT_TIME_TEXT];

	fprintf(f, " %11s", ms(text, stat_percentile_known(n, level_at[level]) ? v : NAN));
}

static void latency_line(FILE *f, const char *name, const json_t *j, uint64_t n)
{
	char text[REPORT_TIME_TEXT];

	fprintf(f, "  %-22s %11s", name, ms(text, kv_report_number(j, "mean")));
	for (unsigned i = 0; i < ARRAY_SIZE(level_at); i++)
		level_cell(f, i, kv_report_number(j, level_names[i]), n);
	fputc('\n', f);
}

static void print_overall(FILE *f, const struct kv_report *r, const json_t *json)
{
	const struct kv_result *res = r->res;
	const json_t *s = json_object_get(json, "summary");

	heading(f, "Overall performance");
	fprintf(f, "  %-32s %" PRIu64 "\n", "Requests completed:", res->requests);
	fprintf(f, "  %-32s %" PRIu64 "\n", "Tokens generated:", res->tokens);
	number_line(f, "Measured interval:", res->elapsed_sec, 2, "s");
	number_line(f, "Throughput:", value_at(json, "avg_throughput_tokens_per_sec"), 2,
		    "tokens/s");
	number_line(f, "Requests:", value_at(json, "requests_per_second"), 2, "/s");
	if (!r->job->trace_path)
		number_line(f, "Tokens per second of storage:",
			    value_at(json, "storage_throughput_tokens_per_sec"), 2, "");
	heading(f, "Latency of requests");
	fprintf(f, "  %-22s %11s %11s %11s %11s %11s %11s\n", "", "mean", "p50", "p95", "p99",
		"p99.9", "p99.99");
	latency_line(f, "end to end", json_object_get(s, "end_to_end_latency_ms"),
		     res->end_to_end.n);
	latency_line(f, "storage, per request", json_object_get(s, "storage_io_latency_ms"),
		     res->storage.n);
	latency_line(f, "generation", json_object_get(s, "generation_latency_ms"),
		     res->generation.n);
}

/* ------------------------------------------------------------------- storage */

static const char *const tier_words[KV_TIERS] = {"GPU", "CPU", "storage"};
static const char *const tier_keys[KV_TIERS] = {"gpu", "cpu", "storage"};

const char *kv_report_rank_note(char *buf, size_t size, const struct kv_report *r)
{
	uint32_t ranks = r->job->params->tensor_parallel;

	*buf = 0;
	if (ranks > 1)
		snprintf(buf, size, ", of one of %u ranks", ranks);
	return buf;
}

static void tiers(FILE *f, const struct kv_report *r, const json_t *json)
{
	const struct kv_result *res = r->res;
	char limit[PENSTOCK_SIZE_TEXT], used[PENSTOCK_SIZE_TEXT], name[64], whose[32];

	snprintf(name, sizeof(name), "Tiers%s", kv_report_rank_note(whose, sizeof(whose), r));
	heading(f, name);
	fprintf(f, "  %-8s %10s %12s %12s %12s %12s %10s %10s\n", "", "entries", "used", "limit",
		"written GiB", "read GiB", "W GiB/s", "R GiB/s");
	for (unsigned t = 0; t < KV_TIERS; t++) {
		double v[4];
		static const char *const what[] = {"kv_bytes_written_gb", "kv_bytes_read_gb",
						   "write_bandwidth_gbps", "read_bandwidth_gbps"};

		for (unsigned i = 0; i < ARRAY_SIZE(what); i++) {
			snprintf(name, sizeof(name), "tier_%s_%s", tier_keys[t], what[i]);
			v[i] = cache(json, name);
		}
		if (t == KV_GPU && !res->has_gpu)
			continue;
		fprintf(f, "  %-8s %10" PRIu64 " %12s %12s %12.2f %12.2f %10.3f %10.3f\n",
			tier_words[t], res->entries[t], penstock_size_format(used, res->used[t]),
			res->limit[t] == KV_UNLIMITED ? "none"
						      : penstock_size_format(limit, res->limit[t]),
			v[0], v[1], v[2], v[3]);
	}
	if (*res->gpu_how)
		fprintf(f, "  GPU: %s\n", res->gpu_how);
	if (res->has_store) {
		heading(f, "Store");
		report_store_lines(f, &res->store, r->job->policy);
	}
	if (res->has_remote) {
		heading(f, "Requests");
		report_object_requests_lines(f, &res->remote);
	}
}

static void level_line(FILE *f, const json_t *json, const char *name, const char *key, uint64_t n)
{
	char path[64];

	snprintf(path, sizeof(path), "%s_p50_ms", key);
	if (!isfinite(cache(json, path)))
		return;
	fprintf(f, "  %-30s", name);
	for (unsigned i = 0; i < ARRAY_SIZE(level_at); i++) {
		snprintf(path, sizeof(path), "%s_%s_ms", key, level_names[i]);
		level_cell(f, i, cache(json, path), n);
	}
	fputc('\n', f);
}

static void tier_latencies(FILE *f, const struct kv_result *res, const json_t *json)
{
	static const char *const ways[] = {"read", "write"};
	char name[64], key[64];

	heading(f, "Latency of objects");
	fprintf(f, "  %-30s %11s %11s %11s %11s %11s\n", "", "p50", "p95", "p99", "p99.9",
		"p99.99");
	for (unsigned t = 0; t < KV_TIERS; t++) {
		for (unsigned w = 0; w < 2; w++) {
			uint64_t n = res->tier[t][w].n;

			snprintf(name, sizeof(name), "%s %s", tier_words[t], ways[w]);
			snprintf(key, sizeof(key), "%s_%s", tier_keys[t], ways[w]);
			level_line(f, json, name, key, n);
			for (unsigned part = 0; t == KV_NVME && part < 2; part++) {
				const char *what = part ? "host" : "device";

				snprintf(name, sizeof(name), "  of that %s",
					 part ? "outside the device" : "at the device");
				snprintf(key, sizeof(key), "storage_%s_%s", ways[w], what);
				level_line(f, json, name, key, n);
			}
		}
	}
}

static void health(FILE *f, const struct kv_report *r, const json_t *json)
{
	const json_t *h, *one, *criteria;
	size_t i;

	/* Upstream no longer prints it; with --compat neither do we. */
	if (r->job->params->compat || r->job->trace_path)
		return;
	h = json_object_get(json_object_get(json_object_get(json, "summary"), "cache_stats"),
			    "storage_health");
	criteria = json_object_get(h, "criteria");
	heading(f, "Storage health (no part of MLPerf)");
	json_array_foreach(criteria, i, one)
	{
		const json_t *actual = json_object_get(one, "actual");

		fprintf(f, "  %-4s  %s: ",
			json_is_true(json_object_get(one, "passed")) ? "pass" : "fail",
			json_string_value(json_object_get(one, "name")));
		if (json_is_string(actual))
			fprintf(f, "%s", json_string_value(actual));
		else
			fprintf(f, "%.2f", json_number_value(actual));
		fprintf(f, " %s\n", json_string_value(json_object_get(one, "unit")));
	}
}

/* --------------------------------------------------------------------- cache */

static void hits(FILE *f, const struct kv_report *r, const json_t *json)
{
	const struct kv_result *res = r->res;
	const struct kv_counts *n = &res->counts;

	heading(f, "Cache");
	fprintf(f, "  %-32s %.1f %% (%" PRIu64 " hits, %" PRIu64 " misses)\n",
		"Hit rate:", cache(json, "cache_hit_rate") * 100, n->hits, n->misses);
	fprintf(f, "  %-32s user %" PRIu64 ", system prompt %" PRIu64 ", multi-turn %" PRIu64 "\n",
		"Hits by kind:", n->kind_hits[KV_USER], n->kind_hits[KV_SYSTEM],
		n->kind_hits[KV_MULTI_TURN]);
	fprintf(f, "  %-32s %" PRIu64 " prefill writes, %" PRIu64 " decode reads, ratio %.2f\n",
		"Operations:", n->prefill_writes, n->decode_reads, cache(json, "read_write_ratio"));
	fprintf(f, "  %-32s %" PRIu64 " (%" PRIu64 " entries to CPU, %" PRIu64 " to storage)\n",
		res->has_store ? "Evictions above the store:" : "Evictions:", n->evictions,
		n->offloads_cpu, n->offloads_storage);
	if (r->job->params->prefix)
		fprintf(f, "  %-32s %" PRIu64 " hits, %" PRIu64 " misses\n",
			"Prefixes:", res->prefix_hits, res->prefix_misses);
	if (r->job->params->multi_turn)
		fprintf(f, "  %-32s %.1f %% (%" PRIu64 " hits, %" PRIu64 " misses)\n",
			"Earlier turns:", value_at(json, "multi_turn_stats.hit_rate") * 100,
			res->turn_hits, res->turn_misses);
}

static void qos(FILE *f, const struct kv_report *r, const json_t *json)
{
	const json_t *all = json_object_get(json_object_get(json, "summary"), "qos_metrics");
	char a[REPORT_TIME_TEXT], b[REPORT_TIME_TEXT];

	if (r->profile != KV_PROFILE_LATENCY)
		return;
	heading(f, "Quality of service");
	for (unsigned i = 0; i < KV_QOS; i++) {
		const json_t *q = json_object_get(all, kv_qos_names[i]);

		if (json_object_get(q, "no_data"))
			continue;
		fprintf(f, "  %-12s %8.0f requests, p95 %s (target %s), %.1f %% within: %s\n",
			kv_qos_names[i], kv_report_number(q, "total_requests"),
			ms(a, kv_report_number(q, "latency_ms.p95")),
			ms(b, kv_report_number(q, "sla.target_p95_ms")),
			kv_report_number(q, "sla.compliance") * 100,
			json_is_true(json_object_get(json_object_get(q, "sla"), "met")) ? "met"
											: "missed");
	}
}

static void autoscaling(FILE *f, const struct kv_report *r)
{
	const struct kv_result *res = r->res;

	if (!r->job->params->autoscale)
		return;
	heading(f, "Autoscaling");
	fprintf(f, "  %u users at first, %u at the end; the most tokens per second with %u\n",
		res->users_start, res->users_end, res->users_peak);
	for (uint32_t i = 0; i < res->nr_scale; i++)
		if (strcmp(res->scale[i].action, "hold") != 0)
			fprintf(f, "  %8.1f s  %-10s to %u users (saturation %.2f)\n",
				res->scale[i].at_sec, res->scale[i].action, res->scale[i].users,
				res->scale[i].saturation);
}

static void validation(FILE *f, const struct kv_report *r)
{
	if (!r->validation)
		return;
	heading(f, "Validation");
	fprintf(f, "  hit rate %.3f, of the trace %.3f: %.1f %% apart, %s\n",
		kv_report_number(r->validation, "comparison.cache_hit_rate.benchmark"),
		kv_report_number(r->validation, "comparison.cache_hit_rate.trace"),
		kv_report_number(r->validation, "avg_error_pct"),
		json_is_true(json_object_get(r->validation, "passed")) ? "passed" : "failed");
}

/* --------------------------------------------------------------------- notes */

bool kv_report_failures(char *buf, size_t size, const struct kv_result *res)
{
	const struct {
		uint64_t nr;
		const char *one, *many;
	} all[] = {
		{res->errors[0], "read failed", "reads failed"},
		{res->errors[1], "write failed", "writes failed"},
		{res->verify_errors, "object was not what was written",
		 "objects were not what was written"},
	};
	size_t used = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].nr && used < size)
			used += (size_t)snprintf(buf + used, size - used, "%s%" PRIu64 " %s",
						 used ? ", " : "", all[i].nr,
						 all[i].nr == 1 ? all[i].one : all[i].many);
	return used;
}

static void storage_notes(FILE *f, const struct kv_result *res)
{
	double moved = (double)res->storage_bytes[0] + (double)res->storage_bytes[1];
	char read[PENSTOCK_SIZE_TEXT], written[PENSTOCK_SIZE_TEXT], all[PENSTOCK_SIZE_TEXT];

	if (res->elapsed_sec > 0)
		fprintf(f,
			"  storage moved %.2f GiB/s in the interval, block by block: %s read, %s "
			"written\n",
			moved / res->elapsed_sec / (1u << 30),
			penstock_size_format(read, res->storage_bytes[0]),
			penstock_size_format(written, res->storage_bytes[1]));
	fprintf(f, "  %s written to storage in all\n",
		penstock_size_format(all, res->bytes_written));
	for (unsigned i = 0; i < ARRAY_SIZE(res->series); i++)
		if (res->series[i].ops)
			fprintf(f, "  page cache, %ss: %s\n",
				res->series[i].read ? "read" : "write", res->series[i].cache);
}

static void notes(FILE *f, const struct kv_report *r)
{
	const struct kv_result *res = r->res;
	char failures[120], head[64], whose[32];

	snprintf(head, sizeof(head), "Notes%s", kv_report_rank_note(whose, sizeof(whose), r));
	heading(f, head);
	if (r->job->trace_path)
		fprintf(f, "  %" PRIu64 " rows in %s; nothing was stored, so latencies are 0\n",
			res->rows, r->job->trace_path);
	else
		storage_notes(f, res);
	if (res->late)
		fprintf(f,
			"  %" PRIu64 " operations ended after the interval and are not counted\n",
			res->late);
	if (res->vanished)
		fprintf(f,
			"  %" PRIu64
			" entries to be evicted were gone: somebody else removed their "
			"files\n",
			res->vanished);
	if (kv_report_failures(failures, sizeof(failures), res))
		fprintf(f, "  %s: %s\n", failures, res->first_error);
	if (r->job->verify && !res->verify_errors)
		fprintf(f, "  every object read was compared with what was written\n");
	if (res->partial)
		fprintf(f, "  partial: %s\n", res->partial_why);
	if (!samples_exact(&res->end_to_end) || !samples_exact(&res->tier[KV_NVME][0]))
		fprintf(f, "  of more than %d samples percentiles are within 1 %%\n", SAMPLE_KEEP);
	fprintf(f, "  %.2f s of processor time for the user, %.2f s for the system\n",
		res->cpu_user_sec, res->cpu_system_sec);
}

void kv_report_text(FILE *f, const struct kv_report *r, const json_t *json)
{
	if (!r->res->requests) {
		fprintf(f, "\nNo request was completed in %.2f s.\n", r->res->elapsed_sec);
		notes(f, r);
		return;
	}
	print_overall(f, r, json);
	tiers(f, r, json);
	if (!r->job->trace_path)
		tier_latencies(f, r->res, json);
	hits(f, r, json);
	qos(f, r, json);
	autoscaling(f, r);
	health(f, r, json);
	validation(f, r);
	notes(f, r);
}
