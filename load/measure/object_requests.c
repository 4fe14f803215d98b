/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/object_requests.h"

#include <stdio.h>

void object_requests_get(struct object_requests *r, struct penstock_s3 *c)
{
	struct penstock_s3_endpoint e = {.size = sizeof(e)};

	*r = (struct object_requests){.stats.size = sizeof(r->stats)};
	penstock_s3_get_stats(c, &r->stats);
	for (unsigned i = 0; i < OBJECT_LATENCIES; i++)
		object_latency_get(c, i, &r->times[i]);
	snprintf(r->region, sizeof(r->region), "%s", r->stats.region);
	snprintf(r->credentials, sizeof(r->credentials), "%s", r->stats.credentials);
	r->stats.region = r->stats.credentials = NULL; /* they go with the client */
	while (r->nr < OBJECT_REQUESTS_ENDPOINTS && penstock_s3_get_endpoint(c, r->nr, &e) == 0) {
		struct object_requests_endpoint *to = &r->endpoints[r->nr++];

		*to = (struct object_requests_endpoint){.up = e.up,
							.attempts = e.attempts,
							.failed = e.failed,
							.downs = e.downs,
							.bytes_read = e.bytes_read,
							.bytes_written = e.bytes_written};
		snprintf(to->url, sizeof(to->url), "%s", e.url);
	}
}
