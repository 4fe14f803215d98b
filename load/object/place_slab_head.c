/* SPDX-License-Identifier: Apache-2.0 */
/* The head and the index of a slab: read as if anybody had written them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/full_io.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/object/place_slab.h"

#define SLAB_MAGIC "penstock slab2\x01"

/* One object in the index: then its extents, its name, its shape. */
struct slab_entry {
	uint64_t size, content;
	uint32_t nr_extents, name_len, shape_len, element;
};

int slab_read(int fd, void *buf, uint64_t len, uint64_t at)
{
	int64_t n = penstock_full_pread(fd, buf, len, at);

	return n < 0 ? (int)n : (uint64_t)n == len ? 0 : -ENODATA;
}

/* ------------------------------------------------------------------- head */

static uint64_t head_check(struct slab_head h)
{
	h.check = 0;
	return content_id(&h, sizeof(h));
}

int slab_head_read(struct slab_head *h, int fd)
{
	int r = slab_read(fd, h, sizeof(*h), 0);

	if (r < 0)
		return r == -ENODATA ? 0 : r;
	return !memcmp(h->magic, SLAB_MAGIC, sizeof(h->magic)) && h->check == head_check(*h);
}

bool slab_head_fits(const struct slab_head *h, uint64_t bytes)
{
	uint64_t at;

	if (!place_unit_fits(h->unit) || !h->units || h->units > UINT32_MAX)
		return false;
	at = slab_index_offset(h->units, h->unit); /* less than 2^62 + 2^20 */
	return at <= bytes && h->index_len <= bytes - at &&
	       h->objects <= h->index_len / sizeof(struct slab_entry);
}

int slab_head_write(const struct place *p, int fd, uint64_t units, bool kept)
{
	struct slab_head h = {.magic = SLAB_MAGIC, .units = units, .unit = p->unit, .kept = kept};

	if (kept) {
		h.index_len = p->index_len;
		h.index_id = content_id(p->index ? p->index : "", p->index_len);
		h.objects = p->index_nr;
	}
	h.check = head_check(h);
	return penstock_full_pwrite(fd, &h, sizeof(h), 0);
}

/* ------------------------------------------------------------------ index */

/* Room for @len bytes more. */
static int index_reserve(struct place *p, uint64_t len)
{
	int r = ARRAY_RESERVE(p->index, p->index_capacity, p->index_len + len);

	p->index_failed |= r < 0;
	return r;
}

static void index_append(struct place *p, const void *from, uint64_t len)
{
	if (len)
		memcpy((char *)p->index + p->index_len, from, len);
	p->index_len += len;
}

int slab_keep(struct place *p, const struct place_old *o)
{
	struct slab_entry e = {.size = o->size,
			       .content = o->content,
			       .nr_extents = o->where.nr,
			       .name_len = o->name_len,
			       .shape_len = o->shape ? (uint32_t)strlen(o->shape) : 0,
			       .element = o->element};
	uint64_t extents = (uint64_t)e.nr_extents * sizeof(struct extent);
	int r = index_reserve(p, sizeof(e) + extents + e.name_len + e.shape_len);

	if (r < 0)
		return r;
	index_append(p, &e, sizeof(e));
	index_append(p, extents_at(&o->where, 0), extents);
	index_append(p, o->name, e.name_len);
	index_append(p, o->shape, e.shape_len);
	p->index_nr++;
	return 0;
}

static char *copy_text(const char *from, uint32_t len)
{
	char *to = malloc((size_t)len + 1);

	if (to) {
		memcpy(to, from, len);
		to[len] = '\0';
	}
	return to;
}

/* The extents of an object at *@at; they cannot be more than there are units. */
static int take_extents(struct place *p, struct place_old *o, uint32_t nr, const char **at)
{
	struct extent x;
	uint64_t units = 0;
	int r;

	for (; nr; nr--, *at += sizeof(x)) {
		memcpy(&x, *at, sizeof(x));
		r = extents_alloc_at(&o->where, p->map, x);
		if (r < 0)
			return r == -ENOMEM ? r : -EINVAL;
		units += x.count;
	}
	return o->size <= units * p->unit ? 0 : -EINVAL;
}

/* One object of the index at *@at; -EINVAL when it does not add up. */
static int take_entry(struct place *p, const char **at, const char *end)
{
	struct slab_entry e;
	struct place_old *o;
	int r;

	if ((uint64_t)(end - *at) < sizeof(e))
		return -EINVAL;
	memcpy(&e, *at, sizeof(e));
	*at += sizeof(e);
	if ((uint64_t)(end - *at) <
	    (uint64_t)e.nr_extents * sizeof(struct extent) + (uint64_t)e.name_len + e.shape_len)
		return -EINVAL;
	o = place_old_add(p);
	if (!o)
		return -ENOMEM;
	o->size = e.size;
	o->content = e.content;
	o->element = (uint8_t)e.element;
	r = take_extents(p, o, e.nr_extents, at);
	if (r < 0)
		return r;
	o->name_len = e.name_len;
	o->name = copy_text(*at, e.name_len);
	*at += e.name_len;
	o->shape = e.shape_len ? copy_text(*at, e.shape_len) : NULL;
	*at += e.shape_len;
	return o->name && (o->shape || !e.shape_len) ? 0 : -ENOMEM;
}

int slab_damaged(const struct place *p, struct penstock_err *err)
{
	return penstock_fail(err, -EINVAL, "%s: its index is damaged; have it made anew (--fresh)",
			     p->slab);
}

int slab_index_load(struct place *p, const struct slab_head *h, struct penstock_err *err)
{
	CLEANUP_FREE char *index = malloc(h->index_len + 1);
	const char *at = index;
	int r = index ? slab_read(p->slab_fd, index, h->index_len,
				  slab_index_offset(h->units, h->unit))
		      : -ENOMEM;

	if (r == 0 && content_id(index, h->index_len) != h->index_id)
		r = -EINVAL;
	for (uint64_t i = 0; r == 0 && i < h->objects; i++)
		r = take_entry(p, &at, index + h->index_len);
	if (r == -EINVAL)
		return slab_damaged(p, err);
	return r < 0 ? penstock_fail(err, r, "%s: cannot read its index: %s", p->slab, strerror(-r))
		     : 0;
}
