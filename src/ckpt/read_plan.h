/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_READ_PLAN_H
#define PENSTOCK_CKPT_READ_PLAN_H

/*
 * Which transfers bring many ranges of a file: large ones straight into place, small ones and the
 * ragged ends of large ones through buffers, neighbours together.  Without any I/O.
 */
#include <penstock/ckpt.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes of the file that go to one place, all in one transfer. */
struct read_part {
	uint64_t offset;
	uint64_t len;
	char *buf;   /* NULL: to be checked only */
	bool direct; /* a transfer of its own, straight into @buf */
	bool device; /* @buf is memory of a device */
};

struct read_plan {
	struct read_part *v; /* in the order of the file */
	uint64_t nr, capacity;
	uint64_t bytes;  /* of the file */
	uint64_t window; /* no transfer is longer, or crosses a multiple of it; a multiple of 1 MiB
			  */
	bool verify;     /* by whole chunks */
};

/* One transfer: @nr parts from @first on lie in it. */
struct read_span {
	uint64_t offset;
	uint64_t len;
	uint64_t first, nr;
};

/* 0 or -ENOMEM.  The piece lies within the file. */
int read_plan_add(struct read_plan *w, const struct penstock_piece *piece, bool device);
void read_plan_sort(struct read_plan *w);
/* The transfer for the parts from @first on, of which there is one. */
struct read_span read_plan_span(const struct read_plan *w, uint64_t first);
void read_plan_free(struct read_plan *w);

#endif
