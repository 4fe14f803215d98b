/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_LATENCY_H
#define PENSTOCK_OBJECT_LATENCY_H

/* How long attempts took that were answered in full, from their beginning. */
#include <stdint.h>

#include "base/hist.h"

struct penstock_s3;

enum object_latency_kind {
	OBJECT_LATENCY_FIRST_BYTE, /* of content that was read */
	OBJECT_LATENCY_LAST_BYTE,
	OBJECT_LATENCY_PUT, /* of content that was written: to the answer */
	OBJECT_LATENCIES,
};

struct object_latency {
	struct penstock_hist hist;
	uint64_t sum_ns;
};

/* A copy of what there is by now. */
void object_latency_get(struct penstock_s3 *c, enum object_latency_kind which,
			struct object_latency *ret);

#endif
