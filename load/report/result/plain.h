/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_REPORT_RESULT_PLAIN_H
#define SLUICE_REPORT_RESULT_PLAIN_H

/*
 * Text of unknown origin (names of files, of series in a result, keys of a trace, models of
 * disks) on its way to people.  What could do something to a terminal, or look like something
 * else there, is written out: control characters (an escape sequence begins with one), bytes
 * that are no UTF-8, and characters that turn the direction of writing or are not seen become
 * "\x1b", "\u202e".  All else stays as it is.
 */
#include <stddef.h>
#include <stdio.h>

/* Length of the UTF-8 character at @s, 0 where there is none (RFC 3629). */
unsigned report_utf8_len(const char *s);

/* One line of @s, line ends and tabs written out too; what does not fit is cut.  Returns @buf. */
char *report_plain(char *buf, size_t size, const char *s);
/* The same to a stream: for lines, and for comments in files of other programs. */
void report_plain_put(FILE *f, const char *s);

/*
 * A stream to the descriptor @fd, which stays open, for text of many lines: whatever is
 * printed comes out harmless, line ends and tabs as they are.  *@error becomes -errno of the
 * first write that failed, which stdio forgets.  NULL for lack of memory.
 */
FILE *report_plain_stream(int fd, int *error);

#endif
