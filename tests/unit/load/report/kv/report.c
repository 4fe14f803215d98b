/* SPDX-License-Identifier: Apache-2.0 */
/* Results of the KV-cache workload, of runs whose numbers are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/result.h"

#define GIB ((uint64_t)1 << 30)

static struct kv_params params;
static struct kv_job job;
static struct kv_result res;
static struct kv_report rep;

static void add(struct samples *s, const double *ms, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(samples_add(s, ms[i] / 1e3), 0);
}

/* 100 ms to 2 s of storage, one request of them. */
static int setup(void **state)
{
	static const double reads[] = {100, 200, 300}, writes[] = {50, 450}, memory[] = {1, 2, 3};
	static const double whole[] = {1000, 2000, 3000, 4000};

	(void)state;
	memset(&params, 0, sizeof(params));
	assert_int_equal(kv_config_defaults(&params.config), 0);
	params.model = kv_models_find(&params.config.models, "tiny-1b");
	params.users = 10;
	params.duration_ns = 10000000000;
	params.gpus = params.tensor_parallel = 1;
	params.multi_turn = params.prefix = true;
	params.seed = 7;
	params.seed_given = true;
	job = (struct kv_job){.params = &params, .cache_dir = "/mnt/kv", .gpu_bandwidth = 64e9};
	assert_int_equal(kv_result_init(&res), 0);
	res.elapsed_sec = 10;
	res.requests = 4;
	res.tokens = 1000;
	res.storage_io_sec = 8;
	add(&res.end_to_end, whole, 4);
	add(&res.storage, whole, 4);
	add(&res.qos[KV_BATCH], whole, 4);
	res.qos_violations[KV_BATCH] = 3;
	add(&res.tier[KV_NVME][0], reads, 3);
	add(&res.tier[KV_NVME][1], writes, 2);
	add(&res.tier[KV_CPU][0], memory, 3);
	res.counts = (struct kv_counts){
		.hits = 3,
		.misses = 1,
		.kind_hits = {[KV_USER] = 2, [KV_MULTI_TURN] = 1},
		.evictions = 5,
		.prefill_writes = 2,
		.read_ops = 3,
		.write_ops = 2,
		.total_read_bytes = 3 * GIB,
		.total_write_bytes = 2 * GIB,
		.tier_written = {0, 0, 2 * GIB},
		.tier_read = {0, 0, 5 * GIB},
		.tier_evicted_in = {0, 0, GIB},
		.storage_tokens = 64,
	};
	rep = (struct kv_report){.job = &job, .res = &res};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kv_result_fini(&res);
	kv_config_fini(&params.config);
	return 0;
}

static void assert_at(const json_t *j, const char *path, double want)
{
	double got = kv_report_number(j, path);

	if (!(fabs(got - want) <= 1e-9 * fmax(1, fabs(want))))
		fail_msg("%s is %.12g, not %.12g", path, got, want);
}

/* ------------------------------------------------------------------------ JSON */

static void rates_and_ratios_are_of_the_counts(void **state)
{
	json_t *j = kv_report_json(&rep);

	(void)state;
	assert_at(j, "summary.avg_throughput_tokens_per_sec", 100);
	assert_at(j, "summary.storage_throughput_tokens_per_sec", 125);
	assert_at(j, "summary.requests_per_second", 0.4);
	assert_at(j, "summary.end_to_end_latency_ms.mean", 2500);
	assert_at(j, "summary.end_to_end_latency_ms.p95", 3850);
	assert_at(j, "summary.cache_stats.cache_hit_rate", 0.75);
	assert_at(j, "summary.cache_stats.tier_storage_read_bandwidth_gbps", 0.5);
	assert_at(j, "summary.cache_stats.tier_storage_kv_bytes_written_gb", 2);
	assert_at(j, "summary.cache_stats.read_write_ratio", 1.5);
	assert_at(j, "summary.cache_stats.storage_read_p50_ms", 200);
	assert_at(j, "summary.cache_stats.storage_write_p95_ms", 430);
	assert_at(j, "summary.qos_metrics.batch.sla.compliance", 0.25);
	assert_at(j, "summary.qos_metrics.batch.latency_ms.max", 4000);
	assert_at(j, "seed", 7);
	assert_int_equal(json_array_size(json_object_get(j, "end_to_end_latencies")), 4);
	assert_at(j, "summary.cache_stats.storage_tokens_processed", 64);
	json_decref(j);
}

static void a_target_is_met_by_95_of_100(void **state)
{
	static const struct {
		uint64_t violations;
		bool met;
	} cases[] = {{0, true}, {5, true}, {6, false}, {100, false}};

	(void)state;
	samples_fini(&res.qos[KV_BATCH]);
	assert_int_equal(samples_add_n(&res.qos[KV_BATCH], 0.1, 100), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *j, *sla;

		res.qos_violations[KV_BATCH] = cases[i].violations;
		j = kv_report_json(&rep);
		sla = json_object_get(j, "summary");
		sla = json_object_get(json_object_get(sla, "qos_metrics"), "batch");
		sla = json_object_get(sla, "sla");
		assert_int_equal(json_is_true(json_object_get(sla, "met")), cases[i].met);
		assert_at(sla, "compliance", 1 - (double)cases[i].violations / 100);
		assert_at(sla, "target_p95_ms", 1000);
		json_decref(j);
	}
}

static void tokens_are_whole_until_a_read_divided_them(void **state)
{
	json_t *j = kv_report_json(&rep), *v;

	(void)state;
	v = json_object_get(json_object_get(json_object_get(j, "summary"), "cache_stats"),
			    "storage_tokens_processed");
	assert_true(json_is_integer(v));
	json_decref(j);
	res.counts.storage_tokens_float = true;
	j = kv_report_json(&rep);
	v = json_object_get(json_object_get(json_object_get(j, "summary"), "cache_stats"),
			    "storage_tokens_processed");
	assert_true(json_is_real(v));
	json_decref(j);
}

static void what_has_no_samples_is_left_out(void **state)
{
	json_t *j = kv_report_json(&rep), *cache, *qos;

	(void)state;
	cache = json_object_get(json_object_get(j, "summary"), "cache_stats");
	qos = json_object_get(json_object_get(j, "summary"), "qos_metrics");
	assert_null(json_object_get(cache, "gpu_read_p50_ms"));
	assert_null(json_object_get(cache, "storage_read_device_p50_ms"));
	assert_non_null(json_object_get(cache, "cpu_read_p9999_ms"));
	assert_true(json_is_true(json_object_get(json_object_get(qos, "interactive"), "no_data")));
	json_decref(j);
	res.requests = 0;
	j = kv_report_json(&rep);
	assert_null(json_object_get(j, "summary"));
	assert_non_null(json_object_get(j, "requests_completed"));
	json_decref(j);
}

/* ---------------------------------------------------------------------- health */

static const char *criterion(const json_t *h, unsigned i, bool *ret_passed)
{
	const json_t *c = json_array_get(json_object_get(h, "criteria"), i);

	*ret_passed = json_is_true(json_object_get(c, "passed"));
	return json_string_value(json_object_get(c, "name"));
}

static void health_takes_the_device_where_it_is_known(void **state)
{
	static const double quick[] = {10, 20};
	json_t *h = kv_health_json(&rep);
	bool passed;

	(void)state;
	/* reads: the 95th percentile of 100, 200, 300 is 290 */
	assert_string_equal(criterion(h, 0, &passed), "Storage Tier Write Total P95 < 500ms");
	assert_true(passed);
	assert_string_equal(criterion(h, 1, &passed), "Storage Tier Read Total P95 < 200ms");
	assert_false(passed);
	assert_string_equal(criterion(h, 2, &passed), "CPU RAM P95 < 150ms");
	assert_string_equal(criterion(h, 3, &passed), "Cache Hit Rate > 30%");
	assert_string_equal(json_string_value(json_object_get(h, "overall_status")), "FAIL");
	assert_at(h, "passed_count", 3);
	assert_at(h, "total_count", 4);
	json_decref(h);
	add(&res.device[0], quick, 2);
	h = kv_health_json(&rep);
	assert_string_equal(criterion(h, 1, &passed), "Storage Tier Read Device P95 < 200ms");
	assert_true(passed);
	assert_string_equal(json_string_value(json_object_get(h, "overall_status")), "PASS");
	json_decref(h);
}

static void bounds_of_health_are_strict(void **state)
{
	static const double bound[] = {200};
	json_t *h;
	bool passed;

	(void)state;
	add(&res.device[0], bound, 1);
	res.counts.hits = 3;
	res.counts.misses = 7;
	h = kv_health_json(&rep);
	criterion(h, 1, &passed);
	assert_false(passed);
	criterion(h, 3, &passed);
	assert_false(passed);
	json_decref(h);
}

static void throughput_asks_only_for_what_happened(void **state)
{
	static const struct {
		uint64_t read, written;
		unsigned criteria;
		bool pass;
	} cases[] = {{1, 1, 2, false},
		     {GIB, GIB, 2, true},
		     {0, GIB, 1, true},
		     {GIB, 0, 1, true},
		     {0, 0, 2, false}};

	(void)state;
	rep.profile = KV_PROFILE_THROUGHPUT;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *h;
		bool pass;

		res.counts.tier_read[KV_NVME] = cases[i].read;
		res.counts.tier_written[KV_NVME] = cases[i].written;
		h = kv_health_json(&rep);
		pass = !strcmp(json_string_value(json_object_get(h, "overall_status")), "PASS");
		assert_at(h, "total_count", cases[i].criteria);
		/* a byte is above 0, however it is rounded */
		assert_int_equal(pass, cases[i].pass || cases[i].read == 1);
		json_decref(h);
	}
}

/* ---------------------------------------------------------------------- common */

static void what_moves_down_is_a_flow_and_no_request(void **state)
{
	struct result_target target = {.folder = "/mnt/kv"};
	struct result common;
	const json_t *f;
	size_t i;
	unsigned seen = 0;

	(void)state;
	assert_int_equal(samples_add(&res.evict[KV_CPU][0], 0.1), 0);
	assert_int_equal(samples_add(&res.evict[KV_NVME][1], 0.1), 0);
	res.counts.tier_evicted_out[KV_CPU] = GIB;
	res.counts.tier_deleted[KV_NVME] = 4 * GIB;
	result_init(&common, "kv");
	kv_report_result(&rep, &common, &target);
	json_array_foreach(common.flows, i, f)
	{
		const char *from = json_string_value(json_object_get(f, "from"));
		const char *to = json_string_value(json_object_get(f, "to"));
		double bytes = kv_report_number(f, "bytes"), ops = kv_report_number(f, "ops");

		if (!strcmp(from, "new entries") && !strcmp(to, "storage"))
			assert_true(++seen && bytes == (double)GIB && ops == 1);
		if (!strcmp(from, "CPU") && !strcmp(to, "storage"))
			assert_true(++seen && bytes == (double)GIB && ops == 1);
		if (!strcmp(to, "deleted"))
			assert_true(++seen && bytes == 4.0 * (double)GIB && ops == 4);
		if (!strcmp(from, "storage") && !strcmp(to, "requests"))
			assert_true(++seen && bytes == 5.0 * (double)GIB && ops == 3);
	}
	assert_int_equal(seen, 4);
	assert_at(common.kv, "cache.hit_rate", 0.75);
	assert_int_equal(common.nr_series, 2);
	result_fini(&common);
}

static void the_tier_of_a_gpu_says_what_it_is(void **state)
{
	static const char *const kinds[] = {"absent", "bookkeeping", "device memory", "trace"};
	struct result_target target = {.folder = "/mnt/kv"};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct result common;
		const json_t *gpu;

		res.has_gpu = i > 0;
		res.gpu_real = i > 1;
		job.trace_path = i == 3 ? "t.csv" : NULL;
		result_init(&common, "kv");
		kv_report_result(&rep, &common, &target);
		gpu = json_array_get(json_object_get(common.kv, "tiers"), 0);
		assert_string_equal(json_string_value(json_object_get(gpu, "kind")), kinds[i]);
		result_fini(&common);
	}
}

/* ------------------------------------------------------------------------- fio */

static char *fio_text(int *ret)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	*ret = kv_report_fio(f, &rep);
	fclose(f);
	return text;
}

static void the_job_for_fio_has_the_blocks_and_the_mix(void **state)
{
	struct run_series *in = &res.series[0], *out = &res.series[1];
	char *text;
	int r;

	(void)state;
	text = fio_text(&r);
	assert_true(r < 0); /* nothing was moved */
	free(text);
	in->file.block = out->file.block = 1 << 20;
	in->stats.depth = 64;
	/* 3 blocks of 1 MiB and one of 100 KiB, which is an end */
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(series_add(in, (3 << 20) + (100 << 10), 1000, 1000), 0);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(series_add(out, 4096, 1000, 1000), 0);
	text = fio_text(&r);
	assert_int_equal(r, 0);
	assert_non_null(strstr(text, "\nrwmixread=80\n"));
	assert_non_null(strstr(text, "\nbssplit=100K/25:1M/75,4K/100\n"));
	assert_non_null(strstr(text, "\niodepth=64\n"));
	free(text);
}

static void only_what_failed_is_named(void **state)
{
	char text[120];

	(void)state;
	assert_false(kv_report_failures(text, sizeof(text), &res));
	res.errors[0] = 15;
	assert_true(kv_report_failures(text, sizeof(text), &res));
	assert_string_equal(text, "15 reads failed");
	res.errors[1] = res.verify_errors = 1;
	assert_true(kv_report_failures(text, sizeof(text), &res));
	assert_string_equal(text,
			    "15 reads failed, 1 write failed, 1 object was not what was written");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(rates_and_ratios_are_of_the_counts),
		CASE(a_target_is_met_by_95_of_100),
		CASE(tokens_are_whole_until_a_read_divided_them),
		CASE(what_has_no_samples_is_left_out),
		CASE(health_takes_the_device_where_it_is_known),
		CASE(bounds_of_health_are_strict),
		CASE(throughput_asks_only_for_what_happened),
		CASE(what_moves_down_is_a_flow_and_no_request),
		CASE(the_tier_of_a_gpu_says_what_it_is),
		CASE(the_job_for_fio_has_the_blocks_and_the_mix),
		CASE(only_what_failed_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
