/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the results of all ranks and trials to the summary of a run: bandwidths and throughputs
 * are added up over ranks and averaged over trials, of latencies the worst counts.
 */
#include "load/report/kv/kv_mlperf.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/version.h>

#include "base/util.h"
#include "load/report/kv/kv_report.h"
#include "load/report/result/text.h"

static const struct kv_mlperf_option options[] = {
	{"Max Storage Stress", "llama3.1-8b", 200, 0, 16},
	{"Storage Throughput", "llama3.1-8b", 100, 4, 16},
	{"Large Model", "llama3.1-70b-instruct", 70, 0, 4},
};

const struct kv_mlperf_option *kv_mlperf_option(unsigned i)
{
	return i >= 1 && i <= ARRAY_SIZE(options) ? &options[i - 1] : NULL;
}

void kv_mlperf_place(char *buf, size_t size, unsigned option, unsigned trial, unsigned rank)
{
	snprintf(buf, size, "option_%u/trial_%u/rank_%u", option, trial, rank);
}

/* ------------------------------------------------------------------ one option */

/* What is added up, and what the worst of is taken, by its way in a result. */
static const struct {
	const char *name, *path;
	bool worst;
} values[] = {
	{"aggregated_read_bandwidth_gbps", "summary.cache_stats.tier_storage_read_bandwidth_gbps",
	 false},
	{"aggregated_write_bandwidth_gbps", "summary.cache_stats.tier_storage_write_bandwidth_gbps",
	 false},
	{"aggregated_avg_throughput_tokens_per_sec", "summary.avg_throughput_tokens_per_sec",
	 false},
	{"aggregated_storage_throughput_tokens_per_sec",
	 "summary.storage_throughput_tokens_per_sec", false},
	{"aggregated_p95_latency_ms", "summary.storage_io_latency_ms.p95", true},
	{"aggregated_device_read_p95_ms", "summary.cache_stats.storage_read_device_p95_ms", true},
	{"aggregated_device_write_p95_ms", "summary.cache_stats.storage_write_device_p95_ms", true},
	{"storage_read_p95_ms", "summary.cache_stats.storage_read_p95_ms", true},
	{"storage_write_p95_ms", "summary.cache_stats.storage_write_p95_ms", true},
};

#define VALUES ARRAY_SIZE(values)

struct sums {
	double v[VALUES]; /* NAN: no result has it */
	unsigned trials;  /* with at least one result */
	json_t *missing;
	bool *in_memory; /* by rank */
};

/* The last of the results in a folder, by name and so by time; NULL where none can be read. */
static json_t *read_result(const char *folder)
{
	CLEANUP_FREE char *pattern = NULL;
	json_t *j = NULL;
	glob_t g;

	if (asprintf(&pattern, "%s/kvcache_results_*.json", folder) < 0) {
		pattern = NULL;
		return NULL;
	}
	if (glob(pattern, 0, NULL, &g) != 0)
		return NULL;
	if (g.gl_pathc)
		j = json_load_file(g.gl_pathv[g.gl_pathc - 1], 0, NULL);
	globfree(&g);
	if (!json_is_object(json_object_get(j, "summary"))) {
		json_decref(j);
		return NULL;
	}
	return j;
}

static void add_rank(struct sums *s, double trial[VALUES], const json_t *result, unsigned rank)
{
	for (unsigned i = 0; i < VALUES; i++) {
		double v = kv_report_number(result, values[i].path);

		if (!isfinite(v))
			continue;
		if (values[i].worst)
			s->v[i] = fmax(s->v[i], v); /* the number, where the other is none */
		else
			trial[i] += v;
	}
	/* everything stayed in memory: storage was not measured */
	if (kv_report_number(result, "summary.cache_stats.storage_entries") == 0)
		s->in_memory[rank] = true;
}

static void add_trial(struct sums *s, const struct kv_mlperf_run *run, unsigned option,
		      unsigned trial)
{
	double sum[VALUES] = {0};
	unsigned found = 0;

	for (unsigned r = 0; r < run->ranks; r++) {
		CLEANUP_FREE char *folder = NULL;
		char place[64];
		json_t *j = NULL;

		kv_mlperf_place(place, sizeof(place), option, trial, r);
		if (asprintf(&folder, "%s/%s", run->folder, place) < 0)
			folder = NULL;
		else
			j = read_result(folder);
		if (j)
			add_rank(s, sum, j, r);
		else
			json_array_append_new(s->missing, report_str(place));
		found += !!j;
		json_decref(j);
	}
	s->trials += found > 0;
	for (unsigned i = 0; i < VALUES; i++)
		if (!values[i].worst)
			s->v[i] += sum[i];
}

static json_t *ranks_json(const bool *in, unsigned nr)
{
	json_t *j = json_array();

	for (unsigned i = 0; i < nr; i++)
		if (in[i])
			json_array_append_new(j, json_integer(i));
	return j;
}

static json_t *option_json(const struct kv_mlperf_run *run, unsigned option)
{
	CLEANUP_FREE bool *in_memory = calloc(run->ranks, sizeof(*in_memory));
	struct sums s = {.missing = json_array(), .in_memory = in_memory};
	json_t *j = json_object();

	if (!in_memory) {
		json_decref(s.missing);
		json_decref(j);
		return NULL;
	}
	for (unsigned i = 0; i < VALUES; i++)
		s.v[i] = values[i].worst ? NAN : 0;
	for (unsigned t = 1; t <= run->trials; t++)
		add_trial(&s, run, option, t);
	json_object_set_new(j, "option", json_integer(option));
	for (unsigned i = 0; i < VALUES; i++) {
		double v = values[i].worst ? s.v[i] : s.v[i] / s.trials;

		json_object_set_new(j, values[i].name, isfinite(v) ? json_real(v) : json_null());
	}
	json_object_set_new(j, "rank_count", json_integer(run->ranks));
	json_object_set_new(j, "trial_count", json_integer(s.trials));
	json_object_set_new(j, "partial_failure", json_boolean(json_array_size(s.missing) > 0));
	json_object_set_new(j, "missing_files", s.missing);
	json_object_set_new(j, "cpu_tier_ranks", ranks_json(in_memory, run->ranks));
	return j;
}

/* ------------------------------------------------------------------- the whole */

json_t *kv_mlperf_summary(const struct kv_mlperf_run *run)
{
	json_t *all = json_object(), *j;
	bool partial = json_array_size(run->failures) > 0;

	for (unsigned o = 1; o <= KV_MLPERF_OPTIONS; o++) {
		json_t *one = run->options[o] ? option_json(run, o) : NULL;
		char key[12];

		if (!one)
			continue;
		snprintf(key, sizeof(key), "%u", o);
		partial |= json_is_true(json_object_get(one, "partial_failure"));
		json_object_set_new(all, key, one);
	}
	j = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:b}", "schema_version", "1.0",
		      "run_datetime", run->time, "npernode", (json_int_t)run->npernode,
		      "host_count", (json_int_t)run->hosts, "total_ranks", (json_int_t)run->ranks,
		      "trials_per_option", (json_int_t)run->trials, "options", all,
		      "partial_failure", partial);
	if (json_array_size(run->failures))
		json_object_set(j, "trial_failures", run->failures);
	json_object_set_new(j, "sluice",
			    json_pack("{s:s, s:b, s:s?}", "version", SLUICE_VERSION_STRING,
				      "as_submitted", !run->why_not && !partial, "why_not",
				      run->why_not));
	return j;
}

static void number(FILE *f, const json_t *o, const char *name, int width, int digits, double unit)
{
	double v = kv_report_number(o, name);

	if (isfinite(v))
		fprintf(f, " %*.*f", width, digits, v / unit);
	else
		fprintf(f, " %*s", width, "-");
}

void kv_mlperf_text(FILE *f, const json_t *summary)
{
	const json_t *all = json_object_get(summary, "options"), *o;
	const char *key, *why = json_string_value(
				 json_object_get(json_object_get(summary, "sluice"), "why_not"));

	fprintf(f, "%-24s %10s %10s %10s %10s %12s %12s\n", "option", "R GiB/s", "W GiB/s", "tok/s",
		"P95 s", "device R ms", "device W ms");
	json_object_foreach((json_t *)(uintptr_t)all, key, o)
	{
		const struct kv_mlperf_option *x = kv_mlperf_option((unsigned)atoi(key));

		fprintf(f, "%s %-22s", key, x ? x->name : "");
		if (!kv_report_number(o, "trial_count")) {
			fprintf(f, " no results\n");
			continue;
		}
		number(f, o, "aggregated_read_bandwidth_gbps", 10, 3, 1);
		number(f, o, "aggregated_write_bandwidth_gbps", 10, 3, 1);
		number(f, o, "aggregated_avg_throughput_tokens_per_sec", 10, 1, 1);
		number(f, o, "aggregated_p95_latency_ms", 10, 3, 1e3);
		number(f, o, "aggregated_device_read_p95_ms", 12, 1, 1);
		number(f, o, "aggregated_device_write_p95_ms", 12, 1, 1);
		fprintf(f, "%s\n",
			json_is_true(json_object_get(o, "partial_failure")) ? "  incomplete" : "");
	}
	if (why)
		fprintf(f, "Not as a submission must be: %s\n", why);
}
