/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_S3_H
#define PENSTOCK_S3_H

#include <penstock/penstock.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Objects of S3 stores: s3://BUCKET/KEY.
 *
 *	penstock_s3_open -> penstock_s3_stat / _read / _put / _list / ... -> _close
 *	                    penstock_s3_upload_open -> _write ... -> _commit or _abort
 *
 * A KEY is what stands behind the first slash after the bucket, byte for byte: nothing in it is
 * an escape.  libcurl and libcrypto are loaded when a client is opened; where they are missing,
 * that fails with -ENOTSUP and the rest of the library does not care.
 *
 * Never a mixture.  A read is cut into ranges that are in flight together.  All of them must come
 * from the same object: If-Match is sent as soon as its ETag is known, and the ETag of every answer
 * is compared, so that an object that is replaced meanwhile is an error (-ESTALE).  Status, length
 * and Content-Range of every answer are checked.
 *
 * Never half there.  What is put or uploaded is visible when the call that ends it has returned,
 * or not at all.
 *
 * Failures.  What may pass is tried again, after a pause that is drawn from a window that doubles:
 * broken connections, timeouts, 408, 429, 500, 502, 503, 504, SlowDown, RequestTimeout, and 409 of
 * a conditional write; at another endpoint where there is one.  A clock that is off is put right by
 * the server's, 301 and 307 are followed with a new signature.  All else fails at once.  Each such
 * try is counted (struct penstock_s3_stats).  When a server says SlowDown, fewer requests are
 * in flight.
 *
 * Secrets stand in no message and no statistic.
 *
 * Threads.  A client serves any number of threads; it has one of its own, which does the transfers.
 * An upload or a list is used by one thread at a time.  A client does not survive fork().
 *
 * Errors, versions and structs with @size first: as in penstock.h.  What the server said is
 *   -ENOENT	NoSuchKey, NoSuchBucket, NoSuchUpload, 404
 *   -EACCES	401 and 403, be it for want of rights or for wrong keys
 *   -EEXIST	it must not be there and is (PENSTOCK_S3_NEW)
 *   -ESTALE	it is not the one with that ETag
 *   -EINVAL	another 4xx
 *   -ENOTSUP	501
 *   -EBADMSG	an answer that contradicts itself, or content that does not have its checksum
 *   -EIO	5xx to the end; -ETIMEDOUT, -ECONNREFUSED, -ECONNRESET, -EHOSTUNREACH, -EPROTO (TLS)
 */
struct penstock_s3; /* a client */

enum penstock_s3_style {
	PENSTOCK_S3_STYLE_AUTO = 0, /* path where there is an endpoint, else virtual */
	PENSTOCK_S3_STYLE_PATH = 1,
	PENSTOCK_S3_STYLE_VIRTUAL = 2, /* BUCKET.HOST */
};

enum penstock_s3_balance {
	PENSTOCK_S3_ROUND_ROBIN = 0,
	PENSTOCK_S3_LEAST = 1, /* requests in flight */
	PENSTOCK_S3_RANDOM = 2,
	PENSTOCK_S3_RANK = 3, /* endpoint rank % n; another only while it is down */
};

enum penstock_s3_checksum {
	PENSTOCK_S3_CHECKSUM_AUTO = 0, /* CRC-32C */
	PENSTOCK_S3_CHECKSUM_CRC32C = 1,
	PENSTOCK_S3_CHECKSUM_CRC64NVME = 2,
	PENSTOCK_S3_CHECKSUM_NONE = 3,
};

/* Bits of struct penstock_s3_opts.flags. */
#define PENSTOCK_S3_ANONYMOUS 0x1u /* sign nothing; no credentials are looked for */
#define PENSTOCK_S3_SIGN_BODY 0x2u /* SHA-256 of what is sent (default: UNSIGNED-PAYLOAD) */

/*
 * Options of penstock_s3_open().  Start from PENSTOCK_S3_OPTS_INIT; zero means "default".
 * Strings are copied.
 */
struct penstock_s3_opts {
	uint32_t size;  /* set by PENSTOCK_S3_OPTS_INIT */
	uint32_t flags; /* PENSTOCK_S3_* */
	/*
	 * "http://host:9000": one, or several behind commas, which all have the same objects;
	 * {1...8} in one stands for eight of them.  "@FILE": one on each line, # comments.  At most
	 * 1024.  NULL: AWS, by region.
	 */
	const char *endpoint;
	const char *region;  /* (us-east-1) */
	const char *profile; /* of the shared files */
	const char *key_id;  /* keys; NULL: the chain of sources */
	const char *secret;
	const char *token;
	const char *ca_file; /* certificates to trust instead of the system's */
	/*
	 * getenv(), or a function like it.  What is not set above is then taken from AWS_* and S3_*
	 * (docs/objects.md has the list), keys from all sources, and proxies are those of the
	 * environment.  NULL: nothing is read from the environment.  Called by open only.
	 */
	char *(*env)(const char *name);
	uint32_t style;       /* enum penstock_s3_style */
	uint32_t balance;     /* enum penstock_s3_balance */
	uint32_t rank;        /* of this process, for PENSTOCK_S3_RANK */
	uint32_t checksum;    /* enum penstock_s3_checksum, of what is sent */
	uint32_t connections; /* requests in flight, 1..1024 (64) */
	uint32_t attempts;    /* of one request, 1..100 (10) */
	uint32_t timeout_ms;  /* for one request with all its attempts (600,000) */
	uint32_t stall_ms; /* without a byte moved, after which an attempt is given up (15,000) */
	uint64_t part;     /* ranges and parts, 5 MiB..1 GiB (8 MiB) */
};
/* clang-format off */
#define PENSTOCK_S3_OPTS_INIT {sizeof(struct penstock_s3_opts), 0, NULL, NULL, NULL, NULL, NULL, \
				 NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/*
 * Open a client.  Nothing is sent but what a source of credentials needs.  Returns 0, or
 *   -EINVAL	a field is out of range or not to be understood; the message names it
 *   -E2BIG	@opts sets a field this library does not know
 *   -ENOTSUP	libcurl or libcrypto cannot be loaded
 *   -ENOENT	no credentials were found
 */
PENSTOCK_API int penstock_s3_open(struct penstock_s3 **out, const struct penstock_s3_opts *opts,
				  struct penstock_err *err);

/* Wait for what is in flight, close the connections, free.  NULL is allowed. */
PENSTOCK_API void penstock_s3_close(struct penstock_s3 *c);

/*
 * Is @name a URI of an object store and not a path?  1: s3://, well formed or not.  0: a path.
 * -ENOTSUP: a store that this library cannot talk to (az://, gs://), with one line in @err.
 * Schemes may be in capitals.
 */
PENSTOCK_API int penstock_s3_is_uri(const char *name, struct penstock_err *err);

/* ------------------------------------------------------------------ one object */

#define PENSTOCK_S3_ETAG 128

struct penstock_s3_info {
	uint32_t size; /* sizeof(struct penstock_s3_info), set by the caller */
	uint32_t reserved;
	uint64_t bytes;
	int64_t mtime;               /* seconds since 1970; 0: not told */
	char etag[PENSTOCK_S3_ETAG]; /* with its quotes, as the server has it; "": none */
	char checksum[64];           /* "crc32c:..." as sent and acknowledged; "": none */
};

PENSTOCK_API int penstock_s3_stat(struct penstock_s3 *c, const char *uri,
				  struct penstock_s3_info *info, struct penstock_err *err);

/*
 * Read up to @len bytes at @offset into @buf, in ranges of opts.part.  Returns the number of bytes,
 * fewer than @len only at the end of the object.  @etag: -ESTALE where it is another one; NULL: the
 * one that is there, but one.  Stores tell the checksum of an object that is asked for whole, not
 * of ranges: it is compared where @etag is given, @offset is 0 and @len is at most opts.part.
 */
PENSTOCK_API int64_t penstock_s3_read(struct penstock_s3 *c, const char *uri, void *buf,
				      uint64_t len, uint64_t offset, const char *etag,
				      struct penstock_err *err);

/* One of many reads. */
struct penstock_s3_range {
	const char *uri;
	void *buf;
	uint64_t len, offset;
	const char *etag;           /* NULL: any, but one */
	int64_t res;                /* bytes or -errno, set by the call */
	char got[PENSTOCK_S3_ETAG]; /* ETag of what was read, set by the call */
};

/*
 * All of @reads, in flight together as far as opts.connections allow.  Returns 0, or the first
 * error in the order of @reads; each says in @res how it went.
 */
PENSTOCK_API int penstock_s3_fetch(struct penstock_s3 *c, struct penstock_s3_range *reads,
				   uint64_t n, struct penstock_err *err);

/* Bits of the flags of penstock_s3_put() and of an upload. */
#define PENSTOCK_S3_NEW 0x1u /* If-None-Match: it must not be there */

/*
 * Put @len bytes as one object with one request, at most 5 GiB.  @flags: PENSTOCK_S3_NEW;
 * @etag: only in place of this one (If-Match), or NULL.  @info may be NULL; of it bytes, etag and
 * checksum are set.
 */
PENSTOCK_API int penstock_s3_put(struct penstock_s3 *c, const char *uri, const void *buf,
				 uint64_t len, uint32_t flags, const char *etag,
				 struct penstock_s3_info *info, struct penstock_err *err);

/*
 * Copy within the store, by the store, at most 5 GiB (-EFBIG).  @info, of the copy, may be NULL.
 */
PENSTOCK_API int penstock_s3_copy(struct penstock_s3 *c, const char *from, const char *to,
				  struct penstock_s3_info *info, struct penstock_err *err);

/*
 * Delete, 1000 of a bucket with a request; what is not there counts as deleted.  Returns 0 or the
 * first error, of which the message names the object; the others are deleted all the same.
 */
PENSTOCK_API int penstock_s3_delete(struct penstock_s3 *c, const char *const *uris, uint64_t n,
				    struct penstock_err *err);

/* --------------------------------------------------------------------- uploads */

struct penstock_s3_upload; /* an object that is being written */

struct penstock_s3_upload_opts {
	uint32_t size;      /* set by PENSTOCK_S3_UPLOAD_OPTS_INIT */
	uint32_t flags;     /* PENSTOCK_S3_NEW: the commit fails with -EEXIST where it is there;
			       of stores that know no such commits, seen right before it only */
	uint32_t in_flight; /* parts, 1..64 (4), and memory of as many: one is filled while the
			       others are sent, and sent too where the caller waits */
	uint32_t reserved;
	uint64_t part;     /* 5 MiB..1 GiB (opts.part of the client) */
	uint64_t expected; /* bytes, if known: parts become larger where 10,000 would not do */
	const char *content_type;
	const char *etag; /* only in place of this one; NULL: any */
};
/* clang-format off */
#define PENSTOCK_S3_UPLOAD_OPTS_INIT {sizeof(struct penstock_s3_upload_opts), 0, 0, 0, 0, 0, NULL, NULL}
/* clang-format on */

/*
 * Begin an object.  Its parts are sent while it is written; it is visible by
 * penstock_s3_upload_commit() only, and what fits into one part is put with one request there.  A
 * process that is killed leaves parts in the store that nobody sees and that cost money: see
 * PENSTOCK_S3_LIST_UPLOADS.
 */
PENSTOCK_API int penstock_s3_upload_open(struct penstock_s3_upload **out, struct penstock_s3 *c,
					 const char *uri,
					 const struct penstock_s3_upload_opts *opts,
					 struct penstock_err *err);
/* As penstock_writer_write(): copied, waits where all parts are in flight, the first error stays.
 */
PENSTOCK_API int penstock_s3_upload_write(struct penstock_s3_upload *u, const void *buf,
					  uint64_t len, struct penstock_err *err);
/* Make it the object.  Ends the upload in every case; after an error nothing of it is left. */
PENSTOCK_API int penstock_s3_upload_commit(struct penstock_s3_upload *u,
					   struct penstock_s3_info *info, struct penstock_err *err);
/* As if nothing had been written.  NULL is allowed. */
PENSTOCK_API void penstock_s3_upload_abort(struct penstock_s3_upload *u);

/* Remove an upload that somebody left: its key and @id as a list tells them. */
PENSTOCK_API int penstock_s3_upload_discard(struct penstock_s3 *c, const char *uri, const char *id,
					    struct penstock_err *err);

/* ----------------------------------------------------------------------- lists */

struct penstock_s3_list;

/* Bits of the flags of penstock_s3_list_open(). */
#define PENSTOCK_S3_LIST_FLAT    0x1u /* all below the prefix; default: up to the next slash */
#define PENSTOCK_S3_LIST_UPLOADS 0x2u /* uploads that were begun and not ended */

struct penstock_s3_entry {
	uint32_t size;      /* sizeof(struct penstock_s3_entry), set by the caller */
	uint32_t is_prefix; /* a "folder": @key ends with a slash, nothing else is known */
	const char *key;    /* without the bucket; valid until the next call */
	const char *etag;
	const char *upload_id; /* of PENSTOCK_S3_LIST_UPLOADS, else NULL */
	uint64_t bytes;
	int64_t mtime; /* seconds since 1970; of an upload: when it was begun */
};

/* @uri: s3://BUCKET/PREFIX, where PREFIX may be empty. */
PENSTOCK_API int penstock_s3_list_open(struct penstock_s3_list **out, struct penstock_s3 *c,
				       const char *uri, uint32_t flags, struct penstock_err *err);
/* The next in the server's order; pages are asked for as needed.  1, or 0 at the end. */
PENSTOCK_API int penstock_s3_list_next(struct penstock_s3_list *l, struct penstock_s3_entry *entry,
				       struct penstock_err *err);
PENSTOCK_API void penstock_s3_list_close(struct penstock_s3_list *l);

/* ------------------------------------------------------------------- statistics */

struct penstock_s3_stats {
	uint32_t size; /* sizeof(struct penstock_s3_stats), set by the caller */
	uint32_t nr_endpoints;
	uint64_t requests;  /* that were asked for */
	uint64_t failed;    /* of them, in the end */
	uint64_t attempts;  /* that were sent for them */
	uint64_t retries;   /* attempts after the first, for any reason */
	uint64_t throttled; /* answers 429 and 503 */
	uint64_t timeouts;
	uint64_t broken; /* connections that failed or broke */
	uint64_t redirects;
	uint64_t bytes_read, bytes_written; /* content, as moved: with what was moved again */
	uint64_t connects;                  /* connections made */
	uint32_t limit;                     /* requests in flight that are allowed now */
	uint32_t reserved;
	int64_t skew_ms;         /* the server's clock less ours, where that was put right */
	uint64_t checked;        /* bytes whose checksum was compared with the server's */
	const char *region;      /* valid as long as the client */
	const char *style;       /* "path", "virtual" */
	const char *checksum;    /* "crc32c", "crc64nvme", "none" */
	const char *payload;     /* "signed", "unsigned" */
	const char *credentials; /* name of the source, never a key */
	uint64_t answers;        /* attempts that were answered, */
	uint64_t
		first_byte_ns; /* the time of all of these from their beginning to the first byte */
	uint64_t first_byte_max_ns;
	uint64_t absent; /* requests that asked whether something is there, and it was not */
};
PENSTOCK_API int penstock_s3_get_stats(struct penstock_s3 *c, struct penstock_s3_stats *stats);

struct penstock_s3_endpoint {
	uint32_t size; /* sizeof(struct penstock_s3_endpoint), set by the caller */
	uint32_t up;
	const char *url; /* valid as long as the client */
	uint64_t attempts, failed;
	uint64_t bytes_read, bytes_written;
	uint64_t downs; /* how often it was left out */
	uint32_t in_flight;
	uint32_t reserved;
};
/* -ENOENT past the last. */
PENSTOCK_API int penstock_s3_get_endpoint(struct penstock_s3 *c, uint32_t i,
					  struct penstock_s3_endpoint *e);

/* ------------------------------------------------------------------------ a check */

enum penstock_s3_check_item {
	PENSTOCK_S3_REACH = 0,    /* every endpoint answers */
	PENSTOCK_S3_REGION = 1,   /* region and style are the bucket's */
	PENSTOCK_S3_CLOCK = 2,    /* ours and the server's */
	PENSTOCK_S3_RIGHTS = 3,   /* list, and with PENSTOCK_S3_CHECK_WRITE put, read, delete */
	PENSTOCK_S3_FEATURES = 4, /* conditional writes, checksums, multipart */
	PENSTOCK_S3_CHECK_ITEMS = 5,
};

#define PENSTOCK_S3_CHECK_WRITE 0x1u /* put an object below the prefix, and delete it */

struct penstock_s3_report {
	uint32_t size; /* sizeof(struct penstock_s3_report), set by the caller */
	uint32_t reserved;
	struct {
		int code; /* 0: good; 1: not looked at; or -errno */
		char text[252];
	} item[PENSTOCK_S3_CHECK_ITEMS];
};

/*
 * Look at five things before a long run: s3://BUCKET or s3://BUCKET/PREFIX.  Returns 0 where all
 * that was looked at is good, else the first error; @report has a line for each.
 */
PENSTOCK_API int penstock_s3_check(struct penstock_s3 *c, const char *uri, uint32_t flags,
				   struct penstock_s3_report *report, struct penstock_err *err);

#ifdef __cplusplus
}
#endif
#endif
