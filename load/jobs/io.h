/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_IO_H
#define PENSTOCK_JOBS_IO_H

/*
 * One configuration, throughput: each of several workers moves one whole buffer
 * to or from its own file, loop after loop, all starting together.
 *
 *	struct io_job in -> io_job_check() -> io_job_run() -> struct io_result out
 *
 * A loop is a round of transfers (transfers.h): one operation by each worker, open, submit,
 * wait, close; its time is the "task" time, and the time until all are done the "e2e"
 * time.  What has to happen between loops (dropping caches, comparing data) is
 * in neither, nor in the CPU time.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/probe.h>

#include "load/bed/bed_folder.h"
#include "load/transfers/transfers.h"

#include "load/measure/handle.h"

/* The folder and the GPU of one worker. */
struct io_target {
	const char *folder;
	uint32_t device; /* GPU; a label where the job uses host memory */
};

enum io_step { IO_STEP_PREPARE, IO_STEP_RUN, IO_STEP_LIMIT, IO_STEP_CHECK };

struct io_job {
	const struct io_target *targets; /* one worker each */
	unsigned nr_targets;
	bool read;                 /* else write */
	uint64_t io_size;          /* bytes per operation, > 0 */
	uint32_t loops;            /* counted, > 0 */
	uint32_t warmup;           /* before them, not counted ... */
	bool include_warmup;       /* ... unless this is set */
	bool different_file;       /* each loop has its own file */
	struct bed_share share;    /* files are ranges of one, also those of other ranks */
	bool validate;             /* compare what was moved */
	bool keep;                 /* leave the files that were created */
	bool overwrite;            /* replace files that are not ours */
	uint64_t seed;             /* of the data */
	uint32_t memory;           /* enum bed_memory */
	unsigned first_target;     /* files are called as if so many targets came before */
	bool gpu;                  /* memory of the GPU that a target names, not the host's */
	bool gds;                  /* by cuFile: opts.engine is that */
	bool lock;                 /* mlock the buffers */
	struct penstock_opts opts; /* of each worker's handle */
	uint64_t limit;            /* of the device, bytes per second; 0: not known */
	bool measure_limit;
	const struct bed_folder
		*own_folder;    /* optional: all targets are this one, of this run alone */
	const atomic_int *stop; /* optional: give up when it is not 0 */
	/* Optional: called a few times a second from the thread that called io_job_run(). */
	void (*progress)(void *arg, enum io_step step, uint64_t done, uint64_t total);
	/* Optional, from the same thread: files may be used and there is room; nothing is made yet.
	 */
	void (*ready)(void *arg);
	void *progress_arg; /* of both */
};

struct io_worker_result {
	const char *folder; /* the job's */
	uint32_t device;
	uint32_t made;    /* files created for it */
	double task_sec;  /* sum over the counted loops */
	double e2e_sec;   /* the same */
	double *task;     /* seconds of each loop, warm-up first: io_result.nr_loops */
	double *e2e;      /* the same */
	int64_t resident; /* most bytes found in the page cache before a counted loop; -1 unknown */
	struct transfers_handle_info handle;
	struct penstock_gpu_device gpu;
};

struct io_result {
	unsigned nr_workers;
	struct io_worker_result *workers;
	struct penstock_path_info *paths; /* of each */
	uint32_t nr_loops;                /* that all workers completed, warm-up included */
	uint32_t first;                   /* index of the first loop that counts */
	bool partial;    /* interrupted: fewer than the job has, or not all was compared */
	double task_sec; /* of the slowest worker */
	double e2e_sec;
	uint32_t fresh;           /* writes: counted loops of a worker that filled an empty file */
	uint64_t limit_bytes;     /* moved to measure the limit */
	struct run_series series; /* of all workers: an operation is a loop of one */
};

/*
 * Is this job possible as it was asked for?  Returns 0, -EINVAL when a setting
 * is wrong, -ENOTSUP when this machine cannot do it.  Touches no file.
 */
int io_job_check(const struct io_job *job, struct penstock_err *err);

struct io_plan {
	uint64_t space;    /* bytes that files will take more than now */
	uint64_t prepares; /* bytes written for reading */
	uint64_t moves;    /* bytes of all loops */
	uint64_t limit;    /* bytes at most that measuring the limit writes */
	double seconds;    /* about, at @speed ... */
	double speed;      /* ... bytes per second, as given or assumed */
};
/* What io_job_run() would do: 0, or the -errno with which it would refuse.  Makes nothing. */
int io_job_plan(const struct io_job *job, struct io_plan *ret, struct penstock_err *err);

/*
 * Do it.  Whatever happens, files created on the way are gone afterwards unless
 * the job keeps them.  Returns 0, or -errno with one line in @err and nothing
 * in @result; but -ECANCELED when job->stop was set, and the loops that were
 * complete by then are in @result, marked partial.
 */
int io_job_run(const struct io_job *job, struct io_result *result, struct penstock_err *err);
void io_result_fini(struct io_result *result);

/* A size for jobs that name none: 1 GiB, or what free space and memory allow. */
uint64_t io_job_default_size(const struct io_job *job);

/* Bytes per second to the unit of the results: 2^30 bytes per second. */
static inline double io_speed(uint64_t bytes, double sec)
{
	return sec > 0 ? (double)bytes / sec / (double)(1u << 30) : 0;
}

#endif
