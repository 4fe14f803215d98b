/* SPDX-License-Identifier: Apache-2.0 */
/* A quote means something at the beginning of a field only, as for Python's csv module. */
#include "load/trace/csvrow.h"

#include <errno.h>
#include <string.h>

struct scan {
	size_t at; /* begin of a field, or somewhere inside quotes */
	bool quoted;
};

static size_t next_field(const char *row, size_t at, size_t len, char separator)
{
	const char *p = memchr(row + at, separator, len - at);

	return p ? (size_t)(p - row) + 1 : len;
}

/* Go on to @len; is that outside quotes? */
static bool scan_to(struct scan *s, const char *row, size_t len, char separator)
{
	while (s->at < len) {
		const char *quote;

		if (!s->quoted) {
			s->quoted = row[s->at] == '"';
			s->at = s->quoted ? s->at + 1 : next_field(row, s->at, len, separator);
			continue;
		}
		quote = memchr(row + s->at, '"', len - s->at);
		s->at = quote ? (size_t)(quote - row) + 1 : len;
		if (!quote)
			break;
		if (s->at < len && row[s->at] == '"') {
			s->at++;
		} else {
			s->quoted = false;
			s->at = next_field(row, s->at, len, separator);
		}
	}
	return !s->quoted;
}

int csv_row(struct source *s, char separator, char **ret_row, size_t *ret_len, uint64_t *ret_line,
	    struct penstock_err *err)
{
	struct scan scan = {0, false};
	size_t len, first;
	uint64_t lines = 1;
	int r = source_find(s, 0, &len, err);

	*ret_line = s->line + 1;
	if (r != 1 || !memchr(s->at, '"', len))
		return source_line(s, ret_row, ret_len, err);
	first = len;
	while (!scan_to(&scan, s->at, len, separator)) {
		r = source_find(s, len + 1, &len, err);
		lines++;
		if (r == 1)
			continue;
		if ((r == 0 && s->torn) || (r != 0 && r != -E2BIG))
			return r;
		/* Never closed: the row is the line, which csv_split() will refuse. */
		len = first;
		lines = 1;
		break;
	}
	*ret_row = s->at;
	source_take(s, len, lines);
	*ret_len = len && (*ret_row)[len - 1] == '\r' ? len - 1 : len;
	return 1;
}

/* The text of the field in quotes at @at, moved together.  Returns its end or NULL. */
static char *unquote(struct csv_field *f, char *at, const char *end)
{
	char *to = at + 1, *p = to;

	f->at = to;
	for (; p < end; p++) {
		if (*p == '"' && (p + 1 == end || p[1] != '"')) {
			f->len = (size_t)(to - f->at);
			return p + 1;
		}
		if (*p == '"')
			p++;
		*to++ = *p;
	}
	return NULL;
}

int csv_split(char *row, size_t len, char separator, struct csv_field fields[CSV_FIELDS])
{
	char *end = row + len, *p = row;

	for (int n = 0;; p++) {
		struct csv_field f = {p, 0};

		if (p < end && *p == '"') {
			p = unquote(&f, p, end);
			if (!p || (p < end && *p != separator))
				return -EINVAL;
		} else {
			char *stop = memchr(p, separator, (size_t)(end - p));

			p = stop ? stop : end;
			f.len = (size_t)(p - f.at);
		}
		if (n < CSV_FIELDS)
			fields[n] = f;
		n++;
		if (p == end)
			return n;
	}
}
