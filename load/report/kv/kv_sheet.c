/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upstream's workbook.  The columns of its sheet Summary are the run's parameters and then
 * numbers of the JSON, each with its name and its place there; the sheets Run Parameters and
 * Performance Metrics are the same two lists upright.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/cells.h"

/* ---------------------------------------------------------------- parameters */

#define PARAMETERS 27

/* Preconditioning uses as many threads as there are processors unless it is told. */
static double fill_threads(const struct kv_params *p)
{
	return p->precondition_threads ? p->precondition_threads
				       : (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static void parameters(struct cell c[PARAMETERS], const struct kv_report *r)
{
	const struct kv_params *p = r->job->params;
	char when[32] = "";
	struct tm tm;
	unsigned i = 0;

	if (localtime_r(&r->started, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	c[i++] = cell_text("Timestamp", when);
	c[i++] = cell_text("Model", p->model->key);
	c[i++] = cell_number("Num Users", p->users);
	c[i++] = cell_number("Duration (s)", (double)p->duration_ns / 1e9);
	c[i++] = cell_number("GPU Memory per Card (GiB)", p->gpu_gb);
	c[i++] = cell_number("Num GPUs", p->gpus);
	c[i++] = cell_number("Tensor Parallel", p->tensor_parallel);
	c[i++] = cell_number("Total GPU Memory (GiB)", p->gpus * p->gpu_gb);
	c[i++] = cell_number("CPU Memory (GiB)", p->cpu_gb);
	c[i++] = cell_text("Generation Mode", kv_gen_names[p->generation]);
	c[i++] = cell_text("Performance Profile", kv_profile_names[r->profile]);
	c[i++] = cell_bool("Multi-turn", p->multi_turn);
	c[i++] = cell_bool("Prefix Caching", p->prefix);
	c[i++] = cell_bool("RAG Enabled", p->rag);
	c[i++] = cell_bool("Autoscaling", p->autoscale);
	c[i++] = cell_number("Seed", p->seed_given ? (double)p->seed : NAN);
	c[i++] = cell_number("Max Concurrent Allocs", p->max_concurrent_allocs);
	c[i++] = cell_number("Request Rate", p->request_rate);
	c[i++] = cell_number("Max Requests", (double)p->max_requests);
	c[i++] = cell_text("Dataset Path", r->dataset_path ? r->dataset_path : "N/A");
	c[i++] = cell_text("Cache Dir", r->job->cache_dir ? r->job->cache_dir : "temp");
	c[i++] = cell_number("Storage Capacity (GiB)", p->storage_gb);
	c[i++] = cell_bool("Precondition", p->precondition);
	c[i++] = cell_number("Precondition Size (GiB)", p->precondition_gb);
	c[i++] = cell_number("Precondition Threads", fill_threads(p));
	c[i++] = cell_number("Trace Speedup", p->trace_speedup);
	c[i++] = cell_number("Replay Cycles", p->replay_cycles);
}

/* ------------------------------------------------------------------- metrics */

/* A column and where its number is in "summary". */
struct metric {
	const char *name, *path;
};

#define SIX(what, member)                                                             \
	{what " Mean (ms)", member ".mean"}, {what " P50 (ms)", member ".p50"},       \
		{what " P95 (ms)", member ".p95"}, {what " P99 (ms)", member ".p99"}, \
		{what " P99.9 (ms)", member ".p999"},                                 \
	{                                                                             \
		what " P99.99 (ms)", member ".p9999"                                  \
	}
#define FIVE(what, member)                                              \
	{what " P50 (ms)", "cache_stats." member "_p50_ms"},            \
		{what " P95 (ms)", "cache_stats." member "_p95_ms"},    \
		{what " P99 (ms)", "cache_stats." member "_p99_ms"},    \
		{what " P99.9 (ms)", "cache_stats." member "_p999_ms"}, \
	{                                                               \
		what " P99.99 (ms)", "cache_stats." member "_p9999_ms"  \
	}
#define BYTES(what, tier, way)                                                         \
	{                                                                              \
		"Tier " what " (GiB)", "cache_stats.tier_" tier "_kv_bytes_" way "_gb" \
	}
#define SPEED(what, tier, way)                                             \
	{                                                                  \
		"Tier " what " Bandwidth (GiB/s)",                         \
			"cache_stats.tier_" tier "_" way "_bandwidth_gbps" \
	}

static const struct metric metrics[] = {
	{"Total Requests", "total_requests"},
	{"Total Tokens", "total_tokens"},
	{"Elapsed Time (s)", "elapsed_time"},
	{"Avg Throughput (tok/s)", "avg_throughput_tokens_per_sec"},
	{"Storage Throughput (tok/s)", "storage_throughput_tokens_per_sec"},
	{"Requests/sec", "requests_per_second"},
	SIX("E2E Latency", "end_to_end_latency_ms"),
	SIX("Storage Latency", "storage_io_latency_ms"),
	{"Gen Latency Mean (ms)", "generation_latency_ms.mean"},
	{"Gen Latency P50 (ms)", "generation_latency_ms.p50"},
	{"Gen Latency P95 (ms)", "generation_latency_ms.p95"},
	{"Gen Latency P99 (ms)", "generation_latency_ms.p99"},
	FIVE("Storage Tier Read Total", "storage_read"),
	FIVE("Storage Tier Write Total", "storage_write"),
	FIVE("Storage Tier Read Device", "storage_read_device"),
	FIVE("Storage Tier Write Device", "storage_write_device"),
	FIVE("Storage Tier Read Host", "storage_read_host"),
	FIVE("Storage Tier Write Host", "storage_write_host"),
	{"Cache Hit Rate", "cache_stats.cache_hit_rate"},
	{"Read/Write Ratio", "cache_stats.read_write_ratio"},
	{"Total Read (GiB)", "cache_stats.total_read_gb"},
	{"Total Write (GiB)", "cache_stats.total_write_gb"},
	BYTES("GPU KV Bytes Written", "gpu", "written"),
	BYTES("CPU KV Bytes Written", "cpu", "written"),
	BYTES("Storage KV Bytes Written", "storage", "written"),
	BYTES("GPU KV Bytes Read", "gpu", "read"),
	BYTES("CPU KV Bytes Read", "cpu", "read"),
	BYTES("Storage KV Bytes Read", "storage", "read"),
	SPEED("GPU Read", "gpu", "read"),
	SPEED("GPU Write", "gpu", "write"),
	SPEED("CPU Read", "cpu", "read"),
	SPEED("CPU Write", "cpu", "write"),
	SPEED("Storage Read", "storage", "read"),
	SPEED("Storage Write", "storage", "write"),
	{"GPU Entries", "cache_stats.gpu_entries"},
	{"CPU Entries", "cache_stats.cpu_entries"},
	{"Storage Entries", "cache_stats.storage_entries"},
	{"Multi-turn Hit Rate", "multi_turn_stats.hit_rate"},
};

#define CELLS (PARAMETERS + ARRAY_SIZE(metrics))

/* What was not measured is NAN: the cell stays empty. */
static void all_cells(struct cell c[CELLS], const struct kv_report *r, const json_t *json)
{
	const json_t *summary = json_object_get(json, "summary");

	parameters(c, r);
	for (unsigned i = 0; i < ARRAY_SIZE(metrics); i++)
		c[PARAMETERS + i] =
			cell_number(metrics[i].name, kv_report_number(summary, metrics[i].path));
}

/* -------------------------------------------------------------------- sheets */

static void qos_sheet(struct workbook *b, const struct kv_report *r, const json_t *json)
{
	static const char *const names[] = {"QoS Level",
					    "Total Requests",
					    "Latency P95 (ms)",
					    "Latency P99 (ms)",
					    "SLA Met",
					    "SLA Compliance",
					    NULL};
	const json_t *qos = json_object_get(json_object_get(json, "summary"), "qos_metrics");
	bool judged = r->profile == KV_PROFILE_LATENCY;
	struct sheet s = workbook_sheet(b, "QoS Metrics");

	sheet_names(&s, names);
	for (unsigned i = 0; i < KV_QOS; i++) {
		const json_t *q = json_object_get(qos, kv_qos_names[i]);
		const json_t *met = json_object_get(json_object_get(q, "sla"), "met");

		if (json_object_get(q, "no_data"))
			continue;
		sheet_text(&s, 0, kv_qos_names[i]);
		sheet_number(&s, 1, kv_report_number(q, "total_requests"));
		sheet_number(&s, 2, kv_report_number(q, "latency_ms.p95"));
		sheet_number(&s, 3, kv_report_number(q, "latency_ms.p99"));
		if (judged) {
			sheet_bool(&s, 4, json_is_true(met));
			sheet_number(&s, 5, kv_report_number(q, "sla.compliance"));
		} else {
			sheet_text(&s, 4, "N/A (throughput mode)");
			sheet_text(&s, 5, "N/A (throughput mode)");
		}
		s.row++;
	}
}

int kv_report_xlsx(FILE *f, const struct kv_report *r, const json_t *json, struct penstock_err *err)
{
	struct cell c[CELLS];
	struct workbook *b;
	struct sheet s;
	int e = workbook_open(&b, err);

	if (e < 0)
		return e;
	all_cells(c, r, json);
	s = workbook_sheet(b, "Summary");
	cells_row(&s, c, CELLS, true);
	cells_row(&s, c, CELLS, false);
	s = workbook_sheet(b, "Run Parameters");
	cells_column(&s, "Parameter", "Value", c, PARAMETERS);
	s = workbook_sheet(b, "Performance Metrics");
	cells_column(&s, "Metric", "Value", c + PARAMETERS, ARRAY_SIZE(metrics));
	qos_sheet(b, r, json);
	return workbook_close(b, f, err);
}

int kv_report_csv(FILE *f, const struct kv_report *r, const json_t *json)
{
	struct cell c[CELLS];

	all_cells(c, r, json);
	cells_csv(f, c, CELLS, true);
	cells_csv(f, c, CELLS, false);
	return fflush(f) || ferror(f) ? -EIO : 0;
}
