/* SPDX-License-Identifier: Apache-2.0 */
/* storage_health: upstream's criteria, which MLPerf does not judge by; strict inequalities. */
#include <math.h>

#include "load/report/kv/kv_report.h"

#define GIB ((double)(1u << 30))

struct health {
	json_t *criteria;
	unsigned passed;
};

static void health_add(struct health *h, const char *name, json_t *target, json_t *actual,
		       const char *unit, bool passed)
{
	json_array_append_new(h->criteria,
			      json_pack("{s:s, s:o, s:o, s:s, s:b}", "name", name, "target", target,
					"actual", actual, "unit", unit, "passed", passed));
	h->passed += passed;
}

/* A criterion without samples is left out. */
static void check_p95_below(struct health *h, const char *name, const struct samples *s,
			    double target)
{
	double actual = s->n ? samples_percentile(s, 95) * 1e3 : NAN;

	if (isfinite(actual))
		health_add(h, name, json_real(target), json_real(actual), "ms", actual < target);
}

/* The time of the device where it is known, else all of it. */
static void check_storage(struct health *h, const struct kv_result *res, unsigned way,
			  double target)
{
	bool device = res->device[way].n;
	char name[80];

	snprintf(name, sizeof(name), "Storage Tier %s %s P95 < %.0fms", way ? "Write" : "Read",
		 device ? "Device" : "Total", target);
	check_p95_below(h, name, device ? &res->device[way] : &res->tier[KV_NVME][way], target);
}

static void latency_profile(struct health *h, const struct kv_result *res)
{
	uint64_t asked = res->counts.hits + res->counts.misses;
	double rate = asked ? (double)res->counts.hits / (double)asked : 0;
	struct samples cpu = {0};

	check_storage(h, res, 1, 500);
	check_storage(h, res, 0, 200);
	if (samples_merge(&cpu, &res->tier[KV_CPU][0]) == 0 &&
	    samples_merge(&cpu, &res->tier[KV_CPU][1]) == 0)
		check_p95_below(h, "CPU RAM P95 < 150ms", &cpu, 150);
	samples_fini(&cpu);
	if (asked)
		health_add(h, "Cache Hit Rate > 30%", json_real(0.3), json_real(rate), "ratio",
			   rate > 0.3);
}

static void check_above_zero(struct health *h, const char *name, uint64_t bytes, double sec)
{
	double v = sec > 0 ? (double)bytes / GIB / sec : 0;
	char text[32];

	snprintf(text, sizeof(text), "%.2f", v);
	health_add(h, name, json_string(">0"), json_string(text), "GiB/s", v > 0);
}

/* Where only the one or the other happened, the other is not asked for. */
static void throughput_profile(struct health *h, const struct kv_result *res)
{
	uint64_t read = res->counts.tier_read[KV_NVME], written = res->counts.tier_written[KV_NVME];

	if (read || !written)
		check_above_zero(h, "Storage KV Read Bandwidth", read, res->elapsed_sec);
	if (written || !read)
		check_above_zero(h, "Storage KV Write Bandwidth", written, res->elapsed_sec);
}

json_t *kv_health_json(const struct kv_report *r)
{
	struct health h = {.criteria = json_array()};
	size_t total;

	if (r->profile == KV_PROFILE_LATENCY)
		latency_profile(&h, r->res);
	else
		throughput_profile(&h, r->res);
	total = json_array_size(h.criteria);
	return json_pack("{s:s, s:o, s:I, s:I}", "overall_status",
			 h.passed == total ? "PASS" : "FAIL", "criteria", h.criteria,
			 "passed_count", (json_int_t)h.passed, "total_count", (json_int_t)total);
}
