/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_TRIAL_H
#define SLUICE_JOBS_TRIAL_H

/*
 * A place to try configurations one after the other, without starting anew: one
 * file per folder and the buffers stay, only the handle is another each time.
 *
 *	trials_check() -> trials_open() -> trials_fill() -> trial_run() ... trials_limit() ->
 *trials_close()
 *
 * The files are in a new folder inside each of the folders named; trials_close()
 * removes both.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/probe.h>
#include <sluice/sluice.h>

#include "base/random.h"
#include "load/bed/buffers.h"
#include "load/measure/limit.h"
#include "load/measure/series.h"

struct trials_job {
	const char *const *folders; /* one worker each */
	unsigned nr_folders;
	uint64_t file_size; /* of each file */
	uint64_t op_size;   /* of one operation, at most the file's */
	uint32_t huge;      /* of the buffers */
	bool lock;
	uint64_t seed;
	const atomic_int *stop;
	/* Optional: preparing the files. */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *progress_arg;
};

struct trials {
	struct trials_job job;
	char **dirs;
	char **paths;
	bool *direct; /* not known before the first probe: false */
	struct sluice_path_info *info;
	struct bed_buffers buffers[BED_GPU + 1]; /* those in use have nr > 0 */
	uint64_t written;                        /* all bytes: wear */
	double fill_sec;                         /* how long the files took */
	uint64_t turn;                           /* of the offsets */
	int64_t resident, unknown;               /* of the last probe: see cache.h */
	struct sluice_random random;
};

/* Folders that can be written to, room and memory: 0, or -EINVAL with the reason.  Makes nothing.
 */
int trials_check(const struct trials_job *job, struct sluice_err *err);

/* Make the folders.  Returns 0 or -errno; trials_close() is due either way. */
int trials_open(struct trials *trials, const struct trials_job *job, struct sluice_err *err);
/* Make the files.  Returns 0 or -errno. */
int trials_fill(struct trials *trials, struct sluice_err *err);
void trials_close(struct trials *trials);

/*
 * Do @ops operations in each folder, one at a time, after a short one that does
 * not count.  They are added to @sum, which is zeroed before the first time; after
 * the last one series_finish() is due, and series_fini().  *@last, if given, gets the
 * figures of this probe alone.  @ops times the folders is at most SERIES_SAMPLES.
 */
struct trial_numbers {
	double speed; /* bytes per second, all folders together */
	double p99;   /* latency, seconds */
	double cpu;   /* seconds per GiB */
};
int trial_run(struct trials *trials, const struct sluice_opts *opts, uint32_t memory, bool read,
	      unsigned ops, struct run_series *sum, struct trial_numbers *last,
	      struct sluice_err *err);

/* Bytes that a probe moves in all folders together. */
uint64_t trial_bytes(const struct trials_job *job, unsigned ops);

/*
 * Let plain threads try in the same files and buffers; see limit.h.  @most_written: bytes that
 * writes may take.
 */
int trials_limit(struct trials *trials, struct limit *l, uint64_t most_written, double sec,
		 struct sluice_err *err);

#endif
