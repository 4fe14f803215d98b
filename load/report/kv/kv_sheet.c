/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upstream's workbook.  The columns of its sheet Summary are the run's parameters and then
 * numbers of the JSON, each with its name and its place there; the sheets Run Parameters and
 * Performance Metrics are the same two lists upright.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/csv.h"
#include "load/report/result/workbook.h"

/* ---------------------------------------------------------------- parameters */

struct cell {
	const char *name;
	double number;
	char text[256]; /* instead of the number, where it is not empty */
};

#define PARAMETERS 27

static struct cell text_cell(const char *name, const char *text)
{
	struct cell c = {.name = name, .number = NAN};

	snprintf(c.text, sizeof(c.text), "%s", text);
	return c;
}

static struct cell number_cell(const char *name, double v)
{
	return (struct cell){.name = name, .number = v};
}

static struct cell switch_cell(const char *name, bool on)
{
	return text_cell(name, on ? "Enabled" : "Disabled");
}

static void parameters(struct cell c[PARAMETERS], const struct kv_report *r)
{
	const struct kv_params *p = r->job->params;
	char when[32] = "";
	struct tm tm;
	unsigned i = 0;

	if (localtime_r(&r->started, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	c[i++] = text_cell("Timestamp", when);
	c[i++] = text_cell("Model", p->model->key);
	c[i++] = number_cell("Num Users", p->users);
	c[i++] = number_cell("Duration (s)", p->duration_sec);
	c[i++] = number_cell("GPU Memory per Card (GiB)", p->gpu_gb);
	c[i++] = number_cell("Num GPUs", p->gpus);
	c[i++] = number_cell("Tensor Parallel", p->tensor_parallel);
	c[i++] = number_cell("Total GPU Memory (GiB)", p->gpus * p->gpu_gb);
	c[i++] = number_cell("CPU Memory (GiB)", p->cpu_gb);
	c[i++] = text_cell("Generation Mode", kv_gen_names[p->generation]);
	c[i++] = text_cell("Performance Profile", kv_profile_names[r->profile]);
	c[i++] = switch_cell("Multi-turn", p->multi_turn);
	c[i++] = switch_cell("Prefix Caching", p->prefix);
	c[i++] = switch_cell("RAG Enabled", p->rag);
	c[i++] = switch_cell("Autoscaling", p->autoscale);
	c[i++] = p->seed_given ? number_cell("Seed", (double)p->seed) : text_cell("Seed", "N/A");
	c[i++] = number_cell("Max Concurrent Allocs", p->max_concurrent_allocs);
	c[i++] = number_cell("Request Rate", p->request_rate);
	c[i++] = number_cell("Max Requests", (double)p->max_requests);
	c[i++] = text_cell("Dataset Path", r->dataset_path ? r->dataset_path : "N/A");
	c[i++] = text_cell("Cache Dir", r->job->cache_dir ? r->job->cache_dir : "temp");
	c[i++] = number_cell("Storage Capacity (GiB)", p->storage_gb);
	c[i++] = switch_cell("Precondition", p->precondition);
	c[i++] = number_cell("Precondition Size (GiB)", p->precondition_gb);
	c[i++] = number_cell("Precondition Threads", p->precondition_threads);
	c[i++] = number_cell("Trace Speedup", p->trace_speedup);
	c[i++] = number_cell("Replay Cycles", p->replay_cycles);
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

/* What was not measured is NAN: the cell stays empty. */
static double metric(const json_t *json, const struct metric *m)
{
	return kv_report_number(json_object_get(json, "summary"), m->path);
}

/* -------------------------------------------------------------------- sheets */

static void put(struct sheet *s, unsigned col, const struct cell *c)
{
	if (*c->text)
		sheet_text(s, col, c->text);
	else
		sheet_number(s, col, c->number);
}

static void summary_sheet(struct workbook *b, const struct cell *c, const json_t *json)
{
	struct sheet s = workbook_sheet(b, "Summary");

	for (unsigned i = 0; i < PARAMETERS; i++) {
		s.row = 0;
		sheet_text(&s, i, c[i].name);
		s.row = 1;
		put(&s, i, &c[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(metrics); i++) {
		s.row = 0;
		sheet_text(&s, PARAMETERS + i, metrics[i].name);
		s.row = 1;
		sheet_number(&s, PARAMETERS + i, metric(json, &metrics[i]));
	}
}

static void parameters_sheet(struct workbook *b, const struct cell *c)
{
	static const char *const names[] = {"Parameter", "Value", NULL};
	struct sheet s = workbook_sheet(b, "Run Parameters");

	sheet_names(&s, names);
	for (unsigned i = 0; i < PARAMETERS; i++, s.row++) {
		sheet_text(&s, 0, c[i].name);
		put(&s, 1, &c[i]);
	}
}

static void metrics_sheet(struct workbook *b, const json_t *json)
{
	static const char *const names[] = {"Metric", "Value", NULL};
	struct sheet s = workbook_sheet(b, "Performance Metrics");

	sheet_names(&s, names);
	for (unsigned i = 0; i < ARRAY_SIZE(metrics); i++, s.row++) {
		sheet_text(&s, 0, metrics[i].name);
		sheet_number(&s, 1, metric(json, &metrics[i]));
	}
}

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
		sheet_text(&s, 4,
			   !judged             ? "N/A (throughput mode)"
			   : json_is_true(met) ? "Yes"
					       : "No");
		if (judged)
			sheet_number(&s, 5, kv_report_number(q, "sla.compliance"));
		else
			sheet_text(&s, 5, "N/A (throughput mode)");
		s.row++;
	}
}

int kv_report_xlsx(FILE *f, const struct kv_report *r, const json_t *json, struct sluice_err *err)
{
	struct cell c[PARAMETERS];
	struct workbook *b;
	int e = workbook_open(&b, err);

	if (e < 0)
		return e;
	parameters(c, r);
	summary_sheet(b, c, json);
	parameters_sheet(b, c);
	metrics_sheet(b, json);
	qos_sheet(b, r, json);
	return workbook_close(b, f, err);
}

/* ----------------------------------------------------------------------- CSV */

int kv_report_csv(FILE *f, const struct kv_report *r, const json_t *json)
{
	struct cell c[PARAMETERS];

	parameters(c, r);
	for (unsigned i = 0; i < PARAMETERS; i++) {
		csv_text(f, c[i].name);
		putc(',', f);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(metrics); i++) {
		csv_text(f, metrics[i].name);
		putc(i + 1 < ARRAY_SIZE(metrics) ? ',' : '\n', f);
	}
	for (unsigned i = 0; i < PARAMETERS; i++) {
		if (*c[i].text)
			csv_text(f, c[i].text);
		else
			csv_number(f, c[i].number);
		putc(',', f);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(metrics); i++) {
		csv_number(f, metric(json, &metrics[i]));
		putc(i + 1 < ARRAY_SIZE(metrics) ? ',' : '\n', f);
	}
	return fflush(f) || ferror(f) ? -EIO : 0;
}
