/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/crc_pieces.h"

#include <penstock/ckpt.h>

#include "base/crc32c.h"
#include "base/util.h"

/* The stretch that ends here, if it goes on; else a new one. */
static struct crc_piece *piece_at(struct crc_pieces *s, uint64_t offset)
{
	struct crc_piece *last = s->nr ? &s->v[s->nr - 1] : NULL;
	uint64_t end = last ? last->offset + last->len : 0;

	if (last && end == offset && offset % PENSTOCK_CHUNK)
		return last;
	if (ARRAY_RESERVE(s->v, s->capacity, s->nr + 1) < 0)
		return NULL;
	s->unsorted |= offset < end;
	s->v[s->nr] = (struct crc_piece){offset, 0, 0};
	return &s->v[s->nr++];
}

int crc_pieces_add(struct crc_pieces *s, uint64_t offset, const void *data, uint64_t len)
{
	const char *p = data;

	while (len) {
		uint64_t n = min_u64(len, PENSTOCK_CHUNK - offset % PENSTOCK_CHUNK);
		struct crc_piece *at = piece_at(s, offset);

		if (!at)
			return -ENOMEM;
		at->crc = penstock_crc32c(at->crc, p, n);
		at->len += (uint32_t)n;
		p += n;
		offset += n;
		len -= n;
	}
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct crc_piece *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Of @len zero bytes. */
static uint32_t crc_of_zeros(uint64_t len)
{
	return ~penstock_crc32c_combine(UINT32_MAX, 0, len);
}

/* @crc of @done bytes, followed by @len with @next. */
static uint32_t append_crc(uint32_t crc, uint64_t done, uint32_t next, uint64_t len)
{
	return done ? penstock_crc32c_combine(crc, next, len) : next;
}

/* The chunk from @begin to @end out of the stretches from *@i on; false: some overlap. */
static bool combine_chunk(const struct crc_pieces *s, uint64_t *i, uint64_t begin, uint64_t end,
			  uint32_t *ret)
{
	uint64_t at = begin;
	uint32_t crc = 0;
	bool disjoint = true;

	for (; *i < s->nr && s->v[*i].offset < end; ++*i) {
		const struct crc_piece *v = &s->v[*i];

		if (v->offset < at)
			disjoint = false;
		if (!disjoint)
			continue;
		if (v->offset > at)
			crc = append_crc(crc, at - begin, crc_of_zeros(v->offset - at),
					 v->offset - at);
		crc = append_crc(crc, v->offset - begin, v->crc, v->len);
		at = v->offset + v->len;
	}
	if (at < end)
		crc = append_crc(crc, at - begin, crc_of_zeros(end - at), end - at);
	*ret = crc;
	return disjoint;
}

int crc_pieces_combine(struct crc_pieces *s, uint64_t bytes, uint32_t *crcs,
		       int (*reread)(void *arg, uint64_t offset, uint64_t len, uint32_t *ret_crc),
		       void *arg)
{
	uint64_t i = 0;
	int r = 0;

	if (s->unsorted)
		qsort(s->v, s->nr, sizeof(*s->v), by_offset);
	for (uint64_t begin = 0; begin < bytes && r == 0; begin += PENSTOCK_CHUNK, crcs++) {
		uint64_t end = min_u64(begin + PENSTOCK_CHUNK, bytes);

		if (!combine_chunk(s, &i, begin, end, crcs))
			r = reread(arg, begin, end - begin, crcs);
	}
	return r;
}

void crc_pieces_free(struct crc_pieces *s)
{
	free(s->v);
	*s = (struct crc_pieces){0};
}
