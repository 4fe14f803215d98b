/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_SWEEP_H
#define PENSTOCK_JOBS_SWEEP_H

/*
 * The job of `penstock sweep': every configuration of a space, in one process.
 *
 * A measurement moves one buffer of io_size bytes to or from one file per folder,
 * all folders at the same time, with one configuration.  Each configuration is
 * measured @loops times; a loop goes once through all of them in an order of its
 * own, drawn from the seed, so that a device that becomes slower with time treats
 * all alike.  All reads come first, then all writes.
 *
 * What was measured is appended to a state file as it is measured; a job that is
 * started again with the same settings goes on from there.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/probe.h>

#include "load/jobs/config_space.h"
#include "load/measure/series.h"

struct sweep_point;

struct sweep_job {
	const char *const *folders; /* a worker and a new folder in each */
	unsigned nr_folders;
	const struct config_space *space;
	struct penstock_opts opts; /* what is not an axis */
	uint32_t memory;           /* BED_*, unless an axis */
	bool read, write;
	uint64_t io_size;
	uint32_t loops;
	uint64_t seed;
	bool flush;        /* let the kernel drop all caches before each read; needs root */
	const char *state; /* file, or NULL */
	bool resume;       /* it is there: go on */
	uint64_t limit;    /* of the device, bytes per second; 0: not known */
	bool measure_limit;
	const atomic_int *stop;
	/* Optional: a few times a second. */
	void (*progress)(void *arg, const char *name, uint64_t done_bytes, uint64_t total_bytes);
	/* Optional: folders to measure in are there, the state file is made next. */
	int (*ready)(void *arg, struct penstock_err *err);
	/* Optional: all loops of a point are done. */
	int (*point_done)(void *arg, const struct sweep_job *job, const struct run_series *s,
			  const struct sweep_point *p, struct penstock_err *err);
	void *arg;
};

/* What is not in the series of a point. */
struct sweep_point {
	unsigned point;  /* of the space */
	uint32_t loops;  /* done */
	double task_sec; /* sum over the loops, of the slowest worker */
	double e2e_sec;  /* sum over the loops, up to the end of the last worker */
	double *worker_sec;
	int64_t resident, unknown; /* page cache before reads */
};

struct sweep_result {
	unsigned nr; /* points in one or both directions, reads first */
	struct run_series *series;
	struct sweep_point *points;
	uint64_t bytes_written;
	unsigned resumed;                 /* measurements taken from the state file */
	double earlier_sec;               /* how long those who made them took, up to the last */
	struct penstock_path_info *paths; /* of the folders */
	bool began; /* if not, nothing was left behind but what ready() made */
};

/*
 * Is the job possible?  Returns 0; -EINVAL where a setting is wrong, a folder is
 * missing or cannot be written to, there is too little space or memory, or the
 * state file belongs to another job; -ENOTSUP where this machine cannot do it.
 * Creates nothing.
 */
int sweep_check(const struct sweep_job *job, struct penstock_err *err);

/* Returns 0 or -errno; what was measured is in @res in both cases. */
int sweep_run(const struct sweep_job *job, struct sweep_result *res, struct penstock_err *err);
void sweep_result_fini(struct sweep_result *res);

/* How many configurations move something, and not only pretend to. */
unsigned sweep_moves(const struct sweep_job *job);
/* Measurements of the whole job, and the bytes of one. */
uint64_t sweep_measurements(const struct sweep_job *job);
uint64_t sweep_bytes(const struct sweep_job *job);
/* Bytes at most that measuring the limit writes. */
uint64_t sweep_limit_writes(const struct sweep_job *job);

struct sweep_plan {
	uint64_t left;   /* measurements still to be made */
	uint64_t writes; /* bytes of all that is left, but for the limit's */
};
/* What a run would do now.  Returns 0 or -errno. */
int sweep_plan(const struct sweep_job *job, struct sweep_plan *ret, struct penstock_err *err);

#endif
