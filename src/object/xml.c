/* SPDX-License-Identifier: Apache-2.0 */
#include "object/xml.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { DEPTH_MAX = 16, NAME_MAX_LEN = 63 };

struct walk {
	char *at, *end;
	char names[DEPTH_MAX][NAME_MAX_LEN + 1];
	unsigned depth;
	bool ended; /* the outermost element */
	object_xml_fn *fn;
	void *ctx;
};

static bool xml_begins(const struct walk *w, const char *what)
{
	size_t len = strlen(what);

	return (size_t)(w->end - w->at) >= len && !memcmp(w->at, what, len);
}

/* Go behind the next @what; -EBADMSG where there is none. */
static int skip_past(struct walk *w, const char *what)
{
	char *found = memmem(w->at, (size_t)(w->end - w->at), what, strlen(what));

	if (!found)
		return -EBADMSG;
	w->at = found + strlen(what);
	return 0;
}

/* ------------------------------------------------------------------ entities */

/* &#10; and &#xA;, which are longer than what they stand for. */
static char *xml_put_number(char *out, const char *digits, size_t len)
{
	int base = len && (*digits == 'x' || *digits == 'X') ? 16 : 10;
	char text[12] = "";
	char *rest;
	unsigned long c;

	digits += base == 16;
	len -= base == 16;
	if (!len || len >= sizeof(text))
		return NULL;
	memcpy(text, digits, len);
	if (strspn(text, "0123456789abcdefABCDEF") != len)
		return NULL;
	c = strtoul(text, &rest, base);
	if (*rest || !c || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return NULL;
	return penstock_utf8_put(out, (uint32_t)c);
}

static char *put_entity(char *out, const char *name, size_t len)
{
	static const char *const names[] = {"amp", "lt", "gt", "quot", "apos"};
	static const char marks[] = "&<>\"'";

	if (len && *name == '#')
		return xml_put_number(out, name + 1, len - 1);
	for (unsigned i = 0; i < 5; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len)) {
			*out = marks[i];
			return out + 1;
		}
	return NULL;
}

/* In place, which is long enough; a 0 is put behind it. */
static int decode_entities(char *from, char *end)
{
	char *out = from;

	while (from < end) {
		char *semicolon;

		if (!*from)
			return -EBADMSG;
		if (*from != '&') {
			*out++ = *from++;
			continue;
		}
		semicolon = memchr(from, ';', (size_t)(end - from));
		if (!semicolon)
			return -EBADMSG;
		out = put_entity(out, from + 1, (size_t)(semicolon - from - 1));
		if (!out)
			return -EBADMSG;
		from = semicolon + 1;
	}
	*out = 0;
	return 0;
}

/* ---------------------------------------------------------------------- tags */

/* The name at the walk's place, without what stands before a colon; its end, or NULL. */
static char *parse_name(struct walk *w, char name[NAME_MAX_LEN + 1])
{
	char *p = w->at, *start = p;

	for (; p < w->end && !strchr(" \t\r\n/>", *p); p++)
		if (*p == ':')
			start = p + 1;
	if (p == start || p == w->end || p - start > NAME_MAX_LEN ||
	    memchr(start, '<', (size_t)(p - start)))
		return NULL;
	memcpy(name, start, (size_t)(p - start));
	name[p - start] = 0;
	return p;
}

/* Behind the > that ends a tag with attributes, which nobody needs. */
static char *tag_end(char *p, char *end)
{
	char quote = 0;

	for (; p < end; p++) {
		if (quote)
			quote = *p == quote ? 0 : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		else if (*p == '<')
			return NULL;
		else if (*p == '>')
			return p + 1;
	}
	return NULL;
}

static int close_element(struct walk *w, const char *text)
{
	int r = w->fn(w->ctx, OBJECT_XML_CLOSE, w->depth, w->names[w->depth - 1], text);

	w->depth--;
	w->ended = w->depth == 0;
	return r;
}

static int open_tag(struct walk *w)
{
	char *name, *p;
	int r;

	if (w->depth == DEPTH_MAX || w->ended)
		return -EBADMSG;
	w->at++;
	name = w->names[w->depth];
	p = parse_name(w, name);
	p = p ? tag_end(p, w->end) : NULL;
	if (!p)
		return -EBADMSG;
	w->depth++;
	r = w->fn(w->ctx, OBJECT_XML_OPEN, w->depth, name, "");
	w->at = p;
	return r == 0 && p[-2] == '/' ? close_element(w, "") : r;
}

/* @text begins behind the tag before. */
static int close_tag(struct walk *w, char *text)
{
	char name[NAME_MAX_LEN + 1], *mark = w->at, *p;

	w->at += 2;
	p = parse_name(w, name);
	p = p ? tag_end(p, w->end) : NULL;
	if (!p || !w->depth || strcmp(name, w->names[w->depth - 1]) != 0)
		return -EBADMSG;
	w->at = p;
	/* The 0 behind the text takes the place of <. */
	if (decode_entities(text, mark) < 0)
		return -EBADMSG;
	return close_element(w, text);
}

/* Comments and instructions; -EBADMSG for document types, which define entities. */
static int other_tag(struct walk *w)
{
	if (xml_begins(w, "<!--"))
		return skip_past(w, "-->");
	if (xml_begins(w, "<?"))
		return skip_past(w, "?>");
	return -EBADMSG;
}

int object_xml_walk(char *doc, size_t len, object_xml_fn *fn, void *ctx)
{
	struct walk w = {.at = doc, .end = doc + len, .fn = fn, .ctx = ctx};
	char *text = doc;
	int r = 0;

	while (r == 0) {
		w.at = memchr(w.at, '<', (size_t)(w.end - w.at));
		if (!w.at)
			break;
		if (xml_begins(&w, "</"))
			r = close_tag(&w, text);
		else if (xml_begins(&w, "<!") || xml_begins(&w, "<?"))
			r = other_tag(&w);
		else
			r = open_tag(&w);
		text = w.at;
	}
	return r ? r : w.ended ? 0 : -EBADMSG;
}
