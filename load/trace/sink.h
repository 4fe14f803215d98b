/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_SINK_H
#define PENSTOCK_TRACE_SINK_H

/*
 * Bytes on their way to a file, plain or compressed.  The owner of a sink puts records into one
 * of two buffers; a thread takes the other to the file.  Once a second it also takes what is in
 * the buffer that is being filled, so that a program that is killed leaves all but its last second
 * behind.
 *
 *	at = sink_reserve(s, 100);			room for a record of up to 100 bytes
 *	... write it at @at ...
 *	sink_commit(s, end);			up to here it may go to the file
 *
 * What the thread takes at a time is whole records; compressed, all of it is one frame that is
 * flushed each time.
 * A struct sink stays where it is while it is open.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <penstock/penstock.h>

struct sink {
	char *at, *end;         /* of the buffer that is being filled */
	_Atomic(char *) filled; /* committed up to here */
	struct sink_private *p;
};

#define SINK_RECORD_MAX (256u << 10) /* bytes of the longest record */

struct sink_opts {
	bool zstd;
	int level;         /* 0: 3 */
	bool reproducible; /* full buffers only, no flush by the clock: the same bytes each time */
	int fd;            /* the file, open already; 0: it is created */
};

/* Create @path ("-": standard output) and the folders it is in. */
int sink_open(struct sink *s, const char *path, const struct sink_opts *o,
	      struct penstock_err *err);
/* Everything is in the file when it returns 0.  The sink is gone in any case. */
int sink_close(struct sink *s, struct penstock_err *err);
/* Hand the buffer over and go on with the other one; waits for it.  0 or -errno. */
int sink_swap(struct sink *s, struct penstock_err *err);

/* -errno of the first failure. */
int sink_error(struct sink *s);

/* Room for @len <= SINK_RECORD_MAX bytes; NULL when writing has failed, with the reason in @err. */
static inline char *sink_reserve(struct sink *s, size_t len, struct penstock_err *err)
{
	if (__builtin_expect((size_t)(s->end - s->at) < len, 0) && sink_swap(s, err) < 0)
		return NULL;
	return s->at;
}

static inline void sink_commit(struct sink *s, char *end)
{
	s->at = end;
	atomic_store_explicit(&s->filled, end, memory_order_release);
}

#endif
