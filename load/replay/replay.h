/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPLAY_REPLAY_H
#define PENSTOCK_REPLAY_REPLAY_H

/*
 * A trace carried out on storage.  Rows become operations on objects: an object is a key at a
 * tier.  Two passes: replay_scan() reads the trace and says what it needs, replay_run() does it;
 * memory depends on the objects that exist at a time, not on the length of the trace.
 *
 * Rows are started in the order of the trace; one whose time lies before that of an earlier
 * row takes its time.  Operations on one object keep their order, see load/object/flow.h.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/probe.h>

#include "load/measure/block_sizes.h"
#include "load/measure/series.h"
#include "load/model/kv_params.h"
#include "load/object/flow.h"
#include "load/replay/replay_pace.h"
#include "load/stat/sample.h"
#include "load/trace/trace.h"

enum replay_layout { REPLAY_FILES, REPLAY_HASHED, REPLAY_SLAB };
enum replay_missing { REPLAY_CREATE, REPLAY_SKIP, REPLAY_FAIL };

/* Tiers of the trace, and one for rows that name none. */
enum { REPLAY_NO_TIER = TRACE_TIERS, REPLAY_TIERS };
enum { REPLAY_PLACES = 8 };

/* Where the objects of a tier go. */
struct replay_target {
	bool used; /* else rows of the tier are passed over */
	enum place_kind kind;
	const char *const *paths; /* of PLACE_FILES and PLACE_SLAB: objects are spread by hash; of
				     PLACE_STORE all of them are one store; of PLACE_BUCKET a URI */
	unsigned nr_paths;
	double bytes_per_sec; /* PLACE_NULL */
	unsigned device;      /* PLACE_GPU */
};

struct replay_job {
	/* in */
	const char *trace; /* "-": standard input, which can be read once only */
	struct trace_reader_opts reader;
	/* where */
	struct replay_target tiers[REPLAY_TIERS];
	enum replay_layout layout;
	uint64_t capacity; /* of each target, bytes; the longest unused go.  0: no limit */
	uint32_t policy;   /* of a store: PENSTOCK_STORE_S3FIFO, ...: what goes instead */
	bool keep;
	bool reuse, fresh; /* what is there; neither: what was kept is used, the rest is not */
	bool new_files;    /* do not write over those of deleted objects */
	uint32_t durability;
	struct penstock_s3_opts s3; /* of s3:// targets */
	/* how */
	double pace;    /* 1: as recorded, 2: twice as fast; 0: flat out */
	uint32_t depth; /* operations in flight */
	enum replay_missing missing;
	bool prefill, verify;
	uint64_t seed;        /* of the content */
	uint32_t part, parts; /* which of so many parts of the conversations; 0 and 1: all */
	struct penstock_opts opts;
	/* meanwhile */
	const atomic_int *stop;
	void (*progress)(void *arg, const char *step, uint64_t rows, uint64_t total,
			 uint64_t bytes);
	void *progress_arg;
};

/* ---- what is in the trace ---- */

/* Why a row is passed over. */
enum replay_passed {
	REPLAY_PASSED_TIER,   /* no target for its tier */
	REPLAY_PASSED_OP,     /* neither read, write nor delete */
	REPLAY_PASSED_FAILED, /* the operation had failed when it was recorded */
	REPLAY_PASSED,
};

struct replay_count {
	uint64_t ops, bytes;
};

struct replay_need {
	uint64_t peak;    /* bytes at once, rounded as the place does; with initial objects */
	uint64_t objects; /* at once */
	uint64_t initial; /* objects read before they are written */
	uint64_t initial_bytes;
	uint64_t largest;
};

/* Of a fio log: objects are files of which parts are read and written. */
struct replay_file {
	char *name;
	uint32_t name_len;
	uint8_t tier;
	uint64_t size; /* as far as the log reaches */
};

struct replay_scan {
	enum trace_format format;
	uint64_t rows, used_rows, passed[REPLAY_PASSED];
	struct trace_bad bad;
	uint64_t out_of_order; /* rows whose time is before that of an earlier one */
	uint64_t first_ns, last_ns;
	uint64_t max_step_back_ns;
	struct replay_count count[REPLAY_TIERS][TRACE_OPS]; /* of all rows, used or not */
	struct replay_need need[REPLAY_PLACES];
	struct block_sizes mix[2]; /* of rows that are used: read, write */
	uint32_t block;            /* of the mix */
	struct replay_file *files;
	unsigned nr_files;
};
void replay_scan_fini(struct replay_scan *s);

/*
 * Read the trace.  Returns 0, -ECANCELED when stopped, -ENODATA when it holds nothing to replay
 * (err says what to do), or -errno.
 */
int replay_scan(const struct replay_job *job, struct replay_scan *ret, struct penstock_err *err);
/* Operations on files that can be in flight with as many open files as the process may have. */
uint32_t replay_max_depth(void);

/*
 * Whether all of it fits and may be used; creates nothing.  @scan may be NULL (a trace that can be
 * read only once): memory, GPUs and slabs need job->capacity then.  -EINVAL: the job makes no
 * sense, -ENOSPC, -ENOMEM, -EEXIST (foreign files), -EBUSY...
 */
int replay_check(const struct replay_job *job, const struct replay_scan *scan,
		 struct penstock_err *err);

/* ---- what was measured ---- */

/* Operations by size: up to 4 KiB, 64 KiB, 1 MiB, 16 MiB, 256 MiB, above. */
enum { REPLAY_SIZES = 6 };
extern const char *const replay_size_names[REPLAY_SIZES];
extern const char *const replay_tier_names[REPLAY_TIERS];

struct replay_class {
	uint8_t op, tier, phase, size;
	uint64_t ops, bytes, errors;
	struct samples latency;
};

struct replay_second {
	uint64_t read_ops, write_ops, read_bytes, write_bytes;
	uint64_t hits, misses;
	double lag_sum, lag_max; /* seconds; of operations that ended in it: @lags of them */
	uint64_t lags, started;
	uint64_t in_flight; /* at its end */
};

struct replay_result {
	double elapsed_sec; /* measured */
	double prefill_sec, wall_sec;
	uint64_t rows; /* read in the second pass */
	uint64_t started, passed[REPLAY_PASSED];
	struct trace_bad bad;
	struct replay_count done[REPLAY_TIERS][TRACE_OPS]; /* without error */
	uint64_t hits, misses; /* reads of objects that were there, and not */
	struct replay_count prefilled, created, evicted;
	uint64_t skipped;         /* reads of what was not there ... */
	uint64_t skipped_deletes; /* ... and deletions */
	uint64_t too_large;       /* writes of more than the capacity */
	uint64_t clipped;         /* reads beyond the end of the object */
	uint64_t reused;          /* objects of an earlier run */
	uint64_t errors[TRACE_OPS], verify_errors, verified_bytes;
	char first_error[508];
	struct replay_lag lag;
	struct samples lag_samples, wait; /* wait: for other operations on the object */
	struct per_second seconds;        /* struct replay_second each */
	struct run_series *series;        /* reads and writes by tier and phase */
	unsigned nr_series;
	struct replay_class *classes;
	unsigned nr_classes;
	uint64_t objects, used_bytes;      /* at the end */
	uint64_t bytes_written;            /* to storage, all told */
	struct penstock_store_stats store; /* since it was opened, where there is one */
	bool has_store;
	struct object_requests remote; /* the same of the first object store */
	bool has_remote;
	double cpu_user_sec, cpu_system_sec;
	struct penstock_path_info path[REPLAY_PLACES];
	const char *path_name[REPLAY_PLACES]; /* the job's */
	unsigned nr_paths;
	bool absent; /* REPLAY_FAIL ended it */
	bool partial;
	char partial_why[160];
};

void replay_result_init(struct replay_result *r);
void replay_result_fini(struct replay_result *r);

/*
 * @scan as for replay_check().  0, or -errno with one line in @err; -ENODATA: a read of what is
 * not there (REPLAY_FAIL).  What was measured up to a stop or failure is in @r, marked partial.
 */
int replay_run(const struct replay_job *job, const struct replay_scan *scan,
	       struct replay_result *r, struct penstock_err *err);

#endif
