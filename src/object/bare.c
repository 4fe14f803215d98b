/* SPDX-License-Identifier: Apache-2.0 */
#include "object/bare.h"

#include <stdlib.h>

#include "dl/curl.h"
#include "object/client.h"

int object_bare_sign(struct object_bare *b, struct penstock_s3 *c, struct penstock_err *err)
{
	struct object_req r;
	int code = object_req_init(&r, c, b->put ? HTTP_PUT : HTTP_GET, "bare loop", b->uri, true,
				   err);

	if (code == 0)
		code = object_client_keys(c, err);
	r.ranged = !b->put;
	r.at = b->at;
	r.len = b->len;
	r.http.body_len = b->put ? b->len : 0;
	if (code == 0 && b->put && c->opts.flags & PENSTOCK_S3_SIGN_BODY)
		object_sha256_hex(r.payload, b->body, b->len);
	if (code == 0) {
		pthread_mutex_lock(&c->lock);
		r.endpoint = c->endpoints.nr ? (int)(b->turn % c->endpoints.nr) : -1;
		code = object_attempt_sign_and_build(&r);
		pthread_mutex_unlock(&c->lock);
	}
	b->url = TAKE_PTR(r.http.url);
	b->headers = TAKE_PTR(r.http.headers);
	object_req_fini(&r);
	return code;
}

void object_bare_fini(struct object_bare *b)
{
	free(TAKE_PTR(b->url));
	penstock_curl(NULL)->slist_free(TAKE_PTR(b->headers));
}

void object_bare_how(struct object_bare_how *ret, const struct penstock_s3 *c)
{
	*ret = (struct object_bare_how){
		.part = c->opts.part,
		.connections = c->opts.connections,
		.endpoints = c->endpoints.nr ? c->endpoints.nr : 1,
		.ca_file = c->ca_file,
		.no_proxy = c->http_opts.no_proxy,
		.signs = c->source,
		.signs_body = c->opts.flags & PENSTOCK_S3_SIGN_BODY,
	};
}
