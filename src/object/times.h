/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_TIMES_H
#define PENSTOCK_OBJECT_TIMES_H

/* How long attempts took that were answered in full, from their beginning. */
#include <stdint.h>

#include "base/hist.h"

struct penstock_s3;

enum object_time {
	OBJECT_FIRST_BYTE, /* of content that was read */
	OBJECT_LAST_BYTE,
	OBJECT_PUT, /* of content that was written: to the answer */
	OBJECT_TIMES,
};

struct object_times {
	struct penstock_hist hist;
	uint64_t sum_ns;
};

/* A copy of what there is by now. */
void object_times_get(struct penstock_s3 *c, enum object_time which, struct object_times *ret);

#endif
