/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/read_plan.h"

#include "base/util.h"

enum {
	PAGE = 4096,
	DIRECT_MIN = 4 << 20, /* below, a copy is cheaper than transfers with ragged ends */
	GAP_MAX = 64 << 10,   /* bytes nobody wants that are read rather than skipped */
};

static uint64_t span_begin(const struct read_plan *w, uint64_t offset)
{
	return align_down(offset, w->verify ? PENSTOCK_CHUNK : PAGE);
}

static uint64_t span_end(const struct read_plan *w, uint64_t end)
{
	return min_u64(align_up(end, w->verify ? PENSTOCK_CHUNK : PAGE), w->bytes);
}

/* Cut at multiples of the window. */
static int add_cut(struct read_plan *w, struct read_part t, uint64_t end)
{
	while (t.offset < end) {
		uint64_t stop = min_u64(end, t.offset - t.offset % w->window + w->window);

		if (ARRAY_RESERVE(w->v, w->capacity, w->nr + 1) < 0)
			return -ENOMEM;
		t.len = stop - t.offset;
		w->v[w->nr++] = t;
		if (t.buf)
			t.buf += t.len;
		t.offset = stop;
	}
	return 0;
}

/* The part from @begin to @end of a piece. */
static int add_part(struct read_plan *w, const struct penstock_piece *p, uint64_t begin,
		    uint64_t end, bool direct, bool device)
{
	struct read_part t = {.offset = begin, .direct = direct, .device = device};

	if (begin >= end)
		return 0;
	t.buf = p->buf ? (char *)p->buf + (begin - p->offset) : NULL;
	return add_cut(w, t, end);
}

int read_plan_add(struct read_plan *w, const struct penstock_piece *p, bool device)
{
	uint64_t end = p->offset + p->len, lo = p->offset, hi = end;
	int r;

	if (w->verify) {
		lo = align_up(lo, PENSTOCK_CHUNK);
		hi = end == w->bytes ? end : align_down(end, PENSTOCK_CHUNK);
	}
	/* What has to be summed must be seen by the processor. */
	if (!p->buf || (w->verify && device) || hi < lo || hi - lo < DIRECT_MIN)
		return p->buf || w->verify ? add_part(w, p, p->offset, end, false, device) : 0;
	r = add_part(w, p, p->offset, lo, false, device);
	if (r == 0)
		r = add_part(w, p, lo, hi, true, device);
	return r == 0 ? add_part(w, p, hi, end, false, device) : r;
}

static int by_offset(const void *a, const void *b)
{
	const struct read_part *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void read_plan_sort(struct read_plan *w)
{
	for (uint64_t i = 1; i < w->nr; i++)
		if (w->v[i].offset < w->v[i - 1].offset) {
			qsort(w->v, w->nr, sizeof(*w->v), by_offset);
			return;
		}
}

struct read_span read_plan_span(const struct read_plan *w, uint64_t first)
{
	const struct read_part *t = &w->v[first];
	uint64_t begin = t->offset, end = begin + t->len, nr = 1;

	if (t->direct)
		return (struct read_span){begin, t->len, first, 1};
	begin = span_begin(w, begin);
	end = span_end(w, end);
	for (; first + nr < w->nr; nr++) {
		const struct read_part *next = t + nr;
		uint64_t stop = span_end(w, next->offset + next->len);

		if (next->direct || next->offset / w->window != begin / w->window ||
		    span_begin(w, next->offset) > end + (w->verify ? 0 : GAP_MAX))
			break;
		end = max_u64(end, stop);
	}
	return (struct read_span){begin, end - begin, first, nr};
}

void read_plan_free(struct read_plan *w)
{
	free(w->v);
	w->v = NULL;
	w->nr = w->capacity = 0;
}
