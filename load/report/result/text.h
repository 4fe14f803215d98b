/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_RESULT_TEXT_H
#define SLUICE_REPORT_RESULT_TEXT_H

/* Text in results: what jansson leaves to us. */
#include <jansson.h>
#include <stdint.h>

/*
 * A JSON string of bytes that need not be UTF-8 (paths, names from sysfs): what
 * is not becomes U+FFFD.  Never NULL for lack of validity, only of memory.
 */
json_t *report_str(const char *s);
/* A number of things, which may be larger than those of JSON; the second: null for 0. */
json_t *report_count(uint64_t v);
json_t *report_count_or_null(uint64_t v);
/* Null for what is not a number: JSON has no word for it. */
json_t *report_real(double v);
/* Null where @s is empty or NULL, else as above. */
json_t *report_str_or_null(const char *s);
/*
 * Set "@key" to @path, and when @path is not UTF-8 also "@key_hex" to its
 * bytes in hexadecimal, so that no name is lost.
 */
void report_set_path(json_t *obj, const char *key, const char *path);

#endif
