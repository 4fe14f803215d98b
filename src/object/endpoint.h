/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_ENDPOINT_H
#define PENSTOCK_OBJECT_ENDPOINT_H

/*
 * The endpoints of a client and who is asked next.  One that fails is left out for a while, which
 * doubles each time; then one request tries it, and only its success brings the others back.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "object/uri.h"

struct penstock_err;

enum { OBJECT_ENDPOINTS = 1024 };

struct object_endpoint {
	struct object_url url;
	char *text; /* as given, for reports */
	bool down, probing;
	unsigned failures; /* in a row */
	uint64_t level;    /* failed tries since it went down */
	uint64_t until_ns; /* not to be asked before, while it is down */
	uint32_t in_flight;
	uint64_t attempts, failed, downs;
	uint64_t bytes_read, bytes_written;
};

struct object_endpoints {
	struct object_endpoint *v;
	unsigned nr;
	uint32_t balance; /* enum penstock_s3_balance */
	uint32_t rank;
	unsigned next;
	struct penstock_random random;
};

/*
 * "URL,URL", templates with {1...8}, "@FILE".  Returns 0, or -EINVAL and others with a line that
 * names what is wrong.
 */
int object_endpoints_parse(struct object_endpoints *s, const char *text, struct penstock_err *err);
void object_endpoints_free(struct object_endpoints *s);

/*
 * Which to ask now; @avoid: the one that failed before, to be asked only where there is no other,
 * or -1.  Counts as in flight until object_endpoint_release().
 */
unsigned object_endpoint_pick(struct object_endpoints *s, int avoid, uint64_t now_ns);
/* @failed: by its own fault. */
void object_endpoint_release(struct object_endpoints *s, unsigned i, bool failed, uint64_t now_ns);
/* Is one up that is not @but? */
bool object_endpoint_has_alternative(const struct object_endpoints *s, unsigned but);

#endif
