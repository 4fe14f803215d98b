/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_SIGN_H
#define PENSTOCK_OBJECT_SIGN_H

/*
 * Signature Version 4.  What is sent is what is signed: path and query come encoded, once, as S3
 * wants it; the query in any order.  libcurl's own (7.88) refuses seven shapes of requests that
 * S3 needs, so it is not used.
 */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "object/strbuf.h"

struct object_cred;

/* Of a request, with a lower-case name. */
struct object_header {
	const char *name, *value;
};

enum {
	OBJECT_HEADERS = 24, /* of a request, at most */
	OBJECT_HASH_HEX = 65,
	OBJECT_DATE_SIZE = 17, /* 20130524T000000Z */
};

extern const char object_unsigned_payload[];
extern const char object_empty_payload[]; /* SHA-256 of nothing */

/* The key of a day, a region and a secret, which is worth keeping. */
struct object_sign_key {
	char scope[128];
	uint8_t of[32]; /* hash of the secret: nothing secret is kept twice */
	uint8_t key[32];
};

struct object_sign {
	const char *method, *host, *path;
	const char *query;                   /* "" or "a=b&c" */
	const struct object_header *headers; /* all that are signed, but for the host */
	unsigned nr_headers;
	const char *payload; /* hash in hexadecimal digits, or object_unsigned_payload */
	const char *region, *service;
	const struct object_cred *cred;
	const char *date; /* OBJECT_DATE_SIZE, as in x-amz-date */
};

/* The value of the header Authorization.  0 or -ENOMEM. */
int object_sign(struct object_strbuf *out, const struct object_sign *s,
		struct object_sign_key *kept);

/* The string that is hashed first, for tests. */
void object_sign_canonical(struct object_strbuf *out, const struct object_sign *s);

void object_sign_date(char date[OBJECT_DATE_SIZE], time_t now);
void object_sha256_hex(char hex[OBJECT_HASH_HEX], const void *data, size_t len);

#endif
