/* SPDX-License-Identifier: Apache-2.0 */
/* JSON is UTF-8 and names of files are bytes: here the two meet. */
#include "load/report/result/text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/util.h"
#include "load/stat/sample.h"

json_t *report_str(const char *s)
{
	CLEANUP_FREE char *out = malloc(3 * strlen(s) + 1);
	char *o = out;

	if (!out)
		return NULL;
	while (*s) {
		unsigned len = penstock_utf8_len(s, SIZE_MAX);

		if (len) {
			memcpy(o, s, len);
			o += len;
			s += len;
		} else {
			memcpy(o, "\xef\xbf\xbd", 3);
			o += 3;
			s++;
		}
	}
	*o = 0;
	return json_string(out);
}

json_t *report_count(uint64_t v)
{
	return json_integer((json_int_t)min_u64(v, INT64_MAX));
}

json_t *report_count_or_null(uint64_t v)
{
	return v ? report_count(v) : json_null();
}

json_t *report_real(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *report_samples(const struct samples *s, bool p90)
{
	static const double levels[] = {50, 90, 95, 99, 99.9, 99.99};
	static const char *const names[] = {"p50", "p90", "p95", "p99", "p99.9", "p99.99"};
	double v[ARRAY_SIZE(levels)];
	json_t *j;

	if (!s->n || samples_percentiles(s, levels, v, ARRAY_SIZE(levels)) < 0)
		return json_null();
	j = json_pack("{s:I, s:b, s:f, s:f}", "n", (json_int_t)s->n, "exact", samples_exact(s),
		      "mean", samples_mean(s), "max", s->max);
	for (unsigned i = 0; i < ARRAY_SIZE(levels); i++)
		if (i != 1 || p90)
			json_object_set_new(j, names[i], json_real(v[i]));
	json_object_set_new(j, "histogram", report_histogram(s->hist));
	return j;
}

json_t *report_named(const json_t *series, const char *name)
{
	json_t *s;
	size_t i;

	json_array_foreach(series, i, s)
	{
		if (!strcmp(report_text(s, "name"), name))
			return s;
	}
	return NULL;
}

json_t *report_str_or_null(const char *s)
{
	return s && *s ? report_str(s) : json_null();
}

void report_set_path(json_t *obj, const char *key, const char *path)
{
	CLEANUP_FREE char *hex = NULL;
	char name[64];
	size_t len = strlen(path);

	json_object_set_new(obj, key, report_str(path));
	if (penstock_utf8_valid(path, len))
		return;
	hex = malloc(2 * len + 1);
	if (!hex)
		return;
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)path[i]);
	snprintf(name, sizeof(name), "%s_hex", key);
	json_object_set_new(obj, name, json_string(hex));
}

/* ---------------------------------------------------------------- for people */

#define ESCAPE_MAX 12 /* bytes of a character written out: "\u{10ffff}" and its end */

static uint32_t code_point(const char *s, unsigned len)
{
	uint32_t c = (unsigned char)s[0] & (len == 1 ? 0x7f : 0xff >> (len + 1));

	for (unsigned i = 1; i < len; i++)
		c = c << 6 | ((unsigned char)s[i] & 0x3f);
	return c;
}

/* Controls, marks of direction, line ends of Unicode, and what has no width. */
static bool must_escape(uint32_t c)
{
	static const uint32_t ranges[][2] = {
		{0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
		{0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
		{0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(ranges); i++)
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	return false;
}

/* The character at @s into @out, as text; returns how many bytes of @s it was. */
static unsigned escape_char(char out[ESCAPE_MAX], const char *s)
{
	unsigned len = penstock_utf8_len(s, SIZE_MAX);
	uint32_t c = len ? code_point(s, len) : 0;

	if (len && !must_escape(c)) {
		memcpy(out, s, len);
		out[len] = 0;
	} else if (len > 1 && c > 0xffff) {
		snprintf(out, ESCAPE_MAX, "\\u{%x}", c);
	} else if (len > 1) {
		snprintf(out, ESCAPE_MAX, "\\u%04x", c);
	} else {
		snprintf(out, ESCAPE_MAX, "\\x%02x", (unsigned char)*s);
	}
	return len ? len : 1;
}

char *report_escape(char *buf, size_t size, const char *s)
{
	char out[ESCAPE_MAX];
	size_t used = 0;

	while (*s) {
		size_t n;

		s += escape_char(out, s);
		n = strlen(out);
		if (used + n >= size)
			break;
		memcpy(buf + used, out, n);
		used += n;
	}
	if (size)
		buf[used] = 0;
	return buf;
}

void report_escape_put(FILE *f, const char *s)
{
	char out[ESCAPE_MAX];

	while (*s) {
		s += escape_char(out, s);
		fputs(out, f);
	}
}

/* ------------------------------------------------------------------ weights */

static int text_write_all(struct escape_stream *p, const char *s, size_t n)
{
	while (n) {
		ssize_t r = write(p->fd, s, n);

		if (r < 0 && errno != EINTR) {
			p->error = p->error ? p->error : -errno;
			return -1;
		}
		s += r > 0 ? r : 0;
		n -= r > 0 ? (size_t)r : 0;
	}
	return 0;
}

/* @text holds @len bytes and a zero; what may be the start of a character stays in @p. */
static int write_escaped(struct escape_stream *p, const char *text, size_t len)
{
	char out[4096];
	size_t used = 0;

	p->partial = 0;
	for (size_t i = 0; i < len;) {
		unsigned claim = penstock_utf8_expected_len((unsigned char)text[i]);

		if (claim > len - i) {
			p->partial = (unsigned)(len - i);
			memcpy(p->part, text + i, p->partial);
			break;
		}
		if (used + ESCAPE_MAX > sizeof(out)) {
			if (text_write_all(p, out, used) < 0)
				return -1;
			used = 0;
		}
		if (text[i] == '\n' || text[i] == '\t') {
			out[used++] = text[i++];
			continue;
		}
		i += escape_char(out + used, text + i);
		used += strlen(out + used);
	}
	return text_write_all(p, out, used);
}

static ssize_t escape_stream_write(void *cookie, const char *data, size_t size)
{
	struct escape_stream *p = cookie;
	CLEANUP_FREE char *text = malloc(p->partial + size + 1);
	size_t partial = p->partial;

	if (!text)
		return 0;
	memcpy(text, p->part, partial);
	memcpy(text + partial, data, size);
	text[partial + size] = 0;
	return write_escaped(p, text, partial + size) < 0 ? 0 : (ssize_t)size;
}

FILE *report_escape_stream(struct escape_stream *p, int fd)
{
	FILE *f;

	*p = (struct escape_stream){.fd = fd};
	f = fopencookie(p, "w", (cookie_io_functions_t){.write = escape_stream_write});
	if (f && isatty(fd))
		setvbuf(f, NULL, _IOLBF, 0);
	return f;
}
