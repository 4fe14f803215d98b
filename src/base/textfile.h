/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_TEXTFILE_H
#define PENSTOCK_BASE_TEXTFILE_H

/* The small files of /proc and /sys; the path is a printf format. */
#include <stddef.h>
#include <stdint.h>

/*
 * The first line, without blanks at its ends, cut to what fits.  Returns its
 * length or -errno, with @out empty.
 */
int penstock_textfile_read_line(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A decimal number; returns 0, or -errno with *@out untouched. */
int penstock_textfile_read_u64(uint64_t *out, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Of "none [mq-deadline] bfq" the word in brackets; of a line without any, the line. */
int penstock_textfile_read_selected(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
