/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_LIMIT_H
#define SLUICE_MEASURE_LIMIT_H

/*
 * What the device gives to the plainest program: a few threads, each with
 * nothing but pread(2) or pwrite(2) with O_DIRECT in a loop, on the files of the
 * job.  Several shapes are tried, a third of the time each; the best one counts.
 * Writes end earlier when their share of a number of bytes is used up, so that
 * measuring the limit does not wear a device more than what it is measured for.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LIMIT_FILE      (64u << 20) /* enough of a file for it */
#define LIMIT_SEC       1.5         /* that one direction takes at most ... */
#define LIMIT_LEAST_SEC 0.3         /* ... and in less it would tell nothing */

struct limit_target {
	const char *path;
	/*
	 * Content of the file, aligned; writes put down what is there already.
	 * Reads leave it alone.
	 */
	const char *content;
	uint64_t len;
	uint32_t align; /* of offsets, lengths and addresses */
};

struct limit_result {
	double bytes_per_sec; /* of all targets together; 0: could not be measured */
	uint64_t bytes;       /* moved in all tries, late ones as well */
	char how[160];        /* in words, or why not */
};

/*
 * @most: bytes that all tries together may move; 0: whatever fits into the time, which is @sec
 * for all of them, LIMIT_SEC unless there is a reason for less.
 */
void limit_measure(struct limit_result *ret, const struct limit_target *targets, unsigned nr,
		   bool read, uint64_t most, double sec, const atomic_int *stop);

/* How many bytes it may write beside a job that writes @job_bytes: as many, 512M..2G. */
uint64_t limit_most_written(uint64_t job_bytes);

#endif
