/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_KV_KV_MLPERF_H
#define SLUICE_REPORT_KV_KV_MLPERF_H

/* A submission of MLPerf's KV-cache benchmark: its options, its folders, its summary. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define KV_MLPERF_OPTIONS  3
#define KV_MLPERF_TRIALS   3
#define KV_MLPERF_SEED     42
#define KV_MLPERF_DURATION 300

struct kv_mlperf_option {
	const char *name; /* "Max Storage Stress" */
	const char *model;
	unsigned users, cpu_gb, allocs;
};
/* Option @i, 1 to 3. */
const struct kv_mlperf_option *kv_mlperf_option(unsigned i);

/* Results are in RUN/option_<o>/trial_<t>/rank_<r>/kvcache_results_*.json. */
struct kv_mlperf_run {
	const char *folder;
	bool options[KV_MLPERF_OPTIONS + 1]; /* which of them, from 1 */
	unsigned trials, ranks, npernode, hosts;
	char time[20]; /* YYYYmmdd_HHMMSS */
	/* not a submission: why; NULL where it is one */
	const char *why_not;
	json_t *failures; /* [{option, trial, rank, exit_status}] or NULL */
};

/* "option_1/trial_2/rank_3" into @buf. */
void kv_mlperf_place(char *buf, size_t size, unsigned option, unsigned trial, unsigned rank);

/* The summary over all options; a new object, NULL for lack of memory. */
json_t *kv_mlperf_summary(const struct kv_mlperf_run *run);
/* The same for people. */
void kv_mlperf_text(FILE *f, const json_t *summary);

#endif
