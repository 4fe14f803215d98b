/* SPDX-License-Identifier: Apache-2.0 */
/* JSON is UTF-8 and names of files are bytes: here the two meet. */
#include "load/report/result/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/report/result/plain.h"

json_t *report_str(const char *s)
{
	CLEANUP_FREE char *out = malloc(3 * strlen(s) + 1);
	char *o = out;

	if (!out)
		return NULL;
	while (*s) {
		unsigned len = report_utf8_len(s);

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
	for (const char *s = path; *s;) {
		unsigned n = report_utf8_len(s);

		if (!n)
			break;
		s += n;
		if (!*s)
			return;
	}
	if (!len)
		return;
	hex = malloc(2 * len + 1);
	if (!hex)
		return;
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)path[i]);
	snprintf(name, sizeof(name), "%s_hex", key);
	json_object_set_new(obj, name, json_string(hex));
}
