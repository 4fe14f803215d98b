/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_STR_H
#define PENSTOCK_OBJECT_STR_H

/* A text that grows.  Want of memory is told at the end, once: @failed, and nothing more is added.
 */
#include <stdbool.h>
#include <stddef.h>

/* Zeroed is empty; @s may be NULL then. */
struct object_str {
	char *s; /* ends with a 0 that is not counted */
	size_t len, room;
	bool failed;
};

void object_str_add(struct object_str *t, const void *bytes, size_t len);
void object_str_put(struct object_str *t, const char *text);
void object_str_printf(struct object_str *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Percent-encoded as S3 signs it: all but A-Za-z0-9-_.~, and slashes where they are @kept. */
void object_str_encode(struct object_str *t, const char *text, bool slashes_kept);
/* With the five characters of XML as entities. */
void object_str_xml(struct object_str *t, const char *text);
/* Empty again, with its memory. */
void object_str_clear(struct object_str *t);
void object_str_fini(struct object_str *t);

#endif
