/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt of a request: where it goes, its signature, and what follows from how it ended.  All
 * of it runs in the transport's thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/client.h"

enum { SLOW_STALL = 8 };

static struct object_req *req_of(struct http_req *h)
{
	return container_of(h, struct object_req, http);
}

/* ------------------------------------------------------------------------ start */

/* What is signed, with room for what it points to. */
struct signing {
	struct object_sign s;
	struct object_header headers[OBJECT_HEADERS];
	struct object_strbuf host, path;
	char date[OBJECT_DATE_SIZE];
	char aws_host[96];
};

static void set_host_and_path(struct signing *g, struct object_req *r, const char *region)
{
	struct penstock_s3 *c = r->c;
	char none[] = "";
	const struct object_url aws = {.tls = true, .host = g->aws_host, .base = none};
	const struct object_url *url = &r->redirect_url;

	if (r->redirect_url.host) {
		/* What was said to be elsewhere names the bucket as it wants to. */
		object_strbuf_put(&g->host, url->host);
		object_strbuf_put(&g->path, url->base);
		return;
	}
	snprintf(g->aws_host, sizeof(g->aws_host), "s3.%s.amazonaws.com", region);
	url = c->endpoints.nr ? &c->endpoints.v[r->endpoint].url : &aws;
	object_url_host(&g->host, url, r->name.bucket, c->virtual_host);
	object_url_path(&g->path, url, r->name.bucket, r->name.key, c->virtual_host);
}

static bool is_tls(const struct object_req *r)
{
	if (r->redirect_url.host)
		return r->redirect_url.tls;
	return r->endpoint < 0 || r->c->endpoints.v[r->endpoint].url.tls;
}

static void add_signed(struct signing *g, const char *name, const char *value)
{
	if (g->s.nr_headers < OBJECT_HEADERS)
		g->headers[g->s.nr_headers++] = (struct object_header){name, value};
}

/* Those of the request that begin with x-amz-, and what every signature needs. */
static void set_signed(struct signing *g, struct object_req *r)
{
	const struct object_cred *cred = &r->c->cred;

	g->s.payload = r->payload[0]       ? r->payload
		       : !r->http.body_len ? object_empty_payload
					   : object_unsigned_payload;
	r->skew_s = r->c->skew_s;
	object_sign_date(g->date, time(NULL) + r->skew_s);
	add_signed(g, "x-amz-content-sha256", g->s.payload);
	add_signed(g, "x-amz-date", g->date);
	if (cred->token)
		add_signed(g, "x-amz-security-token", cred->token);
	for (unsigned i = 0; i < r->nr_headers; i++)
		if (!strncmp(r->headers[i].name, "x-amz-", 6))
			add_signed(g, r->headers[i].name, r->headers[i].value);
}

static bool send_headers(struct object_req *r, const struct signing *g, const char *authorization)
{
	char range[64];
	/* Not asked for, and 100-continue would cost a round trip. */
	bool ok = http_header(&r->http, "Expect", "") && http_header(&r->http, "Accept", "");

	for (unsigned i = 0; i < g->s.nr_headers; i++)
		ok = ok && http_header(&r->http, g->headers[i].name, g->headers[i].value);
	for (unsigned i = 0; i < r->nr_headers; i++)
		if (strncmp(r->headers[i].name, "x-amz-", 6) != 0 || !g->s.nr_headers)
			ok = ok && http_header(&r->http, r->headers[i].name, r->headers[i].value);
	if (authorization)
		ok = ok && http_header(&r->http, "Authorization", authorization);
	if (r->ranged && !r->try_unranged) {
		snprintf(range, sizeof(range), "bytes=%" PRIu64 "-%" PRIu64, r->at + r->have,
			 r->at + r->len - 1);
		ok = ok && http_header(&r->http, "Range", range);
	}
	if (r->etag[0])
		ok = ok && http_header(&r->http, "If-Match", r->etag);
	if (r->is_new)
		ok = ok && http_header(&r->http, "If-None-Match", "*");
	return ok;
}

int object_attempt_sign_and_build(struct object_req *r)
{
	struct penstock_s3 *c = r->c;
	const char *region = object_client_region(c, r->name.bucket);
	struct object_strbuf authorization = {0}, url = {0};
	struct signing g = {.s = {.method = http_method_name(r->http.method),
				  .query = r->query ? r->query : "",
				  .region = region,
				  .service = "s3",
				  .cred = &c->cred}};
	int code = 0;

	snprintf(r->region, sizeof(r->region), "%s", region);
	set_host_and_path(&g, r, region);
	if (c->source)
		set_signed(&g, r);
	object_strbuf_printf(&url, "%s://%s%s%s%s", is_tls(r) ? "https" : "http",
			     g.host.s ? g.host.s : "", g.path.s ? g.path.s : "",
			     r->query ? "?" : "", g.s.query);
	if (g.host.failed || g.path.failed || url.failed)
		code = -ENOMEM;
	g.s.host = g.host.s;
	g.s.path = g.path.s;
	g.s.headers = g.headers;
	g.s.date = g.date;
	if (code == 0 && c->source)
		code = object_sign(&authorization, &g.s, &c->sign_key);
	if (code == 0 && !send_headers(r, &g, authorization.s))
		code = -ENOMEM;
	r->http.url = TAKE_PTR(url.s);
	object_strbuf_fini(&authorization);
	object_strbuf_fini(&g.host);
	object_strbuf_fini(&g.path);
	return code;
}

int object_attempt_start(struct http_req *h)
{
	struct object_req *r = req_of(h);
	struct penstock_s3 *c = r->c;
	uint64_t now = clock_ns(), spent;
	int code;

	if (!r->start_ns)
		r->start_ns = now;
	spent = (now - r->start_ns) / 1000000;
	if (spent >= c->opts.timeout_ms)
		return -ETIMEDOUT;
	h->timeout_ms = c->opts.timeout_ms - spent;
	h->stall_ms = (uint64_t)c->opts.stall_ms * (r->slow ? SLOW_STALL : 1);
	h->text_max = OBJECT_TEXT_MAX;
	h->into = r->into ? r->into + r->have : NULL;
	h->into_len = r->into || h->sink ? r->len - r->have : 0;
	if (r->prepare)
		r->prepare(r);
	pthread_mutex_lock(&c->lock);
	r->counted = !r->redirect_url.host && c->endpoints.nr;
	r->endpoint = r->counted ? (int)object_endpoint_pick(&c->endpoints,
							     r->avoid ? r->endpoint : -1, now)
				 : -1;
	r->attempts++;
	c->stats.attempts++;
	c->stats.retries += r->attempts > 1;
	code = object_attempt_sign_and_build(r);
	pthread_mutex_unlock(&c->lock);
	return code;
}

/* ------------------------------------------------------------------------ check */

/* Is this the part of the object that was asked for, and of the right object? */
int object_attempt_check(struct http_req *h)
{
	struct object_req *r = req_of(h);
	const struct http_response *response = &h->response;
	uint64_t at = r->at + r->have, len = r->len - r->have;

	if (!r->ranged || response->status >= 300)
		return 0;
	if (r->etag[0] && response->etag[0] && strcmp(r->etag, response->etag) != 0)
		return -ESTALE;
	if (response->status == 200 && r->try_unranged && response->has_length &&
	    response->length > len)
		return -EMSGSIZE;
	if (response->status == 200)
		return at == 0 && response->has_length && response->length <= len ? 0 : -EBADMSG;
	if (response->status != 206 || !response->has_range || response->range_at != at ||
	    response->range_len > len ||
	    (response->has_length && response->length != response->range_len))
		return -EBADMSG;
	return response->range_len == len ||
			       response->range_at + response->range_len == response->range_total
		       ? 0
		       : -EBADMSG;
}
