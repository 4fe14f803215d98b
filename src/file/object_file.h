/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_OBJECT_FILE_H
#define PENSTOCK_FILE_OBJECT_FILE_H

/*
 * An object as a file.  It is read by ranges, in any order and all of them from one object, and
 * written from its beginning to its end: it is there when it was closed well, or not at all.
 *
 * Nothing here waits for the network but opening and closing.  Ranges are asked for by the
 * client's own thread; what is written goes to the upload by a thread of the file's, in order.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "object/client.h"

enum object_file_request {
	OBJECT_FILE_READ,
	OBJECT_FILE_WRITE,
	OBJECT_FILE_COMMIT, /* all that was written is the object now */
	OBJECT_FILE_ABORT,  /* nothing of it is */
};

struct penstock_object_file;

/* One block. */
struct penstock_object_file_req {
	struct penstock_object_file *file;
	enum object_file_request kind;
	uint64_t offset, len;
	/* Memory: from @skip on of the first of these. */
	const struct penstock_iov *iov;
	uint64_t skip;
	void (*done)(struct penstock_object_file_req
			     *r); /* in another thread, or before start returns */

	int64_t res; /* bytes or -errno, then with a line in @err; of a read fewer at the end only
		      */
	struct penstock_err err;

	struct object_req http;
	struct penstock_object_file_req *next;
};

struct penstock_object_file {
	struct penstock_s3 *c;
	char *uri;
	bool writes;
	atomic_bool stale; /* it is another object now, or none */

	/* Reading.  The transport's thread's, once there is a request. */
	char etag[PENSTOCK_S3_ETAG];
	uint64_t size;         /* UINT64_MAX: not known */
	uint64_t size_at_open; /* the size when it was opened; the same */

	/* Writing. */
	struct penstock_s3_upload *upload;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct penstock_object_file_req *first, **last; /* that wait for their turn */
	uint64_t announced, written; /* bytes that were announced; that were uploaded */
	atomic_bool failed;
	struct penstock_err err; /* the first */
	bool stop, upload_ended; /* the thread is to end; the upload has */
};

/*
 * @oflags as for open(2).  @lazy: what it is turns out with the first read, and need not be asked
 * for now.
 */
int penstock_object_file_open(struct penstock_object_file **out, struct penstock_s3 *c,
			      const char *uri, int oflags, bool lazy, struct penstock_err *err);
/* Make it the object (@commit) if it was written, and free it.  Nothing may be in flight. */
int penstock_object_file_close(struct penstock_object_file *f, bool commit,
			       struct penstock_err *err);
/* In a child of fork(): the memory only. */
void penstock_object_file_free_forked(struct penstock_object_file *f);

/* Ranges and parts are of this size. */
static inline uint64_t penstock_object_file_part_bytes(const struct penstock_object_file *f)
{
	return f->c->opts.part;
}

int64_t penstock_object_file_size(struct penstock_object_file *f);

/* [off, off + len) will be written; an announcement out of order is refused.  0 or -errno. */
int penstock_object_file_announce_write(struct penstock_object_file *f, uint64_t off, uint64_t len,
					struct penstock_err *err);
/* Bytes that were announced will not come: the object will not appear. */
void penstock_object_file_fail(struct penstock_object_file *f, int code, const char *why);

void penstock_object_file_submit(struct penstock_object_file_req *r);

#endif
