/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_JSON_H
#define PENSTOCK_BASE_JSON_H

/*
 * JSON, read in one pass over the text itself: strings are decoded where they stand, which never
 * makes them longer.  Functions return 0, or -EINVAL with a message; then nothing more is read.
 */
#include <stdint.h>

struct penstock_err;

struct penstock_json {
	char *text, *p, *end; /* begin with @p at @text */
	const char *what;     /* for messages */
	struct penstock_err *err;
};

int penstock_json_fail(const struct penstock_json *j, const char *why);
/* The next character that is no space, or -1. */
int penstock_json_peek(struct penstock_json *j);
int penstock_json_expect(struct penstock_json *j, char c);
/* After an element: 1 when there is one more, 0 at @close. */
int penstock_json_more(struct penstock_json *j, char close);
/* A string, decoded in place and ended by a NUL. */
int penstock_json_string(struct penstock_json *j, char **ret);
/* A whole number, not negative. */
int penstock_json_u64(struct penstock_json *j, uint64_t *ret);
/* Any value. */
int penstock_json_skip(struct penstock_json *j);
/* The members of an object: @member is called behind each "KEY":, with the key. */
int penstock_json_object(struct penstock_json *j,
			 int (*member)(struct penstock_json *j, char *key, void *arg), void *arg);

#endif
