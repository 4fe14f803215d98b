/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_TRIAL_H
#define PENSTOCK_JOBS_TRIAL_H

/*
 * A place to try configurations one after the other, without starting anew: one
 * file per folder and the buffers stay, only the handle is another each time.
 *
 *	trials_check() -> trials_open() -> trials_fill() -> trial_once() or trial_run()
 *	... trials_limit() -> trials_close()
 *
 * The files are in a new folder inside each of the folders named; trials_close()
 * removes both.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/probe.h>

#include "base/random.h"
#include "load/bed/bed_file.h"
#include "load/bed/buffers.h"
#include "load/measure/limit.h"
#include "load/measure/page_cache.h"
#include "load/measure/series.h"

struct trials_job {
	const char *name;           /* of the command: new folders are called after it */
	const char *const *folders; /* one worker each */
	unsigned nr_folders;
	struct penstock_s3 *s3; /* where folders are prefixes of a store; else NULL */
	uint64_t file_size;     /* of each file */
	uint64_t op_size;       /* of one operation, at most the file's */
	bool rounds;   /* as ds_io does it: all begin together, and open and close the file */
	bool flush;    /* let the kernel drop all caches before each read; needs root */
	uint32_t huge; /* of the buffers */
	bool lock;
	uint64_t seed;
	const atomic_int *stop;
	/* Optional: preparing the files. */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	/* Optional: a few times a second in a trial. */
	void (*tick)(void *arg, uint64_t bytes);
	void *progress_arg; /* of both */
};

struct trials {
	struct trials_job job;
	struct bed_folder *folders;
	struct bed_file *files;
	struct penstock_path_info *info;
	struct bed_buffers buffers[BED_GPU + 1]; /* those in use have been opened */
	uint64_t written;                        /* all bytes: wear */
	double fill_sec;                         /* how long the files took */
	struct penstock_random random;
};

/*
 * Folders that can be written to, room, and memory for @kinds of host memory: 0, or
 * -EINVAL with the reason.  Makes nothing.
 */
int trials_check(const struct trials_job *job, unsigned kinds, struct penstock_err *err);

/* Make the folders.  Returns 0 or -errno; trials_close() is due either way. */
int trials_open(struct trials *t, const struct trials_job *job, struct penstock_err *err);
/* Make the files.  Returns 0 or -errno. */
int trials_fill(struct trials *t, struct penstock_err *err);
void trials_close(struct trials *t);

/*
 * Do @ops operations in each folder, one at a time; where the job has no rounds, after a
 * short one that does not count.  @one is zeroed, and due to series_fini() whatever
 * comes of it; *@facts, if given, gets what there was in the page cache before, and
 * @worker_sec how long the last operation of each worker took.
 */
struct trial {
	struct penstock_opts opts;
	uint32_t memory;
	bool read;
	unsigned ops;
	struct page_cache_facts facts;
	double *worker_sec; /* optional, one for each folder, of jobs with rounds */
};
int trial_once(struct trials *t, struct trial *how, struct run_series *one,
	       struct penstock_err *err);

/*
 * The same, added to @sum, which is zeroed before the first time; after
 * the last one series_finish() is due, and series_fini().  *@last, if given, gets the
 * figures of this probe alone.  @ops times the folders is at most SERIES_SAMPLES.
 */
struct trial_numbers {
	double speed; /* bytes per second, all folders together */
	double p99;   /* latency, seconds */
	double cpu;   /* seconds per GiB */
};
int trial_run(struct trials *t, const struct penstock_opts *opts, uint32_t memory, bool read,
	      unsigned ops, struct run_series *sum, struct trial_numbers *last,
	      struct penstock_err *err);

/* Bytes that a probe moves in all folders together. */
uint64_t trial_bytes(const struct trials_job *job, unsigned ops);

/*
 * Let plain threads try in the same files and buffers, as limit_run_due() does.  @turn->max_bytes
 * is a bound of writes: reads take what fits into the time.
 */
int trials_limit(struct trials *t, struct limit *l, struct limit_schedule schedule,
		 struct penstock_err *err);

#endif
