/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts of a flow that know nothing of it: spans of time, pools, attributes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/flow_internal.h"

enum { SLAB = 256 }; /* structs allocated at a time */

/* ------------------------------------------------------------------ spans */

static void fold_oldest(struct span *s)
{
	unsigned first = 0;

	for (unsigned i = 1; i < s->n; i++)
		if (s->v[i].from < s->v[first].from)
			first = i;
	s->sum += s->v[first].to - s->v[first].from;
	s->past = s->v[first].to;
	s->v[first] = s->v[--s->n];
}

void span_add(struct span *s, uint64_t from, uint64_t to)
{
	unsigned kept = 0;

	from = max_u64(from, s->past);
	if (to <= from)
		return;
	for (unsigned i = 0; i < s->n; i++) {
		if (s->v[i].to < from || s->v[i].from > to) {
			s->v[kept++] = s->v[i];
			continue;
		}
		from = min_u64(from, s->v[i].from);
		to = max_u64(to, s->v[i].to);
	}
	s->n = kept;
	if (s->n == FLOW_SPANS)
		fold_oldest(s);
	s->v[s->n].from = from;
	s->v[s->n++].to = to;
}

uint64_t span_total(const struct span *s)
{
	uint64_t sum = s->sum;

	for (unsigned i = 0; i < s->n; i++)
		sum += s->v[i].to - s->v[i].from;
	return sum;
}

/* ------------------------------------------------------------------ pools */

void *arena_get(struct arena *a)
{
	void *p = a->unused;
	char *slab;

	if (!p) {
		if (ARRAY_GROW(a->slabs, a->nr_slabs) < 0)
			return NULL;
		slab = malloc(SLAB * a->size);
		if (!slab)
			return NULL;
		a->slabs[a->nr_slabs++] = slab;
		for (unsigned i = 1; i < SLAB; i++)
			arena_put(a, slab + i * a->size);
		p = slab;
	} else {
		a->unused = *(void **)p;
	}
	memset(p, 0, a->size);
	return p;
}

void arena_put(struct arena *a, void *p)
{
	*(void **)p = a->unused;
	a->unused = p;
}

void arena_fini(struct arena *a)
{
	for (unsigned i = 0; i < a->nr_slabs; i++)
		free(a->slabs[i]);
	free(a->slabs);
	*a = (struct arena){.size = a->size};
}

/* ----------------------------------------------------------------- attributes */

static const size_t attrs_sizes[ATTRS_CLASSES] = {64, 128, 256};

struct attrs *attrs_new(struct attrs_pool *l, const char *name, uint32_t name_len,
			const char *shape)
{
	size_t shape_len = shape ? strlen(shape) : 0;
	size_t size = sizeof(struct attrs) + name_len + shape_len + 1;
	struct attrs *attrs;
	unsigned class = 0;

	while (class < ARRAY_SIZE(attrs_sizes) && size > attrs_sizes[class])
		class ++;
	if (class < ARRAY_SIZE(attrs_sizes)) {
		l->of[class].size = attrs_sizes[class];
		attrs = arena_get(&l->of[class]);
	} else {
		attrs = malloc(size);
	}
	if (!attrs)
		return NULL;
	attrs->class = (uint8_t) class;
	attrs->name_len = name_len;
	attrs->shape_len = (uint16_t)shape_len;
	memcpy(attrs->text, name, name_len);
	if (shape_len)
		memcpy(attrs->text + name_len, shape, shape_len);
	attrs->text[name_len + shape_len] = '\0';
	return attrs;
}

void attrs_free(struct attrs_pool *l, struct attrs *attrs)
{
	if (!attrs)
		return;
	if (attrs->class < ARRAY_SIZE(attrs_sizes))
		arena_put(&l->of[attrs->class], attrs);
	else
		free(attrs);
}

void attrs_pool_fini(struct attrs_pool *l)
{
	for (unsigned i = 0; i < ARRAY_SIZE(l->of); i++)
		arena_fini(&l->of[i]);
}

const char *attrs_print_name(char out[NAME_TEXT], const struct attrs *l)
{
	enum { KEEP = 85 }; /* bytes that fit however much of them is escaped */
	char text[3 * KEEP + 1];
	bool printable = true;

	if (!l)
		return "object";
	for (uint32_t i = 0; printable && i < l->name_len; i++)
		printable = l->text[i] > ' ' && l->text[i] < 0x7f;
	if (printable) {
		penstock_print_elided(out, NAME_TEXT, "%.*s", (int)l->name_len, l->text);
		return out;
	}
	place_escape(text, l->text, min_u64(l->name_len, KEEP));
	snprintf(out, NAME_TEXT, "%s%s", text, l->name_len > KEEP ? "..." : "");
	return out;
}
