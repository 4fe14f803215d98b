/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from the side of those who make them; attempt.c is the other side. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "object/client.h"

int object_req_init(struct object_req *r, struct penstock_s3 *c, enum http_method method,
		    const char *what, const char *uri, bool need_key, struct penstock_err *err)
{
	memset(r, 0, sizeof(*r));
	r->c = c;
	r->what = what;
	r->endpoint = -1;
	r->http.method = method;
	r->http.start = object_attempt_start;
	r->http.check = object_attempt_check;
	r->http.end = object_attempt_end;
	return object_name_parse(&r->name, uri, need_key, err);
}

void object_req_header(struct object_req *r, const char *name, const char *value)
{
	if (r->nr_headers < ARRAY_SIZE(r->headers))
		r->headers[r->nr_headers++] = (struct object_header){name, value};
}

void object_req_fini(struct object_req *r)
{
	object_name_free(&r->name);
	object_url_free(&r->redirect_url);
	object_strbuf_fini(&r->http.text);
	free(r->query);
}

void object_req_start(struct object_req *r)
{
	struct penstock_s3 *c = r->c;
	int code = 0;

	if (r->must_not_wait)
		object_client_refresh_keys_async(c);
	else
		code = object_client_refresh_keys(c, &r->err);
	pthread_mutex_lock(&c->lock);
	c->stats.requests++;
	c->stats.failed += code < 0;
	pthread_mutex_unlock(&c->lock);
	if (code < 0) {
		r->code = code;
		r->done(r);
		return;
	}
	if (c->opts.flags & PENSTOCK_S3_SIGN_BODY && r->http.body_len)
		object_sha256_hex(r->payload, r->http.body, r->http.body_len);
	http_submit(c->http, &r->http);
}

struct completion {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
};

static void signal_completion(struct object_req *r)
{
	struct completion *w = r->arg;

	pthread_mutex_lock(&w->lock);
	w->done = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

int object_req_run(struct object_req *r, struct penstock_err *err)
{
	struct completion w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

	r->done = signal_completion;
	r->arg = &w;
	object_req_start(r);
	pthread_mutex_lock(&w.lock);
	while (!w.done)
		pthread_cond_wait(&w.cond, &w.lock);
	pthread_mutex_unlock(&w.lock);
	pthread_cond_destroy(&w.cond);
	pthread_mutex_destroy(&w.lock);
	return r->code < 0 ? penstock_fail(err, r->code, "%s", r->err.msg) : 0;
}
