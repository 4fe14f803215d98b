/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_DIGITS_H
#define PENSTOCK_TRACE_DIGITS_H

/* Decimal numbers to and from text, without locale, errno or a final 0. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

/* ---- to text: each returns the end of what it wrote ---- */

static inline char *put_bytes(char *to, const char *from, size_t len)
{
	memcpy(to, from, len);
	return to + len;
}
/* For string constants. */
#define PUT_TEXT(to, text) put_bytes((to), (text), sizeof(text) - 1)

/* Exactly two digits; v < 100. */
static inline char *put_2(char *to, uint32_t v)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";

	memcpy(to, pairs + 2 * (size_t)v, 2);
	return to + 2;
}

/* Exactly six digits; v < 1000000. */
static inline char *put_6(char *to, uint32_t v)
{
	to = put_2(to, v / 10000);
	to = put_2(to, v / 100 % 100);
	return put_2(to, v % 100);
}

#define PUT_U64_MAX 20 /* digits of the largest number */

static inline char *put_u64(char *to, uint64_t v)
{
	char text[PUT_U64_MAX], *p = text + sizeof(text);

	while (v >= 100) {
		p -= 2;
		put_2(p, (uint32_t)(v % 100));
		v /= 100;
	}
	if (v >= 10) {
		p -= 2;
		put_2(p, (uint32_t)v);
	} else {
		*--p = (char)('0' + v);
	}
	return put_bytes(to, p, (size_t)(text + sizeof(text) - p));
}

/* ---- from text ---- */

/* Eight digits at once; the caller knows that they are digits. */
static inline uint32_t eight_digits(uint64_t text)
{
	text = (text & 0x0f0f0f0f0f0f0f0full) * 2561 >> 8;
	text = (text & 0x00ff00ff00ff00ffull) * 6553601 >> 16;
	return (uint32_t)((text & 0x0000ffff0000ffffull) * 42949672960001ull >> 32);
}

/* How many of the eight bytes, from the first on, are digits. */
static inline unsigned nr_digits(uint64_t text)
{
	uint64_t high = text ^ 0x3030303030303030ull;
	uint64_t other = ((high + 0x7676767676767676ull) | high) & 0x8080808080808080ull;

	return other ? (unsigned)__builtin_ctzll(other) / 8 : 8;
}

/*
 * All of @len bytes as a number.  False when there are none, one is not a digit, or it
 * does not fit.
 */
static inline bool get_u64(uint64_t *out, const char *s, size_t len)
{
	uint64_t v = 0;

	if (!len)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(s[i]) || __builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (unsigned)(s[i] - '0'), &v))
			return false;
	}
	*out = v;
	return true;
}

#endif
