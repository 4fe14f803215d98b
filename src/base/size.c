/* SPDX-License-Identifier: Apache-2.0 */
/* Parses exactly, without floating point: a size that does not come to whole bytes is a mistake. */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char letters[] = "KMGTPE";

static int digit_of(char c, unsigned base)
{
	int v = isdigit((unsigned char)c)    ? c - '0'
		: isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
					     : 99;

	return v < (int)base ? v : -1;
}

/* Digits at *@s in @base; -EINVAL when there is none. */
static int digits_parse(uint64_t *out, const char **s, unsigned base)
{
	uint64_t v = 0;
	int d = digit_of(**s, base);

	if (d < 0)
		return -EINVAL;
	for (; d >= 0; d = digit_of(*++*s, base))
		if (__builtin_mul_overflow(v, base, &v) ||
		    __builtin_add_overflow(v, (unsigned)d, &v))
			return -ERANGE;
	*out = v;
	return 0;
}

/* What follows the number: "", "B", "K", "kb", "KiB", ...; -1 for none of these. */
static int suffix_parse(const char *s)
{
	const char *p;

	if (!*s || !strcasecmp(s, "b"))
		return 0;
	p = strchr(letters, toupper((unsigned char)*s));
	if (!p || !*p)
		return -1;
	s++;
	if (*s && strcasecmp(s, "b") != 0 && strcasecmp(s, "ib") != 0)
		return -1;
	return 10 * (int)(p - letters + 1);
}

int penstock_size_parse(uint64_t *out, const char *s)
{
	bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
	uint64_t whole, frac = 0, scale = 1, part;
	int shift, r;

	if (hex)
		s += 2;
	r = digits_parse(&whole, &s, hex ? 16 : 10);
	if (r < 0)
		return r;
	if (*s == '.' && !hex) {
		s++;
		/* Nine digits: frac << 60 over 10^9 still fits the 128 bits below. */
		for (; isdigit((unsigned char)*s) && scale < 1000000000; s++, scale *= 10)
			frac = frac * 10 + (uint64_t)(*s - '0');
		if (scale == 1)
			return -EINVAL;
	}
	shift = suffix_parse(s);
	if (shift < 0)
		return -EINVAL;
	if (((unsigned __int128)frac << shift) % scale)
		return -EINVAL;
	part = (uint64_t)(((unsigned __int128)frac << shift) / scale);
	if (__builtin_mul_overflow(whole, UINT64_C(1) << shift, &whole) ||
	    __builtin_add_overflow(whole, part, &whole))
		return -ERANGE;
	*out = whole;
	return 0;
}

char *penstock_size_format(char buf[PENSTOCK_SIZE_TEXT], uint64_t bytes)
{
	double v = (double)bytes;
	size_t len;
	int i = -1;

	/* 1023.995 would be shown as 1024 */
	for (; v >= 1023.995 && letters[i + 1]; v /= 1024)
		i++;
	len = (size_t)snprintf(buf, PENSTOCK_SIZE_TEXT, "%.*f", v < 10 ? 2 : v < 1000 ? 1 : 0, v);
	while (strchr(buf, '.') && (buf[len - 1] == '0' || buf[len - 1] == '.'))
		buf[--len] = 0;
	snprintf(buf + len, PENSTOCK_SIZE_TEXT - len, " %.*sB", i < 0 ? 0 : 2,
		 (char[]){letters[i < 0 ? 0 : i], 'i', 0});
	return buf;
}

char *penstock_size_exact(char buf[PENSTOCK_SIZE_TEXT], uint64_t bytes)
{
	int i = -1;

	for (; bytes && bytes % 1024 == 0 && letters[i + 1]; bytes /= 1024)
		i++;
	snprintf(buf, PENSTOCK_SIZE_TEXT, "%" PRIu64 "%.*s", bytes, i >= 0,
		 &letters[i >= 0 ? i : 0]);
	return buf;
}
