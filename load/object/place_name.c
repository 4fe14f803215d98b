/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files from keys.  Ordinary characters stand for themselves, all others for %XX; a
 * name too long for a folder is cut and ended by a hash of the whole key.  `~' is never part of an
 * escaped key, so what is put behind one cannot be mistaken for another key.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "load/object/content.h"
#include "load/object/place.h"

enum {
	WHOLE_MAX = 240, /* of an escaped key that is not cut: variant and suffix follow */
	CUT = 160,
};

static bool ordinary(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("._-+=@,:", c));
}

uint64_t place_escape(char *out, const char *key, uint64_t len)
{
	static const char hex[] = "0123456789ABCDEF";
	char *p = out;

	for (uint64_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)key[i];

		if (ordinary(c) && (i || c != '.')) {
			*p++ = (char)c;
			continue;
		}
		*p++ = '%';
		*p++ = hex[c >> 4];
		*p++ = hex[c & 15];
	}
	*p = '\0';
	return (uint64_t)(p - out);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int64_t place_unescape(char *out, const char *text, uint64_t len)
{
	int64_t n = 0;

	for (uint64_t i = 0; i < len; i++) {
		int high, low;

		if (ordinary((unsigned char)text[i])) {
			out[n++] = text[i];
			continue;
		}
		if (text[i] != '%' || i + 2 >= len)
			return -EINVAL;
		high = hex_digit(text[i + 1]);
		low = hex_digit(text[i + 2]);
		if (high < 0 || low < 0)
			return -EINVAL;
		out[n++] = (char)(high << 4 | low);
		i += 2;
	}
	return n;
}

const char *place_suffix(const struct place_opts *o)
{
	return o->kind == PLACE_FILES && o->layout == PLACE_NPY ? ".npy" : "";
}

/* Length of the escaped key, however long. */
static uint64_t escaped_length(const char *key, uint32_t len)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < len; i++)
		n += ordinary((unsigned char)key[i]) && (i || key[i] != '.') ? 1 : 3;
	return n;
}

bool place_name_cut(const char *key, uint32_t len)
{
	return len > WHOLE_MAX || escaped_length(key, len) > WHOLE_MAX;
}

void place_file_name(char out[PLACE_NAME], const char *key, uint32_t len, unsigned variant,
		     const char *suffix)
{
	char text[3 * WHOLE_MAX + 1], end[16] = "";

	if (variant)
		snprintf(end, sizeof(end), "~%u", variant);
	if (!len) {
		snprintf(out, PLACE_NAME, "~%s%s", end, suffix);
	} else if (!place_name_cut(key, len)) {
		place_escape(text, key, len);
		snprintf(out, PLACE_NAME, "%s%s%s", text, end, suffix);
	} else {
		place_escape(text, key, CUT);
		snprintf(out, PLACE_NAME, "%.*s~h%016" PRIx64 "%016" PRIx64 "%s%s", CUT, text,
			 content_id(key, len), content_id(key + 1, len - 1), end, suffix);
	}
}

int place_name_key(char *key, uint32_t *ret_len, const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix), i;
	int64_t len;

	if (n <= s || strcmp(name + n - s, suffix) != 0)
		return -EINVAL;
	n -= s;
	for (i = n; i > 0 && name[i - 1] >= '0' && name[i - 1] <= '9'; i--)
		;
	if (i > 0 && i < n && name[i - 1] == '~')
		n = i - 1;
	if (n == 1 && name[0] == '~')
		n = 0;
	len = place_unescape(key, name, n);
	if (len < 0)
		return -EINVAL;
	*ret_len = (uint32_t)len;
	return 0;
}
