/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_WANTS_H
#define PENSTOCK_CKPT_WANTS_H

/*
 * Which transfers bring many ranges of a file: large ones straight into place, small ones and the
 * ragged ends of large ones through buffers, neighbours together.  Without any I/O.
 */
#include <penstock/ckpt.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes of the file that go to one place, all in one transfer. */
struct want {
	uint64_t offset;
	uint64_t len;
	char *buf;   /* NULL: to be checked only */
	bool direct; /* a transfer of its own, straight into @buf */
	bool device; /* @buf is memory of a device */
};

struct wants {
	struct want *v; /* in the order of the file */
	uint64_t nr, room;
	uint64_t bytes;  /* of the file */
	uint64_t window; /* no transfer is longer, or crosses a multiple of it; a multiple of 1 MiB
			  */
	bool verify;     /* by whole chunks */
};

/* One transfer: @nr wants from @first on lie in it. */
struct span {
	uint64_t offset;
	uint64_t len;
	uint64_t first, nr;
};

/* 0 or -ENOMEM.  The piece lies within the file. */
int wants_add(struct wants *w, const struct penstock_piece *piece, bool device);
void wants_sort(struct wants *w);
/* The transfer for the wants from @first on, of which there is one. */
struct span wants_span(const struct wants *w, uint64_t first);
void wants_free(struct wants *w);

#endif
