/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_STRIDED_H
#define PENSTOCK_PYTHON_STRIDED_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

/*
 * Strided memory of any number of dimensions, as an array sees it: C order, strides in bytes,
 * zero and negative ones included.
 */
struct strided {
	char *base;    /* of the element with all indices 0 */
	uint64_t run;  /* bytes that lie together, at least one element; 0: the array is empty */
	unsigned ndim; /* dimensions left after merging; 0: one run */
	struct strided_dim {
		uint64_t n;
		int64_t stride;
		uint64_t bytes; /* of the array behind one index; UINT64_MAX: that many or more */
	} dim[];
};

/*
 * Describe an array: size-1 dimensions go, neighbours that continue each other merge.
 * @strides NULL: in C order without gaps.  NULL: out of memory.  free() ends it.
 */
struct strided *strided_make(void *base, uint64_t itemsize, unsigned ndim, const int64_t *shape,
			     const int64_t *strides);

/* 0 when a dimension is 0; UINT64_MAX: that many or more, as zero strides can have it. */
uint64_t strided_bytes(const struct strided *l);

/*
 * May two elements share a byte?  Never true for slices, transposed and reversed arrays, and
 * exact for everything of at most 65536 runs; a larger array that interlocks its
 * dimensions in another way is taken to overlap.
 */
bool strided_overlaps(const struct strided *l);

/* Copy the first @bytes bytes in C order out of, or into, strided memory. */
void strided_pack(const struct strided *l, void *to, uint64_t bytes);
void strided_unpack(const struct strided *l, const void *from, uint64_t bytes);

/*
 * The first @bytes bytes as a list of runs.  Returns how many there are; stores them when
 * @iov is not NULL (with room for that many).
 */
uint64_t strided_runs(const struct strided *l, struct penstock_iov *iov, uint64_t bytes);

#endif
