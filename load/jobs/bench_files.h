/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_BENCH_FILES_H
#define PENSTOCK_JOBS_BENCH_FILES_H

/*
 * The tensors of a bench job on disk, and the source of operations on them.  What a
 * file holds is known from its number, and from how often it was written where
 * that is clear, so that whatever is read can be checked.
 */
#include "base/random.h"
#include "load/bed/bed_file.h"
#include "load/bed/buffers.h"
#include "load/jobs/bench.h"
#include "load/measure/page_cache.h"
#include "load/transfers/transfers.h"

struct bench_files {
	const struct bench_job *job;
	uint64_t size;  /* of one operation */
	uint64_t bytes; /* of one file */
	unsigned nr;
	struct bed_file *files;
	const char **paths; /* of them */
	bool direct;        /* O_DIRECT is used on them */
};

/*
 * Make empty files, whose names count from @first on.  bench_files_fini() is due either
 * way, and removes them.
 */
int bench_files_init(struct bench_files *f, const struct bench_job *job,
		     const struct bed_folder *folder, uint64_t size, unsigned first,
		     struct penstock_err *err);
void bench_files_fini(struct bench_files *f);
/* Write those that are not full; *@written is increased. */
int bench_files_fill(struct bench_files *f, uint64_t *written, struct penstock_err *err);
/* Read all full ones back and compare; *@verified is increased. */
int bench_files_verify(struct bench_files *f, uint64_t *verified, struct penstock_err *err);

struct bench_source {
	const struct bench_job *job;
	struct bench_files *files;
	const struct bed_buffers *buffers;
	bool read;         /* unless the job mixes */
	unsigned nr_files; /* in use */
	uint64_t issued;
	uint64_t warm_end, end; /* of the turn: up to where it warms up and counts */
	struct penstock_random random;
	struct page_cache_facts facts;
	_Atomic uint64_t verified;
};

/* The hooks and the state as an op_source. */
struct op_source bench_source(struct bench_source *s);

#endif
