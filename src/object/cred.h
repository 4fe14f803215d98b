/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_CRED_H
#define PENSTOCK_OBJECT_CRED_H

#include <stddef.h>
#include <stdint.h>

struct penstock_err;

/*
 * Where keys come from: environment, shared files and their profiles, credential_process, web
 * identity, container endpoint, instance metadata; the first that has any.  What is secret stands
 * in no message.
 */
struct object_cred {
	char *key_id;
	char *secret;
	char *token;         /* of a session; NULL: none */
	uint64_t expires_ns; /* wall clock, 0: never */
};

/* A plain request, for sources that are servers.  No retries, no signature. */
struct object_fetch {
	const char *method;         /* "GET", "PUT", "POST" */
	const char *url;            /* http:// or https:// */
	const char *const *headers; /* "Name: value", ended by NULL; NULL: none */
	const void *body;           /* of POST and PUT */
	size_t body_len;
	uint32_t timeout_ms; /* for all of it */
};

/* The answer to a fetch; @body ends with a 0 that is not counted, and is the caller's to free. */
struct object_fetched {
	unsigned status; /* of HTTP */
	char *body;
	size_t len;
};

/* 0 where there was an answer, whatever its status, or -errno. */
typedef int object_fetch_fn(void *ctx, const struct object_fetch *req, struct object_fetched *ret,
			    struct penstock_err *err);

struct object_cred_opts {
	const char *profile; /* NULL: what the environment says, then "default" */
	/*
	 * Value of a variable of the environment or NULL; getenv() in programs.  NULL: nothing is
	 * read from the environment.  Called by object_cred_open() only, in the caller's thread.
	 */
	char *(*env)(const char *name);
	object_fetch_fn *fetch;
	void *fetch_ctx;
	/* Keys that the caller has; nothing else is then looked at.  NULL: none. */
	const char *key_id, *secret, *token;
};

struct object_cred_source;

/*
 * Find out which source has keys.  0; -ENOENT where none has, with one line that says where was
 * looked; -EINVAL for one that is set and cannot be used, with its name.  Copies what it needs.
 */
int object_cred_open(struct object_cred_source **out, const struct object_cred_opts *opts,
		     struct penstock_err *err);

/*
 * A copy of the keys as they are now, asked for again when they are due to expire.  Any thread;
 * may block for as long as a source takes to answer.
 */
int object_cred_get(struct object_cred_source *s, struct object_cred *out,
		    struct penstock_err *err);

/* Name of the source in use, for reports: "environment", "profile x", ...  Never a key. */
const char *object_cred_name(const struct object_cred_source *s);

/* Overwrite and free what object_cred_get() gave. */
void object_cred_free(struct object_cred *c);
void object_cred_close(struct object_cred_source *s);

#endif
