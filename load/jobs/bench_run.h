/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_BENCH_RUN_H
#define PENSTOCK_JOBS_BENCH_RUN_H

#include "load/bed/bed_folder.h"
#include "load/bed/buffers.h"
#include "load/jobs/bench.h"
#include "load/jobs/bench_files.h"
#include "load/measure/limit.h"

/* What a job does of one size. */
struct bench_size {
	uint64_t size;
	unsigned first; /* of its series */
	struct bench_files files;
	struct bench_source source[2]; /* of writes, or a mix; of reads */
	uint64_t used_ns[2];           /* of their time */
};

/* A job while it runs. */
struct bench {
	const struct bench_job *job;
	struct bench_result *res;
	struct bed_folder folder;
	struct bench_size *sizes; /* job->nr_sizes */
	unsigned repeats, round;
	struct bed_buffers buffers; /* of the size whose turn it is */
	enum bench_step step;
	const struct run_series *series; /* the one that runs */
	uint64_t start_ns;               /* of its turn */
	struct limit limit[2];           /* of writes and reads ... */
	uint64_t limit_size;             /* ... beside series of this size; 0: not measured */
	uint64_t limit_bytes;            /* that it may write */
};

/* ---- bench_limit.c */
bool bench_measures_limit(const struct bench_job *job);
/*
 * Plain threads have a turn as well, on the files of the largest size.  What they write is not
 * what a check would expect.
 */
void bench_limit_turn(struct bench *b, const struct bench_size *z, bool read);
void bench_set_limits(struct bench *b);

#endif
