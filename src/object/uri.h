/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_URI_H
#define PENSTOCK_OBJECT_URI_H

/* Names of objects, and where requests for them go. */
#include <stdbool.h>

#include "object/strbuf.h"

struct penstock_err;

/* Zeroed is none. */
struct object_name {
	char *bucket;
	char *key; /* may be "" */
};

/*
 * s3://BUCKET/KEY; @need_key: a key must be there.  Returns 0, or -EINVAL or -ENOTSUP with a line
 * that names @uri.
 */
int object_name_parse(struct object_name *n, const char *uri, bool need_key,
		      struct penstock_err *err);
void object_name_free(struct object_name *n);

/* http://HOST[:PORT][/BASE] */
struct object_url {
	bool tls;
	char *host; /* as it is sent: with the port where it is not the scheme's own */
	char *base; /* "" or "/..." without a slash at its end, encoded as given */
};

/* @text is not shown in messages where it has a user's name in it, and a password perhaps. */
int object_url_parse(struct object_url *u, const char *text, struct penstock_err *err);
void object_url_free(struct object_url *u);

/* Can the host name a bucket in front of it: neither an address nor "localhost"? */
bool object_url_takes_buckets(const struct object_url *u);

/*
 * Host and path of a request: what is sent and what is signed, which is the same.  @key is not
 * encoded yet.
 */
void object_url_host(struct object_strbuf *t, const struct object_url *u, const char *bucket,
		     bool virtual_host);
void object_url_path(struct object_strbuf *t, const struct object_url *u, const char *bucket,
		     const char *key, bool virtual_host);

#endif
