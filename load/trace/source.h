/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_SOURCE_H
#define PENSTOCK_TRACE_SOURCE_H

/*
 * The bytes of a trace, plain or compressed (told by content), through a buffer of fixed size.
 * Parsers look at [at, end), may change what is there, and move @at; source_more() keeps what
 * is left and puts more behind it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

struct source {
	char *at, *end; /* behind @end there are SOURCE_PAD bytes that may be read: zeros */
	uint64_t line;  /* lines passed by source_line(), source_take() */
	bool torn;      /* the compressed data ends inside a frame */
	bool unended;   /* the line that was passed last has no newline: the file ends there */
	struct source_private *p;
};

#define SOURCE_BYTES (512u << 10) /* of the buffer: the longest row */
#define SOURCE_PAD   64
#define SOURCE_TORN  "the compressed data ends inside a frame"

/* "-" is standard input.  Skips a byte order mark. */
int source_open(struct source *s, const char *path, struct penstock_err *err);
void source_close(struct source *s); /* NULL inside is allowed */
const char *source_path(const struct source *s);

/*
 * 1: there is more behind @at; 0: there will not be; -E2BIG: the buffer is full; another -errno,
 * with file and line in @err: the file cannot be read or decompressed.
 */
int source_more(struct source *s, struct penstock_err *err);

/*
 * The next newline at least @from bytes behind @at: its distance in *@ret.  The last line may lack
 * one: then *@ret is the distance of the end.  1, or as source_more(): 0 at the end, ...
 */
int source_find(struct source *s, size_t from, size_t *ret, struct penstock_err *err);
/* Pass the @len bytes of a row and the newline behind it; @lines of them in all. */
void source_take(struct source *s, size_t len, uint64_t lines);

/*
 * The next line without its end, valid until the next call.  1; 0 at the end; -E2BIG for a line
 * that does not fit, which is passed over; or another -errno as above.
 */
int source_line(struct source *s, char **ret_line, size_t *ret_len, struct penstock_err *err);

#endif
