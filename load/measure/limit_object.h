/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_LIMIT_OBJECT_H
#define PENSTOCK_MEASURE_LIMIT_OBJECT_H

/*
 * What an object store gives to the plainest program: one loop over libcurl that sends signed
 * requests for the objects of the work, as many at a time as that and as large, and does nothing
 * else: no checksums, no second attempts, no parts.
 */
#include "load/measure/limit.h"

struct limit_object_result {
	uint64_t bytes, ns; /* of what was done */
	uint64_t request;   /* bytes of the largest */
	unsigned in_flight;
	bool is_signed;
	char why_not[120]; /* the last thing that went wrong */
};

/* In @ns at most, @max_bytes bytes at most; what is under way then is waited for and
 * counts. */
void limit_object_run(struct limit_object_result *ret, const struct limit_target *targets,
		      unsigned nr, bool read, uint64_t max_bytes, uint64_t ns,
		      const atomic_int *stop);

#endif
