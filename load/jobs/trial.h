/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_JOBS_TRIAL_H
#define SLUICE_JOBS_TRIAL_H

/*
 * A place to try configurations one after the other, without starting anew: one
 * file per folder and the buffers stay, only the handle is another each time.
 *
 *	lab_check() -> lab_open() -> lab_fill() -> lab_probe() ... lab_limit() -> lab_close()
 *
 * The files are in a new folder inside each of the folders named; lab_close()
 * removes both.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/probe.h>
#include <sluice/sluice.h>

#include "base/random.h"
#include "load/bed/buffers.h"
#include "load/measure/series.h"

struct lab_job {
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

struct lab {
	struct lab_job job;
	char **dirs;
	char **paths;
	bool *direct; /* not known before the first probe: false */
	struct sluice_path_info *info;
	struct pool pools[POOL_GPU + 1]; /* those in use have nr > 0 */
	uint64_t written;                /* all bytes: wear */
	double fill_sec;                 /* how long the files took */
	uint64_t turn;                   /* of the offsets */
	int64_t resident, unknown;       /* of the last probe: see cache.h */
	struct sluice_random random;
};

/* Folders that can be written to, room and memory: 0, or -EINVAL with the reason.  Makes nothing.
 */
int lab_check(const struct lab_job *job, struct sluice_err *err);

/* Make the folders.  Returns 0 or -errno; lab_close() is due either way. */
int lab_open(struct lab *lab, const struct lab_job *job, struct sluice_err *err);
/* Make the files.  Returns 0 or -errno. */
int lab_fill(struct lab *lab, struct sluice_err *err);
void lab_close(struct lab *lab);

/*
 * Do @ops operations in each folder, one at a time, after a short one that does
 * not count.  They are added to @sum, which is zeroed before the first time; after
 * the last one series_finish() is due, and series_fini().  *@last, if given, gets the
 * figures of this probe alone.  @ops times the folders is at most SERIES_SAMPLES.
 */
struct lab_numbers {
	double speed; /* bytes per second, all folders together */
	double p99;   /* latency, seconds */
	double cpu;   /* seconds per GiB */
};
int lab_probe(struct lab *lab, const struct sluice_opts *opts, uint32_t memory, bool read,
	      unsigned ops, struct run_series *sum, struct lab_numbers *last,
	      struct sluice_err *err);

/* Bytes that a probe moves in all folders together. */
uint64_t lab_probe_bytes(const struct lab_job *job, unsigned ops);

/*
 * What the devices give to plain threads; see limit.h.  @ret is 0 where that is not known.
 * @most_written: bytes that writes may take; 0: whatever fits into the time, @sec.
 */
void lab_limit(struct lab *lab, bool read, uint64_t most_written, double sec, double *ret,
	       char how[160]);

#endif
