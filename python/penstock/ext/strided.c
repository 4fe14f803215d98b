/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strided memory.  Merging leaves as few dimensions as there can be; everything else is
 * one walk over what is left, with a copy, or an entry of a list, at its end.
 */
#include "strided.h"

#include <stdlib.h>
#include <string.h>

enum {
	TILE = 16,            /* elements of a row that are copied before the next row's turn */
	ENUMERATE_MAX = 65536 /* runs that are looked at one by one for an overlap */
};

static uint64_t mul_saturated(uint64_t a, uint64_t b)
{
	uint64_t r;

	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

static uint64_t abs_stride(int64_t stride)
{
	return stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
}

/* Does a step of @outer equal @inner run to its end? */
static bool continues_dim(const struct strided_dim *outer, const struct strided_dim *inner)
{
	uint64_t n;
	int64_t end;

	return !__builtin_mul_overflow(outer->n, inner->n, &n) &&
	       !__builtin_mul_overflow((int64_t)inner->n, inner->stride, &end) &&
	       inner->n <= INT64_MAX && outer->stride == end;
}

/* Merge each dimension with the one before it where that is possible. */
static void strided_merge(struct strided *l)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->ndim; i++) {
		struct strided_dim *d = &l->dim[i];

		if (d->n == 1)
			continue;
		if (n && continues_dim(&l->dim[n - 1], d)) {
			l->dim[n - 1].n *= d->n;
			l->dim[n - 1].stride = d->stride;
		} else {
			l->dim[n++] = *d;
		}
	}
	l->ndim = n;
}

struct strided *strided_make(void *base, uint64_t itemsize, unsigned ndim, const int64_t *shape,
			     const int64_t *strides)
{
	struct strided *l = malloc(sizeof(*l) + ndim * sizeof(*l->dim));
	uint64_t bytes, stride = itemsize;

	if (!l)
		return NULL;
	*l = (struct strided){.base = base, .run = itemsize, .ndim = ndim};
	for (unsigned i = ndim; i-- > 0;) {
		if (shape[i] <= 0)
			l->run = 0;
		l->dim[i].n = (uint64_t)shape[i];
		l->dim[i].stride = strides ? strides[i] : (int64_t)stride;
		stride *= (uint64_t)shape[i];
	}
	if (!l->run) {
		l->ndim = 0;
		return l;
	}
	strided_merge(l);
	if (l->ndim && l->dim[l->ndim - 1].stride == (int64_t)itemsize)
		l->run *= l->dim[--l->ndim].n;
	bytes = l->run;
	for (unsigned i = l->ndim; i-- > 0;) {
		l->dim[i].bytes = bytes;
		bytes = mul_saturated(bytes, l->dim[i].n);
	}
	return l;
}

uint64_t strided_bytes(const struct strided *l)
{
	return l->ndim ? mul_saturated(l->dim[0].n, l->dim[0].bytes) : l->run;
}

/* ------------------------------------------------------------------- the walk */

enum direction { PACK, UNPACK };

/* Sizes that are known when compiling become one load and one store. */
#define COPY_ROW(size)                                                      \
	for (uint64_t i = 0; i < n; i++, strided += stride, packed += size) \
	memcpy(way == PACK ? packed : strided, way == PACK ? strided : packed, size)

static inline __attribute__((always_inline)) void
copy_row(enum direction way, char *strided, int64_t stride, char *packed, uint64_t run, uint64_t n)
{
	switch (run) {
	case 1:
		COPY_ROW(1);
		break;
	case 2:
		COPY_ROW(2);
		break;
	case 4:
		COPY_ROW(4);
		break;
	case 8:
		COPY_ROW(8);
		break;
	case 16:
		COPY_ROW(16);
		break;
	default:
		COPY_ROW(run);
	}
}

static void pack_row(char *strided, int64_t stride, char *packed, uint64_t run, uint64_t n)
{
	copy_row(PACK, strided, stride, packed, run, n);
}

static void unpack_row(char *strided, int64_t stride, char *packed, uint64_t run, uint64_t n)
{
	copy_row(UNPACK, strided, stride, packed, run, n);
}

/*
 * Two whole dimensions.  Where the inner one takes the larger steps (a transposed
 * matrix), neighbours in memory are in different rows: copy a tile of all rows before
 * the next, so that each cache line is read once.
 */
static void copy_plane(const struct strided *l, char *strided, char *packed, enum direction way)
{
	const struct strided_dim *rows = &l->dim[l->ndim - 2], *cols = rows + 1;
	uint64_t tile = abs_stride(cols->stride) > abs_stride(rows->stride) ? TILE : cols->n;

	for (uint64_t at = 0; at < cols->n; at += tile) {
		uint64_t n = cols->n - at < tile ? cols->n - at : tile;
		char *from = strided + (int64_t)at * cols->stride, *to = packed + at * l->run;

		for (uint64_t i = 0; i < rows->n; i++) {
			if (way == PACK)
				pack_row(from, cols->stride, to, l->run, n);
			else
				unpack_row(from, cols->stride, to, l->run, n);
			from += rows->stride;
			to += rows->bytes;
		}
	}
}

/* The first @bytes bytes of what dimension @d and those behind it span. */
static void copy_dims(const struct strided *l, unsigned d, char *strided, char *packed,
		      uint64_t bytes, enum direction way)
{
	const struct strided_dim *dim = &l->dim[d];
	uint64_t step;

	if (d == l->ndim) {
		memcpy(way == PACK ? packed : strided, way == PACK ? strided : packed, bytes);
		return;
	}
	if (d + 2 == l->ndim && bytes == mul_saturated(dim->n, dim->bytes)) {
		copy_plane(l, strided, packed, way);
		return;
	}
	if (d + 1 == l->ndim) { /* whole runs; of the last one perhaps less, below */
		uint64_t n = bytes / l->run;

		(way == PACK ? pack_row : unpack_row)(strided, dim->stride, packed, l->run, n);
		strided += (int64_t)n * dim->stride;
		packed += n * l->run;
		bytes -= n * l->run;
	}
	for (; bytes; bytes -= step) {
		step = bytes < dim->bytes ? bytes : dim->bytes;
		copy_dims(l, d + 1, strided, packed, step, way);
		strided += dim->stride;
		packed += step;
	}
}

void strided_pack(const struct strided *l, void *to, uint64_t bytes)
{
	if (bytes)
		copy_dims(l, 0, l->base, to, bytes, PACK);
}

void strided_unpack(const struct strided *l, const void *from, uint64_t bytes)
{
	if (bytes)
		copy_dims(l, 0, l->base, (char *)(uintptr_t)from, bytes, UNPACK);
}

static struct penstock_iov *list_runs(const struct strided *l, unsigned d, char *strided,
				      struct penstock_iov *iov, uint64_t bytes)
{
	const struct strided_dim *dim = &l->dim[d];
	uint64_t step;

	if (d == l->ndim) {
		*iov = (struct penstock_iov){strided, bytes};
		return iov + 1;
	}
	for (; bytes; bytes -= step) {
		step = bytes < dim->bytes ? bytes : dim->bytes;
		iov = list_runs(l, d + 1, strided, iov, step);
		strided += dim->stride;
	}
	return iov;
}

uint64_t strided_runs(const struct strided *l, struct penstock_iov *iov, uint64_t bytes)
{
	if (!bytes)
		return 0;
	if (iov)
		list_runs(l, 0, l->base, iov, bytes);
	return bytes / l->run + (bytes % l->run != 0);
}

/* ---------------------------------------------------------------- overlap */

static int by_stride(const void *a, const void *b)
{
	const struct strided_dim *x = a, *y = b;

	return abs_stride(x->stride) < abs_stride(y->stride)
		       ? -1
		       : abs_stride(x->stride) > abs_stride(y->stride);
}

static int by_address(const void *a, const void *b)
{
	const struct penstock_iov *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Does a dimension step into what the finer ones span?  True also for lack of memory. */
static bool dims_interlock(const struct strided *l)
{
	struct strided_dim *dim = malloc((l->ndim + 1) * sizeof(*dim));
	uint64_t span = l->run; /* bytes from the first to behind the last */
	bool r = false;

	if (!dim)
		return true;
	memcpy(dim, l->dim, l->ndim * sizeof(*dim));
	qsort(dim, l->ndim, sizeof(*dim), by_stride);
	for (unsigned i = 0; i < l->ndim && !r; i++) {
		uint64_t step = abs_stride(dim[i].stride);

		r = step < span ||
		    __builtin_add_overflow(span, mul_saturated(step, dim[i].n - 1), &span);
	}
	free(dim);
	return r;
}

bool strided_overlaps(const struct strided *l)
{
	uint64_t bytes = strided_bytes(l), n;
	struct penstock_iov *iov;
	bool r = false;

	if (!l->run || !dims_interlock(l))
		return false;
	n = strided_runs(l, NULL, bytes);
	if (bytes == UINT64_MAX || n > ENUMERATE_MAX)
		return true;
	iov = malloc(n * sizeof(*iov));
	if (!iov)
		return true;
	strided_runs(l, iov, bytes);
	qsort(iov, n, sizeof(*iov), by_address);
	for (uint64_t i = 1; i < n && !r; i++)
		r = (char *)iov[i].addr - (char *)iov[i - 1].addr < (int64_t)l->run;
	free(iov);
	return r;
}
