/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_CKPT_H
#define PENSTOCK_JOBS_CKPT_H

/*
 * Checkpoints saved and loaded by several processes, each with a file of its own: `penstock ckpt
 * bench'. All begin together; an operation is a checkpoint of all of them and takes as long as the
 * slowest.
 *
 * Three methods, as the reference has them: all content is made in memory before any of it is
 * written
 * (`memory'), made piece by piece while the pieces before are being written (`streaming'), or saved
 * by torch.save of an installed torch (`torch').
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/probe.h>

#include "load/measure/series.h"

enum ckpt_method { CKPT_MEMORY, CKPT_STREAMING, CKPT_TORCH, CKPT_METHODS };
extern const char *const ckpt_method_words[]; /* NULL-terminated */

/* Checkpoints of MLPerf Storage, in its mode of 8 processes; 0 is none of them. */
struct ckpt_model {
	const char *name;
	uint64_t bytes;     /* of all, of so many processes */
	uint32_t processes; /* of the whole checkpoint */
	uint64_t subset;    /* bytes of the 8 */
};
extern const struct ckpt_model ckpt_models[];
extern const char *const ckpt_model_words[];
enum { CKPT_SUBSET = 8 };

struct ckpt_job {
	const char *folder;
	uint32_t model;     /* index into ckpt_models; 0: @size */
	uint32_t processes; /* 0: default */
	uint64_t size;      /* bytes of each process */
	uint32_t saves, loads;
	bool distinct; /* each save into files of its own, as MLPerf does */
	bool methods[CKPT_METHODS];
	uint64_t seed;
	double dedup, compress;
	uint32_t buffers; /* of a process */
	uint64_t chunk;   /* of each */
	struct penstock_opts opts;
	uint64_t limit; /* bytes per second; 0: not given */
	bool measure_limit;
	const char *python; /* what has torch */
	const atomic_int *stop;
	/* Optional: @done of @total bytes of one method and direction were moved. */
	void (*progress)(void *arg, unsigned method, bool read, uint64_t done, uint64_t total);
	void *arg;
};

/* One direction of one method. */
struct ckpt_direction {
	struct run_series series; /* an operation is a checkpoint of all processes */
	/* The reference's figures. */
	double *slowest; /* of each operation: time of the slowest process, by its own clock */
	size_t nr_slowest, slowest_capacity;
	double slowest_sec;  /* the same, sum over the operations */
	double slowest_rate; /* bytes per second of the slowest process, sum of them */
	/* Sums over all processes and operations. */
	double made_sec; /* in the generator: of `streaming' within the operation, else before it */
	double close_sec; /* making it durable and visible, at the end */
	double all_sec;   /* in the operation */
};

struct ckpt_result {
	bool ran[CKPT_METHODS];
	char why_not[CKPT_METHODS][192];                   /* of those that were asked for */
	struct ckpt_direction directions[CKPT_METHODS][2]; /* saves and loads */
	struct run_series
		series[2 * CKPT_METHODS]; /* of those that ran, in order; shallow copies */
	unsigned nr_series;
	struct penstock_path_info path;
	uint64_t limit_bytes; /* written to measure it */
};

struct ckpt_plan {
	uint64_t bytes;  /* of a checkpoint */
	uint64_t space;  /* on disk at a time */
	uint64_t writes; /* in all ... */
	uint64_t limit;  /* ... of which for the limit */
	uint64_t reads;
	uint64_t memory[CKPT_METHODS];
};

/* Fill in what is not given, and say what would fail: 0 or -EINVAL. */
int ckpt_check(struct ckpt_job *job, struct penstock_err *err);
void ckpt_plan(const struct ckpt_job *job, struct ckpt_plan *ret);
uint64_t ckpt_total_bytes(const struct ckpt_job *job); /* bytes of a checkpoint */
uint64_t ckpt_limit_len(const struct ckpt_job *job); /* of the file that the limit is measured on */
/* 0 or -errno; what was measured up to there is in @res.  ckpt_result_fini() is due. */
int ckpt_run(const struct ckpt_job *job, struct ckpt_result *res, struct penstock_err *err);
void ckpt_result_fini(struct ckpt_result *res);

/* Why @method cannot be used here, in @why: false if it can. */
bool ckpt_method_missing(const struct ckpt_job *job, enum ckpt_method method, char why[192]);

#endif
