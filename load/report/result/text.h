/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_RESULT_TEXT_H
#define PENSTOCK_REPORT_RESULT_TEXT_H

/* Text in results: what jansson leaves to us. */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A JSON string of bytes that need not be UTF-8 (paths, names from sysfs): what
 * is not becomes U+FFFD.  Never NULL for lack of validity, only of memory.
 */
json_t *report_str(const char *s);
/* A number of things, which may be larger than those of JSON; the second: null for 0. */
json_t *report_count(uint64_t v);
json_t *report_count_or_null(uint64_t v);
/* Members: 0 and "" where they are missing, or something else. */
static inline double report_number(const json_t *j, const char *key)
{
	return json_number_value(json_object_get(j, key));
}
static inline const char *report_text(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}
/* The series of this name, of a list; NULL: there is none. */
json_t *report_named(const json_t *series, const char *name);
/* Null for what is not a number: JSON has no word for it. */
json_t *report_real(double v);
/*
 * What is known of samples of a duration: n, exact, mean, max, p50, p90 where @p90, p95 and so on,
 * and the histogram; null where there are none.
 */
struct samples;
json_t *report_samples(const struct samples *s, bool p90);
/* Which buckets of @h are not empty, as it stands in a series; @h may be NULL. */
struct penstock_hist;
json_t *report_histogram(const struct penstock_hist *h);
/* As report_samples(), of a histogram alone. */
json_t *report_hist_levels(const struct penstock_hist *h, uint64_t sum_ns);
/* Null where @s is empty or NULL, else as above. */
json_t *report_str_or_null(const char *s);
/*
 * Set "@key" to @path, and when @path is not UTF-8 also "@key_hex" to its
 * bytes in hexadecimal, so that no name is lost.
 */
void report_set_path(json_t *obj, const char *key, const char *path);

/*
 * Text of unknown origin (names of files, of series in a result, keys of a trace, models of
 * disks) on its way to people.  What could do something to a terminal, or look like something
 * else there, is written out: control characters (an escape sequence begins with one), bytes
 * that are no UTF-8, and characters that turn the direction of writing or are not seen become
 * "\x1b", "\u202e".  All else stays as it is.
 */

/* One line of @s, line ends and tabs written out too; what does not fit is cut.  Returns @buf. */
char *report_escape(char *buf, size_t size, const char *s);
/* The same to a stream: for lines, and for comments in files of other programs. */
void report_escape_put(FILE *f, const char *s);

struct escape_stream {
	int error; /* -errno of the first write that failed, which stdio forgets */
	/* the stream's */
	int fd;
	unsigned partial; /* bytes of a character whose rest has not come yet */
	char part[8];
};

/*
 * A stream to the descriptor @fd, which stays open, for text of many lines: whatever is
 * printed comes out harmless, line ends and tabs as they are.  @p lives as long as the stream.
 * NULL for lack of memory.
 */
FILE *report_escape_stream(struct escape_stream *p, int fd);

#endif
