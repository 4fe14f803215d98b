/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_QUOTE_H
#define PENSTOCK_TRACE_QUOTE_H

/* Fields of RFC 4180, in quotes only where they need them. */
#include <stdbool.h>
#include <stddef.h>

#include "load/trace/digits.h"

#define QUOTE_BYTES_MAX(len) (2 * (size_t)(len) + 2)

/* What a field with a separator of ',' or '\t' cannot have without quotes. */
static inline bool quote_special(char c, char separator)
{
	return c == separator || c == '"' || c == '\r' || c == '\n';
}

static inline char *put_quoted(char *to, const char *s, size_t len)
{
	*to++ = '"';
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '"')
			*to++ = '"';
		*to++ = s[i];
	}
	*to++ = '"';
	return to;
}

static inline char *put_field(char *to, const char *s, size_t len, char separator)
{
	unsigned any = 0;

	for (size_t i = 0; i < len; i++)
		any |= (unsigned)quote_special(s[i], separator);
	return any ? put_quoted(to, s, len) : len ? put_bytes(to, s, len) : to;
}

#endif
