/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces have their numbers as text, and a double would lose the nanoseconds of a date: everything
 * is whole numbers, but for what was written with an exponent.
 */
#include "load/trace/numbers.h"

#include <stdlib.h>
#include <string.h>

#include "load/trace/digits.h"

/* With an exponent; not exact, which is no loss: whoever wrote it had a double. */
static bool with_exponent(uint64_t *out, const char *s, size_t len, unsigned scale)
{
	char text[64], *end;
	double v;

	if (!len || len >= sizeof(text) || !is_digit(*s))
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	if (text[1] == 'x' || text[1] == 'X')
		return false;
	v = strtod(text, &end);
	if (end != text + len)
		return false;
	for (unsigned i = 0; i < scale; i++)
		v *= 10;
	if (!(v >= 0 && v < 18446744073709551616.0))
		return false;
	*out = (uint64_t)v;
	return true;
}

bool trace_decimal(uint64_t *out, const char *s, size_t len, unsigned scale)
{
	const char *dot = memchr(s, '.', len), *end = s + len;
	size_t whole = dot ? (size_t)(dot - s) : len;
	uint64_t v;

	if (memchr(s, 'e', len) || memchr(s, 'E', len))
		return with_exponent(out, s, len, scale);
	if (!get_u64(&v, s, whole) || (dot && dot + 1 == end))
		return false;
	for (const char *p = s + whole + 1; dot && p < end; p++)
		if (!is_digit(*p))
			return false;
	for (const char *p = s + whole + 1; scale; scale--, p++) {
		unsigned digit = dot && p < end ? (unsigned)(*p - '0') : 0;

		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v))
			return false;
	}
	*out = v;
	return true;
}

/* ------------------------------------------------------------------- dates */

/* Days since 1970 of a date in the calendar of today; years from 1970 on. */
static uint64_t days_of(unsigned year, unsigned month, unsigned day)
{
	/* From March on, so that the day that may be missing is the last of the year. */
	unsigned y = year - (month <= 2), m = (month + 9) % 12;

	return 365ull * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static bool parse_two_digits(unsigned *out, const char *s, unsigned max)
{
	if (!is_digit(s[0]) || !is_digit(s[1]))
		return false;
	*out = (unsigned)(s[0] - '0') * 10 + (unsigned)(s[1] - '0');
	return *out <= max;
}

static unsigned days_in(unsigned year, unsigned month)
{
	static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap);
}

/* "Z", "+01:00": seconds east of Greenwich; false when it is something else. */
static bool parse_zone(int64_t *out, const char *s, size_t len)
{
	unsigned h, m;

	*out = 0;
	if (len == 1 && (*s == 'Z' || *s == 'z'))
		return true;
	if (len != 6 || (s[0] != '+' && s[0] != '-') || s[3] != ':' ||
	    !parse_two_digits(&h, s + 1, 23) || !parse_two_digits(&m, s + 4, 59))
		return false;
	*out = (int64_t)(h * 3600 + m * 60) * (s[0] == '-' ? -1 : 1);
	return true;
}

/* ".123": nanoseconds; more than nine digits are cut off.  Returns how long it is. */
static size_t fraction(uint64_t *out, const char *s, size_t len)
{
	uint64_t v = 0;
	size_t n = 1;

	*out = 0;
	if (len < 2 || *s != '.' || !is_digit(s[1]))
		return 0;
	for (; n < len && is_digit(s[n]); n++)
		if (n <= 9)
			v = v * 10 + (unsigned)(s[n] - '0');
	for (size_t i = n; i <= 9; i++)
		v *= 10;
	*out = v;
	return n;
}

bool trace_time_parse(uint64_t *out, const char *s, size_t len)
{
	unsigned century, year, month, day, hour, minute, second;
	int64_t east, secs;
	uint64_t ns;
	size_t n;

	if (len < 20 || s[4] != '-' || s[7] != '-' || s[13] != ':' || s[16] != ':' ||
	    (s[10] != 'T' && s[10] != 't' && s[10] != ' '))
		return false;
	if (!parse_two_digits(&century, s, 99) || !parse_two_digits(&year, s + 2, 99) ||
	    !parse_two_digits(&month, s + 5, 12) || !parse_two_digits(&day, s + 8, 31) ||
	    !parse_two_digits(&hour, s + 11, 23) || !parse_two_digits(&minute, s + 14, 59) ||
	    !parse_two_digits(&second, s + 17, 60))
		return false;
	year += century * 100;
	if (year < 1970 || !month || !day || day > days_in(year, month))
		return false;
	n = 19 + fraction(&ns, s + 19, len - 19);
	if (!parse_zone(&east, s + n, len - n))
		return false;
	secs = (int64_t)(days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second) -
	       east;
	if (secs < 0 || __builtin_mul_overflow((uint64_t)secs, 1000000000u, out))
		return false;
	return !__builtin_add_overflow(*out, ns, out);
}

char *trace_time_put(char *to, uint64_t ns)
{
	uint64_t secs = ns / 1000000000, days = secs / 86400 + 719468;
	unsigned in_day = (unsigned)(secs % 86400), rest = (unsigned)(ns % 1000000000);
	/* Eras of 400 years, as many as fit. */
	unsigned era = (unsigned)(days / 146097), doe = (unsigned)(days % 146097);
	unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100), m = (5 * doy + 2) / 153;
	unsigned month = m < 10 ? m + 3 : m - 9, year = yoe + era * 400 + (month <= 2);

	to = put_2(put_2(to, year / 100), year % 100);
	*to++ = '-';
	to = put_2(to, month);
	*to++ = '-';
	to = put_2(to, doy - (153 * m + 2) / 5 + 1);
	*to++ = 'T';
	to = put_2(to, in_day / 3600);
	*to++ = ':';
	to = put_2(to, in_day / 60 % 60);
	*to++ = ':';
	to = put_2(to, in_day % 60);
	if (rest) {
		*to++ = '.';
		to = put_6(put_2(to, rest / 10000000), rest / 10 % 1000000);
		*to++ = (char)('0' + rest % 10);
		while (to[-1] == '0')
			to--;
	}
	*to++ = 'Z';
	return to;
}
