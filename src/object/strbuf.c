/* SPDX-License-Identifier: Apache-2.0 */
#include "object/strbuf.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

void object_strbuf_add(struct object_strbuf *t, const void *bytes, size_t len)
{
	if (t->failed || ARRAY_RESERVE(t->s, t->capacity, t->len + len + 1) < 0) {
		t->failed = true;
		return;
	}
	memcpy(t->s + t->len, bytes, len);
	t->len += len;
	t->s[t->len] = 0;
}

void object_strbuf_put(struct object_strbuf *t, const char *text)
{
	object_strbuf_add(t, text, strlen(text));
}

void object_strbuf_printf(struct object_strbuf *t, const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		t->failed = true;
		return;
	}
	object_strbuf_add(t, text, (size_t)n);
	free(text);
}

void object_strbuf_add_encoded(struct object_strbuf *t, const char *text, bool slashes_kept)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		char code[3] = {'%', hex[c >> 4], hex[c & 15]};

		if (c < 0x80 && (isalnum(c) || strchr("-_.~", c) || (c == '/' && slashes_kept)))
			object_strbuf_add(t, text, 1);
		else
			object_strbuf_add(t, code, sizeof(code));
	}
}

void object_strbuf_add_xml(struct object_strbuf *t, const char *text)
{
	static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
	static const char marks[] = "&<>\"'";

	for (; *text; text++) {
		const char *mark = strchr(marks, *text);

		if (mark)
			object_strbuf_put(t, names[mark - marks]);
		else if ((unsigned char)*text < 0x20 && *text != '\n')
			object_strbuf_printf(t, "&#%d;", *text);
		else
			object_strbuf_add(t, text, 1);
	}
}

void object_strbuf_clear(struct object_strbuf *t)
{
	t->len = 0;
	t->failed = false;
	if (t->s)
		t->s[0] = 0;
}

void object_strbuf_fini(struct object_strbuf *t)
{
	free(t->s);
	memset(t, 0, sizeof(*t));
}
