/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_BARE_H
#define PENSTOCK_OBJECT_BARE_H

/*
 * Requests that somebody else sends, signed as the client signs its own: for the bare loop over
 * libcurl that measurements are compared with.  They are in no statistics.
 */
#include <stdbool.h>
#include <stdint.h>

struct penstock_err;
struct penstock_s3;

struct object_bare {
	bool put;
	const char *uri;
	uint64_t at, len; /* range that is read; all that is put: */
	const void *body;
	unsigned turn; /* which of the endpoints, in turn */
	/* Set by object_bare_sign(), object_bare_fini() is due. */
	char *url;
	void *headers; /* list of libcurl's */
};

int object_bare_sign(struct object_bare *b, struct penstock_s3 *c, struct penstock_err *err);
void object_bare_fini(struct object_bare *b);

/* How the client sends its own. */
struct object_bare_how {
	uint64_t part;
	uint32_t connections, endpoints;
	const char *ca_file; /* NULL: the system's */
	bool no_proxy;
	bool signs, signs_body;
};
void object_bare_how(struct object_bare_how *ret, const struct penstock_s3 *c);

#endif
