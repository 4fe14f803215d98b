/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_BASE_JSON_H
#define SLUICE_BASE_JSON_H

/*
 * JSON, read in one pass over the text itself: strings are decoded where they stand, which never
 * makes them longer.  Functions return 0, or -EINVAL with a message; then nothing more is read.
 */
#include <stdint.h>

struct sluice_err;

struct sluice_json {
	char *text, *p, *end; /* begin with @p at @text */
	const char *what;     /* for messages */
	struct sluice_err *err;
};

int sluice_json_fail(const struct sluice_json *j, const char *why);
/* The next character that is no space, or -1. */
int sluice_json_peek(struct sluice_json *j);
int sluice_json_expect(struct sluice_json *j, char c);
/* After an element: 1 when there is one more, 0 at @close. */
int sluice_json_more(struct sluice_json *j, char close);
/* A string, decoded in place and ended by a NUL. */
int sluice_json_string(struct sluice_json *j, char **ret);
/* A whole number, not negative. */
int sluice_json_u64(struct sluice_json *j, uint64_t *ret);
/* Any value. */
int sluice_json_skip(struct sluice_json *j);
/* The members of an object: @member is called behind each "KEY":, with the key. */
int sluice_json_object(struct sluice_json *j,
		       int (*member)(struct sluice_json *j, char *key, void *arg), void *arg);

#endif
