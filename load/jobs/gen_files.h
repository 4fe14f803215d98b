/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_GEN_FILES_H
#define PENSTOCK_JOBS_GEN_FILES_H

/*
 * Files of generated content, written or compared with what they should hold: `penstock gen'.  All
 * files of a job are one object of the generator, one behind the other from a block of 4 KiB on, so
 * that the ratios are those of the set.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/probe.h>

#include "load/measure/series.h"

struct gen_file {
	char *path;
	uint64_t len;
	uint64_t offset; /* of its content; by gen_files_plan() */
};

struct gen_job {
	struct gen_file *files;
	uint64_t nr;
	uint64_t seed;
	double dedup, compress;
	bool verify;    /* read and compare instead of writing */
	bool overwrite; /* files that are there */
	bool no_crc;
	struct penstock_opts opts;
	const atomic_int *stop;
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
};

struct gen_result {
	struct run_series series; /* an operation is a file */
	struct penstock_path_info path;
	char *folder;
	double made_sec; /* spent in the generator, of series.sec */
};

/* Where each begins, and all that would fail before anything is done: 0 or -EINVAL. */
int gen_files_plan(struct gen_job *job, uint64_t *ret_bytes, struct penstock_err *err);
/* 0 or -errno; @res tells up to where.  gen_result_fini() is due in either case. */
int gen_files_run(const struct gen_job *job, struct gen_result *res, struct penstock_err *err);
void gen_result_fini(struct gen_result *res);

#endif
