/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive descent whose only memory is the stack, which MAX_DEPTH bounds. */
#include "load/trace/jsonscan.h"

#include <errno.h>
#include <string.h>

#include "base/utf8.h"

enum { MAX_DEPTH = 100 };

static bool fail(struct jscan *j)
{
	j->failed = true;
	return false;
}

/* The next byte, or -1. */
static int peek_slow(struct jscan *j)
{
	int r;

	if (!j->source || j->failed)
		return -1;
	j->source->at = j->source->end;
	r = source_more(j->source, j->err);
	if (r < 0)
		j->error = r;
	j->at = j->source->at;
	j->end = j->source->end;
	return r == 1 ? (unsigned char)*j->at : -1;
}

static inline int peek(struct jscan *j)
{
	return j->at < j->end ? (unsigned char)*j->at : peek_slow(j);
}

int jscan_next(struct jscan *j)
{
	int c;

	while ((c = peek(j)) == ' ' || c == '\n' || c == '\t' || c == '\r') {
		if (c == '\n' && j->source)
			j->source->line++;
		j->at++;
	}
	return j->failed ? -1 : c;
}

static bool expect(struct jscan *j, char c)
{
	if (jscan_next(j) != c)
		return fail(j);
	j->at++;
	return true;
}

/* ------------------------------------------------------------------ strings */

/* What becomes of a string: bytes as long as they fit, characters counted. */
struct text {
	char *out, *end;
	uint64_t chars;
	uint32_t high; /* first half of a pair, waiting for the second */
};

static void text_put_code(struct text *t, uint32_t code)
{
	char utf8[4];
	size_t n = (size_t)(penstock_utf8_put(utf8, code) - utf8);

	t->chars++;
	if (t->end - t->out >= (ptrdiff_t)n) {
		memcpy(t->out, utf8, n);
		t->out += n;
	}
}

static bool hex4(struct jscan *j, uint32_t *ret)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++, j->at++) {
		int c = peek(j);

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint32_t)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			v = v << 4 | (uint32_t)((c | 32) - 'a' + 10);
		else
			return fail(j);
	}
	*ret = v;
	return true;
}

/* Halves of a pair that have lost each other count one each. */
static void flush(struct text *t)
{
	if (t->high)
		text_put_code(t, 0xfffd);
	t->high = 0;
}

static void put_unit(struct text *t, uint32_t code)
{
	if (t->high && code >= 0xdc00 && code < 0xe000) {
		text_put_code(t, 0x10000 + ((t->high - 0xd800) << 10) + (code - 0xdc00));
		t->high = 0;
		return;
	}
	flush(t);
	if (code >= 0xd800 && code < 0xdc00)
		t->high = code;
	else
		text_put_code(t, code >= 0xdc00 && code < 0xe000 ? 0xfffd : code);
}

/* Behind a backslash. */
static bool escape(struct jscan *j, struct text *t)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	int c = peek(j);
	const char *at = c > 0 ? strchr(from, c) : NULL;
	uint32_t code;

	if (c == 'u') {
		j->at++;
		if (!hex4(j, &code))
			return false;
		put_unit(t, code);
		return true;
	}
	if (!at)
		return fail(j);
	j->at++;
	flush(t);
	text_put_code(t, (unsigned char)to[at - from]);
	return true;
}

static bool string(struct jscan *j, struct text *t)
{
	int c;

	if (!expect(j, '"'))
		return false;
	while ((c = peek(j)) != '"') {
		if (c < 0x20)
			return fail(j);
		j->at++;
		if (c == '\\') {
			if (!escape(j, t))
				return false;
			continue;
		}
		flush(t);
		if (t->out < t->end)
			*t->out++ = (char)c;
		t->chars += (c & 0xc0) != 0x80;
	}
	j->at++;
	flush(t);
	return true;
}

bool jscan_string(struct jscan *j, char *out, size_t size, uint64_t *ret_chars)
{
	struct text t = {out, out ? out + size - 1 : NULL, 0, 0};

	if (!string(j, &t))
		return false;
	if (out)
		*t.out = '\0';
	if (ret_chars)
		*ret_chars = t.chars;
	return true;
}

/* ------------------------------------------------------------- other values */

bool jscan_number(struct jscan *j, char out[JSCAN_NUMBER])
{
	size_t n = 0;
	int c = jscan_next(j);

	if (c != '-' && (c < '0' || c > '9'))
		return fail(j);
	for (; c > 0 && strchr("+-.0123456789eE", c); c = peek(j)) {
		if (n == JSCAN_NUMBER - 1)
			return fail(j);
		out[n++] = (char)c;
		j->at++;
	}
	out[n] = '\0';
	return true;
}

static bool skip_literal(struct jscan *j, const char *text)
{
	for (; *text; text++) {
		if (peek(j) != *text)
			return fail(j);
		j->at++;
	}
	return true;
}

/* 1 and at the next item, 0 and behind @close. */
static int item(struct jscan *j, enum jscan_at *it, char open, char close)
{
	if (*it == JSCAN_BEGIN && !expect(j, open))
		return -EINVAL;
	if (jscan_next(j) == close) {
		j->at++;
		return 0;
	}
	if (*it == JSCAN_INSIDE && !expect(j, ','))
		return -EINVAL;
	*it = JSCAN_INSIDE;
	return j->failed ? -EINVAL : 1;
}

int jscan_element(struct jscan *j, enum jscan_at *it)
{
	return item(j, it, '[', ']');
}

int jscan_member(struct jscan *j, enum jscan_at *it, char *key, size_t size)
{
	int r = item(j, it, '{', '}');

	if (r == 1 && (!jscan_string(j, key, size, NULL) || !expect(j, ':')))
		return -EINVAL;
	return r;
}

static bool skip_value(struct jscan *j, unsigned depth)
{
	char number[JSCAN_NUMBER], key[1];
	enum jscan_at it = JSCAN_BEGIN;
	int c = jscan_next(j), r;

	if (depth > MAX_DEPTH)
		return fail(j);
	switch (c) {
	case '"':
		return jscan_string(j, NULL, 0, NULL);
	case 't':
		return skip_literal(j, "true");
	case 'f':
		return skip_literal(j, "false");
	case 'n':
		return skip_literal(j, "null");
	case '[':
		while ((r = jscan_element(j, &it)) == 1)
			if (!skip_value(j, depth + 1))
				return false;
		return r == 0;
	case '{':
		while ((r = jscan_member(j, &it, key, sizeof(key))) == 1)
			if (!skip_value(j, depth + 1))
				return false;
		return r == 0;
	default:
		return jscan_number(j, number);
	}
}

bool jscan_skip(struct jscan *j)
{
	return skip_value(j, 0);
}
