/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KV_KV_H
#define PENSTOCK_KV_KV_H

/*
 * A KV-cache workload carried out: on real storage (kv_run_storage()) or as a trace on the virtual
 * or the real clock (kv_run_trace()).  Both fill the same struct kv_result.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/probe.h>
#include <penstock/s3.h>
#include <penstock/store.h>

#include "load/measure/object_requests.h"
#include "load/measure/series.h"
#include "load/model/kv_load.h"
#include "load/stat/sample.h"
#include "load/trace/trace.h"

enum { KV_LAYOUT_NPY, KV_LAYOUT_RAW, KV_LAYOUT_SLAB };
enum { KV_BACKEND_FILES, KV_BACKEND_STORE };
enum { KV_CLOCK_VIRTUAL, KV_CLOCK_REAL };
enum { KV_ORDER_SEED, KV_ORDER_LIVE };

struct kv_job {
	const struct kv_params *params;
	/* real */
	const char *cache_dir; /* NULL: a private temporary folder, removed at the end */
	int backend;     /* KV_BACKEND_STORE: the storage tier is a KV store, which evicts itself */
	uint32_t policy; /* of it: PENSTOCK_STORE_S3FIFO, ... */
	struct penstock_s3_opts s3; /* where cache_dir is s3://BUCKET/PREFIX, or @below */
	const char *below; /* of a store: s3://BUCKET/PREFIX, the tier below it; NULL: none */
	int layout;
	int order;      /* KV_ORDER_LIVE: the queue by priority; closed loops are always live */
	bool new_files; /* do not write over those of deleted entries */
	bool verify;
	bool gpu_simulated;   /* do not look for a GPU */
	double gpu_bandwidth; /* bytes per second of a GPU tier that is only bookkeeping */
	struct penstock_opts opts;
	uint32_t durability; /* of writes to the storage tier: PENSTOCK_DURABLE_* */
	/* trace */
	const char *trace_path;
	bool trace_extended;
	int clock;
	/* both */
	const atomic_int *stop;
	void (*progress)(void *arg, double at_sec, uint64_t requests, uint64_t bytes);
	void *progress_arg;
};

/* What a second looked like: for charts over time. */
struct kv_second {
	uint64_t requests, tokens;
	uint64_t hits, misses;
	uint64_t read_bytes[KV_TIERS], write_bytes[KV_TIERS];
	uint64_t read_ops, write_ops;               /* of the storage tier */
	double read_latency_sum, write_latency_sum; /* seconds, of the storage tier */
	uint64_t queued, in_flight;                 /* at its end */
};

struct kv_scale_event {
	double at_sec;
	uint32_t users;
	char action[16]; /* scale_up, scale_down, hold, stop */
	double saturation, tokens_per_sec, read_p95_ms, write_p95_ms;
};

struct kv_result {
	double elapsed_sec; /* the measured interval */
	double wall_sec;    /* of the whole call */
	uint64_t requests, tokens, failed_requests;
	struct kv_counts counts; /* of what completed inside the interval */
	uint64_t entries[KV_TIERS], used[KV_TIERS], limit[KV_TIERS];
	double storage_io_sec, generation_sec;          /* sums over requests */
	struct samples end_to_end, storage, generation; /* per request */
	struct samples prefill, decode;                 /* per step */
	struct samples qos[KV_QOS];                     /* end to end by level */
	uint64_t qos_violations[KV_QOS];
	/* [0] read, [1] write; per operation; evictions included unless hidden */
	struct samples tier[KV_TIERS][2];
	struct samples device[2], host[2]; /* of the storage tier */
	struct samples evict[KV_TIERS][2]; /* eviction I/O alone */
	uint64_t turn_hits, turn_misses;
	uint64_t prefix_hits, prefix_misses, prefix_bytes_saved;
	uint64_t errors[2], verify_errors; /* failed reads and writes */
	uint64_t vanished; /* evicted entries whose file somebody else had removed */
	uint64_t late;     /* operations that ended after the interval: not counted */
	char first_error[508];
	struct per_second seconds; /* struct kv_second each */
	struct {
		double at_sec, tokens_per_sec;
	} * timeline; /* every 10 s with autoscaling */
	uint32_t nr_timeline;
	struct kv_scale_event *scale;
	uint32_t nr_scale;
	uint32_t users_start, users_end, users_peak;
	double peak_tokens_per_sec;
	double cpu_user_sec, cpu_system_sec;
	uint64_t bytes_written;            /* to storage, all told: wear */
	struct penstock_store_stats store; /* since it was opened, where there is one */
	bool has_store;
	struct object_requests remote; /* the same of an object store */
	bool has_remote;
	/*
	 * What storage read and wrote inside the interval, block by block: of operations that
	 * were under way at its end, the part that was done.  The counts have whole objects only.
	 */
	uint64_t storage_bytes[2];
	uint64_t rows;         /* of a trace */
	uint64_t memory_bytes; /* of the model */
	bool gpu_real;         /* the tier is device memory */
	bool has_gpu;
	char gpu_how[200];          /* in words: which, or "bookkeeping at 64 GB/s" */
	bool input_empty;           /* a recorded input without a request that can be used */
	struct trace_bad input_bad; /* rows or items of it that cannot be used */
	bool partial;
	char partial_why[160];
	/* for the common result: storage tier read and write */
	struct run_series series[2];
	struct penstock_path_info path;
	char folder[512]; /* of the storage tier; a temporary one is gone by now */
};

int kv_result_init(struct kv_result *r);
void kv_result_fini(struct kv_result *r);

/* 0, or -errno with one line in @err.  What was measured up to a stop or failure is in @r, marked
 * partial. */
int kv_run_storage(const struct kv_job *job, struct kv_result *r, struct penstock_err *err);
int kv_run_trace(const struct kv_job *job, struct kv_result *r, struct penstock_err *err);

/*
 * What a real run needs and whether it is there: folder, free space, memory.  Creates nothing.
 * 0, -EINVAL (the folder may not be used: system folder, foreign files), -ENOSPC, -ENOMEM.
 */
int kv_check(const struct kv_job *job, struct penstock_err *err);

/*
 * What the KV model does with recorded requests, as the rows of a trace; the same each time.  @p,
 * which has burst_path or sharegpt_path, is used as long as there are readers of
 * it.
 */
struct trace_row_generator kv_row_generator(const struct kv_params *p);

#endif
