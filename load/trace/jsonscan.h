/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_JSONSCAN_H
#define PENSTOCK_TRACE_JSONSCAN_H

/*
 * JSON read piece by piece, from memory or as it comes out of a file: neither a document of many
 * gigabytes nor an emoji that was cut in half is a problem.  What is not asked for is skipped.
 *
 *	struct jscan j = {.at = text, .end = text + len};
 *	while (jscan_member(&j, &it, key, sizeof(key)) == 1) {
 *		if (!strcmp(key, "id")) jscan_string(&j, ...); else jscan_skip(&j);
 *
 * Functions return false, or -EINVAL, when the text is not JSON or ends too early; then @failed
 * is set and everything else returns the same.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/trace/source.h"

struct jscan {
	char *at, *end;
	struct source *source;    /* where more comes from; NULL: there is none */
	struct penstock_err *err; /* of the source */
	int error;                /* -errno of the source */
	bool failed;
};

/* Where the members of an object or the elements of an array are; begin with JSCAN_BEGIN. */
enum jscan_at { JSCAN_BEGIN, JSCAN_INSIDE };

/* The next byte that is not a blank, which stays; -1 at the end. */
int jscan_next(struct jscan *j);

/* 1: the name of a member is in @key (cut to fit), its value comes next; 0: the object is over. */
int jscan_member(struct jscan *j, enum jscan_at *it, char *key, size_t size);
/* 1: an element comes next; 0: the array is over. */
int jscan_element(struct jscan *j, enum jscan_at *it);

/*
 * A string: what fits of it in @out, 0-terminated, and the number of its characters as Python
 * counts them in *@ret_chars.  Either may be NULL.
 */
bool jscan_string(struct jscan *j, char *out, size_t size, uint64_t *ret_chars);
/* A number as it is written; at most JSCAN_NUMBER - 1 characters. */
#define JSCAN_NUMBER 40
bool jscan_number(struct jscan *j, char out[JSCAN_NUMBER]);
/* Any value. */
bool jscan_skip(struct jscan *j);

#endif
