/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_STRBUF_H
#define PENSTOCK_OBJECT_STRBUF_H

/* A string that grows.  Without memory @failed is set and nothing more is added. */
#include <stdbool.h>
#include <stddef.h>

/* Zeroed is empty; @s may be NULL then. */
struct object_strbuf {
	char *s; /* ends with a 0 that is not counted */
	size_t len, capacity;
	bool failed;
};

void object_strbuf_add(struct object_strbuf *t, const void *bytes, size_t len);
void object_strbuf_put(struct object_strbuf *t, const char *text);
void object_strbuf_printf(struct object_strbuf *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Percent-encoded as S3 signs it: all but A-Za-z0-9-_.~, and slashes where they are @kept. */
void object_strbuf_add_encoded(struct object_strbuf *t, const char *text, bool slashes_kept);
/* With the five characters of XML as entities. */
void object_strbuf_add_xml(struct object_strbuf *t, const char *text);
/* Empty again, with its memory. */
void object_strbuf_clear(struct object_strbuf *t);
void object_strbuf_fini(struct object_strbuf *t);

#endif
