/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_RUN_LIMIT_H
#define SLUICE_RUN_LIMIT_H

/*
 * What the device gives to the plainest program: a few threads, each with
 * nothing but pread(2) or pwrite(2) with O_DIRECT in a loop, on the files of the
 * job.  Several shapes are tried for half a second each; the best one counts.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
	uint64_t bytes;       /* moved in all tries */
	char how[160];        /* in words, or why not */
};

void limit_measure(struct limit_result *ret, const struct limit_target *targets, unsigned nr,
		   bool read, const atomic_int *stop);

#endif
