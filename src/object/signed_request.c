/* SPDX-License-Identifier: Apache-2.0 */
#include "object/signed_request.h"

#include <stdlib.h>

#include "dl/curl.h"
#include "object/client.h"

int object_signed_request_init(struct object_signed_request *s, struct penstock_s3 *c,
			       struct penstock_err *err)
{
	struct object_req r;
	int code = object_req_init(&r, c, s->put ? HTTP_PUT : HTTP_GET, "bare loop", s->uri, true,
				   err);

	if (code == 0)
		code = object_client_refresh_keys(c, err);
	r.ranged = !s->put;
	r.at = s->at;
	r.len = s->len;
	r.http.body_len = s->put ? s->len : 0;
	if (code == 0 && s->put && c->opts.flags & PENSTOCK_S3_SIGN_BODY)
		object_sha256_hex(r.payload, s->body, s->len);
	if (code == 0) {
		pthread_mutex_lock(&c->lock);
		r.endpoint = c->endpoints.nr ? (int)(s->endpoint % c->endpoints.nr) : -1;
		code = object_attempt_sign_and_build(&r);
		pthread_mutex_unlock(&c->lock);
	}
	s->url = TAKE_PTR(r.http.url);
	s->headers = TAKE_PTR(r.http.headers);
	object_req_fini(&r);
	return code;
}

void object_signed_request_fini(struct object_signed_request *s)
{
	free(TAKE_PTR(s->url));
	penstock_curl(NULL)->slist_free(TAKE_PTR(s->headers));
}

void object_send_options_get(struct object_send_options *ret, const struct penstock_s3 *c)
{
	*ret = (struct object_send_options){
		.part = c->opts.part,
		.connections = c->opts.connections,
		.endpoints = c->endpoints.nr ? c->endpoints.nr : 1,
		.ca_file = c->ca_file,
		.no_proxy = c->http_opts.no_proxy,
		.signs = c->source,
		.signs_body = c->opts.flags & PENSTOCK_S3_SIGN_BODY,
	};
}
