/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_IO_H
#define SLUICE_JOBS_IO_H

/*
 * One configuration, throughput: each of several workers moves one whole buffer
 * to or from its own file, loop after loop, all starting together.
 *
 *	struct io_job in -> io_job_check() -> io_job_run() -> struct io_result out
 *
 * A worker is a thread with a handle and a buffer of its own.  A loop is one
 * operation by each worker: open, submit, wait, close; its time is the "task"
 * time.  A barrier ends the loop for all; the time up to there is the "e2e"
 * time.  What has to happen between loops (dropping caches, comparing data) is
 * in neither, nor in the CPU time.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/probe.h>
#include <sluice/sluice.h>

#include "load/bed/buffers.h"

#include "load/measure/words.h"

/* How users spell them, in their order; NULL-terminated. */

/* Where one worker works. */
struct io_place {
	const char *folder;
	uint32_t device; /* GPU; a label where the job uses host memory */
};

enum io_step { IO_STEP_PREPARE, IO_STEP_RUN, IO_STEP_LIMIT, IO_STEP_CHECK };

struct io_job {
	const struct io_place *places; /* one worker each */
	unsigned nr_places;
	bool read;               /* else write */
	uint64_t io_size;        /* bytes per operation, > 0 */
	uint32_t loops;          /* counted, > 0 */
	uint32_t warmup;         /* before them, not counted ... */
	bool include_warmup;     /* ... unless this is set */
	bool different_file;     /* each loop has its own file */
	bool validate;           /* compare what was moved */
	bool keep;               /* leave the files that were created */
	bool overwrite;          /* replace files that are not ours */
	uint64_t seed;           /* of the data */
	uint32_t memory;         /* enum bed_memory */
	bool gpu;                /* memory of the GPU that a place names, not the host's */
	bool gds;                /* by cuFile: opts.engine is that */
	bool lock;               /* mlock the buffers */
	struct sluice_opts opts; /* of each worker's handle */
	uint64_t limit;          /* of the device, bytes per second; 0: not known */
	bool measure_limit;
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
	uint32_t made;           /* files created for it */
	uint64_t prepared_bytes; /* written into them, to be read */
	uint64_t verified_bytes; /* compared and right */
	double task_sec;         /* sum over the counted loops */
	double e2e_sec;          /* the same */
	double *task;            /* seconds of each loop, warm-up first: io_result.nr_loops */
	double *e2e;             /* the same */
	int64_t resident; /* most bytes found in the page cache before a counted loop; -1 unknown */
	struct sluice_path_info path;
	struct sluice_file_info file; /* as the last loop had it open */
	struct sluice_buf_info buf;
	struct sluice_stats stats;
	uint32_t ways; /* what happened on the way, of all loops: SLUICE_DONE_* */
	struct sluice_gpu_device gpu;
};

struct io_result {
	unsigned nr_workers;
	struct io_worker_result *workers;
	uint32_t nr_loops; /* that all workers completed, warm-up included */
	uint32_t first;    /* index of the first loop that counts */
	bool partial;      /* interrupted: fewer than the job has, or not all was compared */
	uint64_t bytes;    /* moved by the counted loops of all workers */
	double task_sec;   /* of the slowest worker */
	double e2e_sec;    /* the same */
	double user_sec;   /* CPU of the process during the counted loops */
	double system_sec;
	double library_sec;   /* of this: the I/O threads of the workers' handles */
	uint32_t fallbacks;   /* of all workers: SLUICE_FELL_* */
	bool direct;          /* every block went by O_DIRECT */
	bool buffered;        /* every block went through the page cache */
	uint32_t fresh;       /* writes: counted loops of a worker that filled an empty file */
	char cache[80];       /* state of the page cache, for people and programs */
	double limit;         /* bytes per second; 0: not known */
	char limit_how[160];  /* who says so, or why it was not measured */
	uint64_t limit_bytes; /* moved to measure it */
};

/*
 * Is this job possible as it was asked for?  Returns 0, -EINVAL when a setting
 * is wrong, -ENOTSUP when this machine cannot do it.  Touches no file.
 */
int io_job_check(const struct io_job *job, struct sluice_err *err);

/*
 * Do it.  Whatever happens, files created on the way are gone afterwards unless
 * the job keeps them.  Returns 0, or -errno with one line in @err and nothing
 * in @result; but -ECANCELED when job->stop was set, and the loops that were
 * complete by then are in @result, marked partial.
 */
int io_job_run(const struct io_job *job, struct io_result *result, struct sluice_err *err);
void io_result_fini(struct io_result *result);

/* A size for jobs that name none: 1 GiB, or what free space and memory allow. */
uint64_t io_job_default_size(const struct io_job *job);

/* Bytes per second to the unit of the results: 2^30 bytes per second. */
static inline double io_speed(uint64_t bytes, double sec)
{
	return sec > 0 ? (double)bytes / sec / (double)(1u << 30) : 0;
}

#endif
