/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_REMOTE_H
#define PENSTOCK_FILE_REMOTE_H

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

enum remote_what {
	REMOTE_READ,
	REMOTE_WRITE,
	REMOTE_COMMIT, /* all that was written is the object now */
	REMOTE_ABORT,  /* nothing of it is */
};

struct penstock_remote;

/* One block. */
struct penstock_remote_req {
	struct penstock_remote *of;
	enum remote_what what;
	uint64_t at, len;
	/* Memory: from @skip on of the first of these. */
	const struct penstock_iov *iov;
	uint64_t skip;
	void (*done)(
		struct penstock_remote_req *r); /* in another thread, or before start returns */

	int64_t res; /* bytes or -errno, then with a line in @err; of a read fewer at the end only
		      */
	struct penstock_err err;

	struct object_req http;
	struct penstock_remote_req *next;
};

struct penstock_remote {
	struct penstock_s3 *c;
	char *uri;
	bool writes;
	atomic_bool stale; /* it is another object now, or none */

	/* Reading.  The transport's thread's, once there is a request. */
	char etag[PENSTOCK_S3_ETAG];
	uint64_t total;  /* UINT64_MAX: not known */
	uint64_t opened; /* what it was at open; the same */

	/* Writing. */
	struct penstock_s3_upload *upload;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct penstock_remote_req *first, **last; /* that wait for their turn */
	uint64_t claimed, written;                 /* bytes that were promised, that went */
	atomic_bool failed;
	struct penstock_err err; /* the first */
	bool stop, ended;        /* the thread is to end; the upload has */
};

/*
 * @oflags as for open(2).  @lazy: what it is turns out with the first read, and need not be asked
 * for now.
 */
int penstock_remote_open(struct penstock_remote **out, struct penstock_s3 *c, const char *uri,
			 int oflags, bool lazy, struct penstock_err *err);
/* Make it the object (@commit) if it was written, and free it.  Nothing may be in flight. */
int penstock_remote_close(struct penstock_remote *f, bool commit, struct penstock_err *err);
/* In a child of fork(): the memory only. */
void penstock_remote_abandon(struct penstock_remote *f);

/* Ranges and parts are of this size. */
static inline uint64_t penstock_remote_part(const struct penstock_remote *f)
{
	return f->c->opts.part;
}

int64_t penstock_remote_size(struct penstock_remote *f);

/* [off, off + len) is going to be written; what was not promised in order is refused. */
int penstock_remote_claim(struct penstock_remote *f, uint64_t off, uint64_t len,
			  struct penstock_err *err);
/* Something that was promised will not come: neither will the object. */
void penstock_remote_fail(struct penstock_remote *f, int code, const char *why);

void penstock_remote_start(struct penstock_remote_req *r);

#endif
