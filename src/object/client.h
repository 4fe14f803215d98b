/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_CLIENT_H
#define PENSTOCK_OBJECT_CLIENT_H

/*
 * A client and its requests.  An object_req is one request to the store with all its attempts; what
 * it is about is set once, then it belongs to the transport's thread until done().
 */
#include <penstock/s3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/random.h"
#include "base/util.h"
#include "object/cred.h"
#include "object/endpoint.h"
#include "object/http.h"
#include "object/latency.h"
#include "object/response_doc.h"
#include "object/retry.h"
#include "object/sign.h"
#include "object/strbuf.h"
#include "object/uri.h"

enum {
	OBJECT_TEXT_MAX = 16 << 20, /* of a document, at most */
	OBJECT_PARTS = 10000,       /* of an upload */
};
#define OBJECT_PART_MIN (5ull << 20)
#define OBJECT_PART_MAX (1ull << 30)
#define OBJECT_PUT_MAX  (5ull << 30)

/* A bucket of another region. */
struct object_region {
	char *bucket;
	char region[64];
};

struct penstock_s3 {
	struct http *http;
	struct http_opts http_opts;
	struct object_cred_source *source; /* NULL: nothing is signed */
	struct penstock_s3_opts opts;      /* with what was left open filled in; strings NULL */
	char *ca_file;
	char region[64];
	bool aws; /* no endpoint was given */
	bool virtual_host;

	pthread_mutex_t lock; /* of all below */
	struct object_cred cred;
	pthread_t refresher;    /* asks for new keys, */
	bool refreshing;        /* the thread is at work */
	bool refresher_started; /* it has to be joined */
	struct object_endpoints endpoints;
	struct object_sign_key sign_key;
	struct object_region *regions;
	unsigned nr_regions;
	struct penstock_random random;
	int64_t skew_s;
	uint32_t limit;            /* requests in flight */
	uint32_t limit_successes;  /* since @limit was changed */
	uint64_t limit_lowered_ns; /* when */
	struct penstock_s3_stats stats;
	struct object_latency latencies[OBJECT_LATENCIES];
};

struct object_req {
	struct http_req http; /* first: the transport hands this back */
	struct penstock_s3 *c;

	/* What is asked for. */
	const char *what; /* in messages: "read" */
	struct object_name name;
	char *query; /* encoded; NULL: none */
	struct object_header headers[8];
	unsigned nr_headers;
	char payload[OBJECT_HASH_HEX]; /* of the body; "": not signed */
	bool ranged;
	bool try_unranged; /* ask without a range first: only such answers have a checksum */
	uint64_t at, len;  /* of the range; into http.into */
	char etag[PENSTOCK_S3_ETAG]; /* must be this one; "": any */
	bool is_new, conditional;
	bool slow;          /* the store may think for long before it answers */
	bool must_not_wait; /* the caller must not wait, not even for new keys */
	/* In the transport's thread, before each attempt; may set @etag.  NULL: nothing to do. */
	void (*prepare)(struct object_req *r);
	void (*done)(struct object_req *r);
	void *arg;

	/* Where it is. */
	unsigned attempts, attempts_without_progress, redirects;
	bool clock_corrected; /* once: skew_s was wrong */
	bool maybe_applied;   /* an attempt whose answer was lost may have succeeded */
	uint64_t start_ns;
	unsigned char *into; /* beginning of the range */
	uint64_t have;       /* bytes of it */
	uint64_t total;      /* of the whole object, and its checksum, where an answer told it */
	char crc32c[24];
	int endpoint; /* of the last attempt, -1: none of ours */
	bool avoid;   /* it failed */
	bool counted; /* as in flight there */
	/* What it was signed with: that of the client may have been put right since. */
	int64_t skew_s;
	char region[64];
	struct object_url redirect_url;

	/* How it ended. */
	int code; /* 0 or -errno */
	struct object_error error;
	struct penstock_err err;
};

/* ------------------------------------------------------------------- requests */

/* For @uri; @need_key: with a key. */
int object_req_init(struct object_req *r, struct penstock_s3 *c, enum http_method method,
		    const char *what, const char *uri, bool need_key, struct penstock_err *err);
void object_req_header(struct object_req *r, const char *name, const char *value);
void object_req_fini(struct object_req *r);

/* Begin; done() is called in the transport's thread, at the earliest before this returns. */
void object_req_start(struct object_req *r);
/* Begin, and wait for the end.  Returns its code, with @err filled. */
int object_req_run(struct object_req *r, struct penstock_err *err);

/* One attempt (attempt.c, attempt_end.c): what the transport calls. */
int object_attempt_start(struct http_req *h);
/* Signed and ready to be sent, to @endpoint.  0 or -ENOMEM; under the lock. */
int object_attempt_sign_and_build(struct object_req *r);
int object_attempt_check(struct http_req *h);
void object_attempt_end(struct http_req *h);

/* ---------------------------------------------------------------------- client */

/* Fill in what the caller left open, by the environment where that is allowed.  0 or -errno. */
struct object_settings {
	struct penstock_s3_opts o;
	char *endpoint, *ca_file;
	char region[64];
};
int object_settings_load(struct object_settings *s, const struct penstock_s3_opts *user,
			 struct penstock_err *err);
void object_settings_free(struct object_settings *s);
/* Copy what of a struct that we know fits into the caller's, which begins with its size. */
int object_struct_copy_out(void *user, const void *ours, uint32_t size);

/* Keys for the next attempts, asked for again where they are due; in the caller's thread. */
int object_client_refresh_keys(struct penstock_s3 *c, struct penstock_err *err);
/* The same by a thread of its own: until it has them the old ones must do. */
void object_client_refresh_keys_async(struct penstock_s3 *c);
/* Of a bucket, as far as is known; under the lock. */
const char *object_client_region(const struct penstock_s3 *c, const char *bucket);

/* ------------------------------------------------------------------- checksums */

/*
 * Header and value of the checksum of @len bytes, as the client's options want; false: none.  @name
 * is the algorithm's for reports.
 */
struct object_checksum {
	const char *header; /* "x-amz-checksum-crc32c" */
	const char *algorithm;
	const char *element; /* of CompleteMultipartUpload */
	char value[24];
};
bool object_checksum_compute(struct object_checksum *s, const struct penstock_s3 *c,
			     const void *buf, uint64_t len);
/* The names only, without a value. */
bool object_checksum_names(struct object_checksum *s, const struct penstock_s3 *c);
const char *object_checksum_name(const struct penstock_s3 *c);
/* Base64 of a CRC, as S3 writes it. */
void object_checksum_base64(char out[24], uint64_t crc, unsigned bytes);
/* The value of Content-MD5; false where there is none to be had. */
enum { OBJECT_MD5 = 25 };
bool object_md5(char out[OBJECT_MD5], const void *buf, size_t len);
uint64_t object_crc64nvme(uint64_t crc, const void *buf, uint64_t len);

/* penstock_s3_put() with a Content-Type, NULL: none. */
int object_put(struct penstock_s3 *c, const char *uri, const void *buf, uint64_t len,
	       uint32_t flags, const char *etag, const char *content_type,
	       struct penstock_s3_info *info, struct penstock_err *err);

/* What a write came to. */
void object_info_fill(struct penstock_s3_info *user, const struct object_req *r, uint64_t bytes,
		      const struct object_checksum *checksum);

#endif
