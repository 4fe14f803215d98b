/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_HEAP_H
#define PENSTOCK_BASE_HEAP_H

/* What comes first by its key, of equal keys the lowest number: a heap of such pairs. */
#include <stdint.h>

struct penstock_heap_item {
	uint64_t key, who;
};

/* Zeroed is empty. */
struct penstock_heap {
	struct penstock_heap_item *v;
	uint64_t nr, room;
};

/* Room for so many, after which putting them in cannot fail; 0 or -ENOMEM. */
int penstock_heap_reserve(struct penstock_heap *h, uint64_t room);
int penstock_heap_put(struct penstock_heap *h, uint64_t key, uint64_t who); /* 0 or -ENOMEM */
struct penstock_heap_item
penstock_heap_take(struct penstock_heap *h); /* the first; not from an empty one */
/* Take item @i out. */
void penstock_heap_remove(struct penstock_heap *h, uint64_t i);
/* Remove all with who >= @limit. */
void penstock_heap_cut(struct penstock_heap *h, uint64_t limit);
void penstock_heap_fini(struct penstock_heap *h);

static inline int penstock_heap_before(struct penstock_heap_item a, struct penstock_heap_item b)
{
	return a.key < b.key || (a.key == b.key && a.who < b.who);
}

/* The key of the first, UINT64_MAX where there is none. */
static inline uint64_t penstock_heap_first(const struct penstock_heap *h)
{
	return h->nr ? h->v[0].key : UINT64_MAX;
}

#endif
