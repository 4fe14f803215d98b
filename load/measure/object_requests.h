/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_OBJECT_REQUESTS_H
#define PENSTOCK_MEASURE_OBJECT_REQUESTS_H

/* How the requests of a client of an object store went, to be told when it is closed. */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/s3.h>

#include "object/latency.h"

enum { OBJECT_REQUESTS_ENDPOINTS = 64 }; /* that are told one by one */

struct object_requests_endpoint {
	char url[160];
	bool up;
	uint64_t attempts, failed, downs, bytes_read, bytes_written;
};

struct object_requests {
	struct penstock_s3_stats stats; /* its region and credentials are these: */
	char region[64], credentials[64];
	unsigned nr; /* of the endpoints */
	struct object_requests_endpoint endpoints[OBJECT_REQUESTS_ENDPOINTS];
	struct object_latency times[OBJECT_LATENCIES];
};

void object_requests_get(struct object_requests *r, struct penstock_s3 *c);

#endif
