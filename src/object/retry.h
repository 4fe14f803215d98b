/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_RETRY_H
#define PENSTOCK_OBJECT_RETRY_H

/* What follows from how an attempt ended; no state, no I/O. */
#include <stdbool.h>
#include <stdint.h>

struct penstock_random;

enum object_verdict {
	OBJECT_DONE,
	OBJECT_FAIL,          /* and would again */
	OBJECT_RETRY,         /* it may pass */
	OBJECT_RETRY_SLOWER,  /* the same, and the server has too much to do */
	OBJECT_CORRECT_CLOCK, /* sign again by the server's clock */
	OBJECT_REDIRECT,      /* elsewhere, or for another region */
};

struct object_outcome {
	int curl;          /* CURLE_* */
	int abort_code;    /* -errno by which we ended it, or 0 */
	unsigned status;   /* of HTTP, 0: none */
	const char *code;  /* of the document of an error; "": none */
	bool conditional;  /* If-Match or If-None-Match was sent with a write */
	bool other_region; /* the answer names another region than ours */
	int64_t skew_s;    /* the server's clock less ours; 0: not told */
};

enum object_verdict object_classify_outcome(const struct object_outcome *o);

/* Did the endpoint itself fail, so that others should be asked meanwhile? */
bool object_is_endpoint_fault(const struct object_outcome *o);

/* -errno for what failed. */
int object_outcome_errno(const struct object_outcome *o);

/*
 * How long to wait after @failures in a row that gained nothing: drawn from all of a window that
 * doubles, so that those who failed together do not come back together.
 */
uint64_t object_backoff_ns(struct penstock_random *random, unsigned failures);

#endif
