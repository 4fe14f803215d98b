/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"

enum { DEPTH_MAX = 64 };

int penstock_json_fail(const struct penstock_json *j, const char *why)
{
	return penstock_fail(j->err, -EINVAL, "%s, byte %td: %s", j->what, j->p - j->text, why);
}

static void json_space(struct penstock_json *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r'))
		j->p++;
}

int penstock_json_peek(struct penstock_json *j)
{
	json_space(j);
	return j->p < j->end ? (unsigned char)*j->p : -1;
}

int penstock_json_expect(struct penstock_json *j, char c)
{
	char why[] = "'?' is missing";

	if (penstock_json_peek(j) == (unsigned char)c) {
		j->p++;
		return 0;
	}
	why[1] = c;
	return penstock_json_fail(j, why);
}

int penstock_json_more(struct penstock_json *j, char close)
{
	int c = penstock_json_peek(j);

	if (c == ',' || c == (unsigned char)close) {
		j->p++;
		return c == ',';
	}
	return penstock_json_fail(j,
				  close == '}' ? "',' or '}' is missing" : "',' or ']' is missing");
}

/* Four hexadecimal digits, or -1. */
static int32_t json_hex(struct penstock_json *j)
{
	int32_t v = 0;

	if (j->end - j->p < 4)
		return -1;
	for (unsigned i = 0; i < 4; i++) {
		int c = *j->p++, low = c | 0x20;

		if (c >= '0' && c <= '9')
			v = v * 16 + (c - '0');
		else if (low >= 'a' && low <= 'f')
			v = v * 16 + (low - 'a' + 10);
		else
			return -1;
	}
	return v;
}

/* What stands behind "\u", or -1: no character, or half of one. */
static int32_t json_unicode(struct penstock_json *j)
{
	int32_t c = json_hex(j), low;

	if (c < 0xd800 || c > 0xdfff)
		return c;
	if (c > 0xdbff || j->end - j->p < 2 || j->p[0] != '\\' || j->p[1] != 'u')
		return -1;
	j->p += 2;
	low = json_hex(j);
	return low < 0xdc00 || low > 0xdfff ? -1 : 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

/* What stands behind a backslash. */
static int json_escape(struct penstock_json *j, char **to)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	char c = j->p < j->end ? *j->p++ : '\0';
	const char *at = c ? strchr(names, c) : NULL;
	int32_t u;

	if (at) {
		*(*to)++ = values[at - names];
		return 0;
	}
	u = c == 'u' ? json_unicode(j) : -1;
	if (u <= 0)
		return penstock_json_fail(j, u ? "no such escape" : "a NUL in a string");
	*to = penstock_utf8_put(*to, (uint32_t)u);
	return 0;
}

int penstock_json_string(struct penstock_json *j, char **ret)
{
	char *to;
	int r = penstock_json_expect(j, '"');

	if (r < 0)
		return r;
	*ret = to = j->p;
	while (j->p < j->end && *j->p != '"') {
		if ((unsigned char)*j->p < 0x20)
			return penstock_json_fail(j, "a control character in a string");
		if (*j->p != '\\') {
			*to++ = *j->p++;
			continue;
		}
		j->p++;
		r = json_escape(j, &to);
		if (r < 0)
			return r;
	}
	if (j->p == j->end)
		return penstock_json_fail(j, "a string does not end");
	j->p++;
	*to = '\0';
	return 0;
}

int penstock_json_u64(struct penstock_json *j, uint64_t *ret)
{
	int c = penstock_json_peek(j);
	const char *begin = j->p;
	uint64_t v = 0;

	if (c < '0' || c > '9')
		return penstock_json_fail(j, "no whole number of at least 0");
	for (; j->p < j->end && *j->p >= '0' && *j->p <= '9'; j->p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*j->p - '0'), &v))
			return penstock_json_fail(j, "a number beyond 2^64");
	if (*begin == '0' && j->p - begin > 1)
		return penstock_json_fail(j, "a number that begins with 0");
	if (j->p < j->end && (*j->p == '.' || *j->p == 'e' || *j->p == 'E'))
		return penstock_json_fail(j, "no whole number");
	*ret = v;
	return 0;
}

static bool json_digits(struct penstock_json *j)
{
	const char *begin = j->p;

	while (j->p < j->end && *j->p >= '0' && *j->p <= '9')
		j->p++;
	return j->p > begin;
}

/* A number of any kind, or true, false, null. */
static int json_skip_plain(struct penstock_json *j)
{
	static const char *const words[] = {"true", "false", "null"};
	char *begin;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(j->end - j->p) >= n && !memcmp(j->p, words[i], n)) {
			j->p += n;
			return 0;
		}
	}
	if (j->p < j->end && *j->p == '-')
		j->p++;
	begin = j->p;
	if (!json_digits(j) || (*begin == '0' && j->p - begin > 1))
		return penstock_json_fail(j, "no JSON value");
	if (j->p < j->end && *j->p == '.') {
		j->p++;
		if (!json_digits(j))
			return penstock_json_fail(j, "no JSON value");
	}
	if (j->p < j->end && (*j->p | 0x20) == 'e') {
		j->p++;
		if (j->p < j->end && (*j->p == '+' || *j->p == '-'))
			j->p++;
		if (!json_digits(j))
			return penstock_json_fail(j, "no JSON value");
	}
	return 0;
}

static int json_skip(struct penstock_json *j, unsigned depth)
{
	int c = penstock_json_peek(j), r, more = 1;
	char close = c == '{' ? '}' : ']', *ignored;

	if (c == '"')
		return penstock_json_string(j, &ignored);
	if (c != '{' && c != '[')
		return json_skip_plain(j);
	if (depth == DEPTH_MAX)
		return penstock_json_fail(j, "nested too deeply");
	j->p++;
	if (penstock_json_peek(j) == (unsigned char)close) {
		j->p++;
		return 0;
	}
	while (more > 0) {
		r = c == '{' ? penstock_json_string(j, &ignored) : 0;
		if (r == 0 && c == '{')
			r = penstock_json_expect(j, ':');
		if (r == 0)
			r = json_skip(j, depth + 1);
		more = r < 0 ? r : penstock_json_more(j, close);
	}
	return more;
}

int penstock_json_skip(struct penstock_json *j)
{
	return json_skip(j, 0);
}

int penstock_json_object(struct penstock_json *j,
			 int (*member)(struct penstock_json *j, char *key, void *arg), void *arg)
{
	int r = penstock_json_expect(j, '{'), more = 1;
	char *key;

	if (r < 0)
		return r;
	if (penstock_json_peek(j) == '}') {
		j->p++;
		return 0;
	}
	while (more > 0) {
		r = penstock_json_string(j, &key);
		if (r == 0)
			r = penstock_json_expect(j, ':');
		if (r == 0)
			r = member(j, key, arg);
		more = r < 0 ? r : penstock_json_more(j, '}');
	}
	return more;
}
