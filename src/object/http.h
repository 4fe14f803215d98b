/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_HTTP_H
#define PENSTOCK_OBJECT_HTTP_H

/*
 * The transport: requests of HTTP/1.1 over many connections, by libcurl.  One thread owns all of
 * it; what a request calls back runs there.  Knows nothing of objects.
 */
#include <penstock/s3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/cred.h"
#include "object/strbuf.h"

struct http;
struct penstock_err;

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_PUT, HTTP_POST, HTTP_DELETE };
const char *http_method_name(enum http_method m);

/* The status line and the headers of a response.  Of longer values the beginning. */
struct http_response {
	unsigned status; /* 0: there was none */
	bool has_length;
	uint64_t length; /* Content-Length */
	bool has_range;
	uint64_t range_at, range_len, range_total; /* Content-Range; total UINT64_MAX: "*" */
	char etag[PENSTOCK_S3_ETAG];
	char date[40], modified[40];
	char region[64];    /* x-amz-bucket-region */
	char location[512]; /* of a redirect; "" too where it is longer */
	char crc32c[24], crc64nvme[24];
	char server[64];
	unsigned retry_after_s;
	size_t bytes; /* of all header lines */
};

struct http_req {
	/* Set by the caller. */
	/* Before each attempt: fill in what follows.  What is not 0 ends the request with it. */
	int (*start)(struct http_req *r);
	/* After each attempt; the request is the caller's again, who may http_retry() it. */
	void (*end)(struct http_req *r);
	/* The headers are complete and a body begins; what is not 0 ends the attempt (@abort_code).
	 */
	int (*check)(struct http_req *r);

	/* Set by start(). */
	enum http_method method;
	char *url;           /* freed by the transport after the attempt */
	void *headers;       /* list of libcurl's, freed too */
	const void *body;    /* of PUT and POST */
	uint64_t body_len;   /* which is sent as Content-Length */
	unsigned char *into; /* body of 200 and 206; NULL: into @text */
	/* Instead of @into: takes the next bytes of it, @got being how many came before. */
	void (*sink)(struct http_req *r, const void *data, size_t len);
	uint64_t into_len;   /* more is an error (@abort_code) */
	uint64_t timeout_ms; /* for this attempt */
	uint64_t stall_ms;   /* without a byte */
	size_t text_max;     /* of @text */

	/* How the attempt ended. */
	int curl; /* CURLE_* */
	struct http_response response;
	uint64_t got, sent;        /* bytes of body in this attempt */
	struct object_strbuf text; /* body of other answers; kept until the next attempt */
	int abort_code;            /* -errno by which we ended it */
	bool checked;
	bool connected;    /* a new connection was made */
	uint64_t first_ns; /* from the beginning to the first line of the answer; 0: none */
	uint64_t last_ns;  /* to its end */
	char why[256];     /* of libcurl */

	/* The transport's. */
	uint64_t begun_ns;
	struct http_req *next;
};

struct http_opts {
	const char *ca_file;
	bool no_proxy;      /* not even that of the environment */
	unsigned in_flight; /* at most */
	uint32_t connect_ms;
};

int http_open(struct http **out, const struct http_opts *opts, struct penstock_err *err);
/* All requests must have ended. */
void http_close(struct http *h);

/* Any thread.  Queued; start() is called when there is room. */
void http_submit(struct http *h, struct http_req *r);
/* From end() only: once more, not before @delay_ns have passed. */
void http_retry(struct http *h, struct http_req *r, uint64_t delay_ns);
/* From end() only: how many may be in flight from now on. */
void http_set_limit(struct http *h, unsigned in_flight);

/* "Name: value" for @headers; false for want of memory. */
bool http_header(struct http_req *r, const char *name, const char *value);

/* object_fetch_fn with @ctx = struct http_opts: in the caller's thread, for sources of credentials.
 */
int http_fetch(void *ctx, const struct object_fetch *req, struct object_fetched *ret,
	       struct penstock_err *err);

#endif
