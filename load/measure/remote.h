/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_REMOTE_H
#define PENSTOCK_MEASURE_REMOTE_H

/* How the requests of a client of an object store went, to be told when it is closed. */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/s3.h>

#include "object/latency.h"

enum { REMOTE_ENDPOINTS = 64 }; /* that are told one by one */

struct remote_endpoint {
	char url[160];
	bool up;
	uint64_t attempts, failed, downs, bytes_read, bytes_written;
};

struct remote {
	struct penstock_s3_stats stats; /* its region and credentials are these: */
	char region[64], credentials[64];
	unsigned nr; /* of the endpoints */
	struct remote_endpoint endpoints[REMOTE_ENDPOINTS];
	struct object_latency times[OBJECT_LATENCIES];
};

void remote_look(struct remote *r, struct penstock_s3 *c);

#endif
