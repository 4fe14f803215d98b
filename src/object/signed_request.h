/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_SIGNED_REQUEST_H
#define PENSTOCK_OBJECT_SIGNED_REQUEST_H

/*
 * Requests that are signed like the client's own and that the caller sends: the bare loop over
 * libcurl that measurements are compared with.  The client's statistics do not count them.
 */
#include <stdbool.h>
#include <stdint.h>

struct penstock_err;
struct penstock_s3;

struct object_signed_request {
	bool put;
	const char *uri;
	uint64_t at, len; /* range that is read; all that is put: */
	const void *body;
	unsigned endpoint; /* number of the endpoint, modulo how many there are */
	/* Set by object_signed_request_init(), object_signed_request_fini() frees it. */
	char *url;
	void *headers; /* list of libcurl's */
};

int object_signed_request_init(struct object_signed_request *s, struct penstock_s3 *c,
			       struct penstock_err *err);
void object_signed_request_fini(struct object_signed_request *s);

/* How the client sends its own requests. */
struct object_send_options {
	uint64_t part;
	uint32_t connections, endpoints;
	const char *ca_file; /* NULL: the system's */
	bool no_proxy;
	bool signs, signs_body;
};
void object_send_options_get(struct object_send_options *ret, const struct penstock_s3 *c);

#endif
