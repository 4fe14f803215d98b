/* SPDX-License-Identifier: Apache-2.0 */
#include "object/http_transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "dl/curl.h"
#include "object/http_headers.h"

enum { RECEIVE = 512 << 10, SEND = 2 << 20 };

const char *http_method_name(enum http_method m)
{
	static const char *const names[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};

	return names[m];
}

void http_transfer_clear(struct http_req *r)
{
	memset(&r->response, 0, sizeof(r->response));
	object_strbuf_clear(&r->text);
	object_strbuf_add(&r->text, "", 0); /* there is always one, if an empty one */
	r->got = r->sent = r->first_ns = 0;
	r->abort_code = r->curl = 0;
	r->checked = r->connected = false;
	r->why[0] = 0;
}

/* ------------------------------------------------------------------- callbacks */

static size_t receive_header(char *line, size_t one, size_t len, void *arg)
{
	struct http_req *r = arg;

	(void)one;
	/* libcurl's own figure is that of the first byte that is sent, where there is a body. */
	if (!r->first_ns)
		r->first_ns = clock_ns() - r->begun_ns;
	r->abort_code = http_headers_parse_line(&r->response, line, len);
	return r->abort_code ? 0 : len;
}

static bool is_content_wanted(const struct http_req *r)
{
	return (r->into || r->sink) && (r->response.status == 200 || r->response.status == 206);
}

static size_t receive_body(char *data, size_t one, size_t len, void *arg)
{
	struct http_req *r = arg;

	(void)one;
	if (!r->checked) {
		r->checked = true;
		r->abort_code = r->check ? r->check(r) : 0;
		if (r->abort_code)
			return 0;
	}
	if (is_content_wanted(r)) {
		if (len > r->into_len - r->got) {
			r->abort_code = -EBADMSG;
			return 0;
		}
		if (r->sink)
			r->sink(r, data, len);
		else
			memcpy(r->into + r->got, data, len);
		r->got += len;
		return len;
	}
	if (len > r->text_max - r->text.len) {
		r->abort_code = -EBADMSG;
		return 0;
	}
	object_strbuf_add(&r->text, data, len);
	r->abort_code = r->text.failed ? -ENOMEM : 0;
	return r->abort_code ? 0 : len;
}

static size_t read_body(char *to, size_t one, size_t size, void *arg)
{
	struct http_req *r = arg;
	size_t len = (size_t)min_u64(one * size, r->body_len - r->sent);

	memcpy(to, (const char *)r->body + r->sent, len);
	r->sent += len;
	return len;
}

/* libcurl sends it again where a connection that was kept turned out to be closed. */
static int rewind_body(void *arg, int64_t offset, int origin)
{
	struct http_req *r = arg;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > r->body_len)
		return 1;
	r->sent = (uint64_t)offset;
	return 0;
}

/* --------------------------------------------------------------------- options */

/* One of these only: taking another one back would change the method. */
static void set_method(const struct penstock_curl *curl, void *easy, struct http_req *r)
{
	switch (r->method) {
	case HTTP_HEAD:
		curl->easy_setopt(easy, CURLOPT_NOBODY, 1l);
		break;
	case HTTP_PUT:
	case HTTP_POST:
		curl->easy_setopt(easy, CURLOPT_UPLOAD, 1l);
		curl->easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (int64_t)r->body_len);
		curl->easy_setopt(easy, CURLOPT_READFUNCTION, read_body);
		curl->easy_setopt(easy, CURLOPT_READDATA, r);
		curl->easy_setopt(easy, CURLOPT_SEEKFUNCTION, rewind_body);
		curl->easy_setopt(easy, CURLOPT_SEEKDATA, r);
		curl->easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)SEND);
		break;
	default:
		curl->easy_setopt(easy, CURLOPT_HTTPGET, 1l);
	}
	if (r->method == HTTP_POST || r->method == HTTP_DELETE)
		curl->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, http_method_name(r->method));
}

static void set_limits(const struct penstock_curl *curl, void *easy, const struct http_req *r,
		       const struct http_transfer_opts *opts)
{
	curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
			  (long)min_u64(opts->connect_ms, r->timeout_ms));
	curl->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)max_u64(r->timeout_ms, 1));
	/* Not one byte in so many seconds; libcurl counts in whole ones. */
	curl->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1l);
	curl->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)((r->stall_ms + 999) / 1000));
}

void http_transfer_set(const struct penstock_curl *curl, void *easy, struct http_req *r,
		       const struct http_transfer_opts *opts)
{
	set_method(curl, easy, r);
	set_limits(curl, easy, r, opts);
	curl->easy_setopt(easy, CURLOPT_URL, r->url);
	curl->easy_setopt(easy, CURLOPT_HTTPHEADER, r->headers);
	curl->easy_setopt(easy, CURLOPT_PRIVATE, r);
	curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1l);
	curl->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1l);
	curl->easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1l);
	curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl->easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
	curl->easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, r->why);
	curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, receive_header);
	curl->easy_setopt(easy, CURLOPT_HEADERDATA, r);
	curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive_body);
	curl->easy_setopt(easy, CURLOPT_WRITEDATA, r);
	if (opts->ca_file)
		curl->easy_setopt(easy, CURLOPT_CAINFO, opts->ca_file);
	if (opts->no_proxy)
		curl->easy_setopt(easy, CURLOPT_PROXY, "");
}

bool http_header(struct http_req *r, const char *name, const char *value)
{
	const struct penstock_curl *curl = penstock_curl(NULL);
	struct object_strbuf line = {0};
	void *list = NULL;

	object_strbuf_printf(&line, "%s:%s%s", name, *value ? " " : "", value);
	if (!line.failed)
		list = curl->slist_append(r->headers, line.s);
	object_strbuf_fini(&line);
	if (list)
		r->headers = list;
	return list;
}

/* ----------------------------------------------------------------------- fetch */

static enum http_method find_method(const char *name)
{
	enum http_method m = HTTP_GET;

	while (m < HTTP_DELETE && strcmp(http_method_name(m), name) != 0)
		m++;
	return m;
}

static int fetch_headers(struct http_req *r, const char *const *headers)
{
	const struct penstock_curl *curl = penstock_curl(NULL);

	for (; headers && *headers; headers++) {
		void *list = curl->slist_append(r->headers, *headers);

		if (!list)
			return -ENOMEM;
		r->headers = list;
	}
	return 0;
}

/* The answer to @r, which is filled in, over a connection of its own. */
static int fetch_once(struct http_req *r, const struct http_opts *opts)
{
	const struct penstock_curl *curl = penstock_curl(NULL);
	const struct http_transfer_opts transfer = {
		.no_proxy = opts->no_proxy,
		.connect_ms = (uint32_t)r->timeout_ms,
	};
	void *easy = curl->easy_init();

	if (!easy)
		return -ENOMEM;
	http_transfer_set(curl, easy, r, &transfer);
	if (opts->ca_file)
		curl->easy_setopt(easy, CURLOPT_CAINFO, opts->ca_file);
	r->curl = curl->easy_perform(easy);
	curl->easy_cleanup(easy);
	if (r->abort_code)
		return r->abort_code;
	return r->curl == CURLE_OK ? 0 : r->curl == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT : -EIO;
}

int http_fetch(void *ctx, const struct object_fetch *req, struct object_fetched *ret,
	       struct penstock_err *err)
{
	enum { MOST = 1 << 20 };
	const struct penstock_curl *curl = penstock_curl(NULL);
	struct http_req r = {
		.method = find_method(req->method),
		.url = strdup(req->url),
		.body = req->body,
		.body_len = req->body_len,
		.timeout_ms = req->timeout_ms,
		.stall_ms = req->timeout_ms,
		.text_max = MOST,
	};
	int code = r.url ? fetch_headers(&r, req->headers) : -ENOMEM;

	object_strbuf_add(&r.text, "", 0);
	if (code == 0)
		code = fetch_once(&r, ctx);
	free(r.url);
	curl->slist_free(r.headers);
	if (code < 0) {
		object_strbuf_fini(&r.text);
		return penstock_fail(err, code, "%s: %s", req->url,
				     r.why[0] ? r.why : penstock_strerror(code));
	}
	ret->status = r.response.status;
	ret->body = r.text.s;
	ret->len = r.text.len;
	return 0;
}
