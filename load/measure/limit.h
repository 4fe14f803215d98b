/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_LIMIT_H
#define PENSTOCK_MEASURE_LIMIT_H

/*
 * What the device gives to the plainest program: a few threads, each with
 * nothing but pread(2) or pwrite(2) with O_DIRECT in a loop.  They work on the files
 * of the work and in its buffers, for a loop over a few hot megabytes is much
 * faster than one over as much memory as the work uses.  Several configurations are tried in turn,
 * where that is possible between the turns of the work, and the best one counts.  Of objects it is
 * a bare loop over libcurl (limit_object.h), always the same.
 *
 *	struct limit -> limit_run_due() ... -> limit_result(), limit_set_measured()
 *
 * The limit is the best that was seen of the device: by the plain threads, or by the
 * work itself where that was faster.  A share of it is never above 1.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "load/measure/series.h"

struct penstock_s3;

#define LIMIT_CONFIGS 3                   /* so many tries are needed, at least */
#define LIMIT_TRIES   (2 * LIMIT_CONFIGS) /* so many are made beside long work */
#define LIMIT_SEC     1.5                 /* that one direction takes at most ... */
#define LIMIT_MIN_SEC 0.3                 /* ... and in less it would tell nothing */

/* Files of one place, worked on by threads of their own, and the buffers of the work there. */
struct limit_target {
	const char *const *paths; /* files of @len bytes each */
	unsigned nr_paths;
	uint64_t len;
	/*
	 * @nr_bufs of @buf_len bytes, @step apart, aligned.  What is at an offset of a file is
	 * written from the same offset of a buffer, as far as that has one.
	 */
	char *buf;
	unsigned nr_bufs;
	uint64_t buf_len, step;
	uint32_t align; /* of offsets, lengths and addresses */
	/* The files are objects of this client's, and this many operations are in flight. */
	struct penstock_s3 *s3;
	unsigned in_flight;
	uint64_t block; /* of their reads; 0: the client's part */
};

/* One direction; zeroed but for @read is none yet. */
struct limit {
	bool read;
	unsigned tries;
	uint64_t moved; /* bytes of all tries, late ones as well */
	uint64_t counted[LIMIT_CONFIGS], ns[LIMIT_CONFIGS];
	uint64_t block[LIMIT_CONFIGS];
	unsigned requests; /* in flight, of objects; 0: there were none */
	bool is_signed;
	double sec;        /* of a try, at most */
	char why_not[120]; /* the last thing that went wrong */
};

/*
 * One try, with the configuration whose turn it is, in @sec at most.  @max_bytes: bytes that it may
 * move; 0: whatever fits into the time.
 */
void limit_try(struct limit *l, const struct limit_target *targets, unsigned nr, uint64_t max_bytes,
	       double sec, const atomic_int *stop);
/*
 * The tries that are due beside work of which @done of @all parts are over, so that all have
 * been made when it is: one a part, but no fewer than there are configurations and no more than
 * LIMIT_TRIES.
 */
struct limit_schedule {
	uint64_t done, all;
	uint64_t max_bytes; /* bytes of all tries, as of limit_try() */
	double sec;         /* the same */
};
void limit_run_due(struct limit *l, const struct limit_target *targets, unsigned nr,
		   const struct limit_schedule *schedule, const atomic_int *stop);

/*
 * The limit, bytes per second, where the work itself got up to @fastest; 0: it is not known.  @how:
 * where it comes from, or why not.
 */
#define LIMIT_HOW 160
double limit_result(const struct limit *l, double fastest, char how[LIMIT_HOW]);
/* Tell all @series of its direction. */
void limit_set_measured(const struct limit *l, struct run_series *series, unsigned nr);
/* Tell a limit that was not measured. */
void limit_set(struct run_series *series, unsigned nr, bool read, double limit, const char *how);

/* How many bytes it may write beside a job that writes @job_bytes: as many, 512M..2G. */
uint64_t limit_max_write(uint64_t job_bytes);

#endif
