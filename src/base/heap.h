/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_HEAP_H
#define PENSTOCK_BASE_HEAP_H

/* A priority queue of (key, value): the smallest key first, of equal keys the smallest value. */
#include <stdint.h>

struct penstock_heap_item {
	uint64_t key, value;
};

/* Zeroed is empty. */
struct penstock_heap {
	struct penstock_heap_item *v;
	uint64_t nr, capacity;
};

/* Memory for @capacity items, after which pushing them cannot fail.  0 or -ENOMEM. */
int penstock_heap_reserve(struct penstock_heap *h, uint64_t capacity);
int penstock_heap_push(struct penstock_heap *h, uint64_t key, uint64_t value); /* 0 or -ENOMEM */
struct penstock_heap_item
penstock_heap_pop(struct penstock_heap *h); /* the first; not from an empty one */
/* Take item @i out. */
void penstock_heap_remove(struct penstock_heap *h, uint64_t i);
/* Remove all with value >= @limit. */
void penstock_heap_remove_from(struct penstock_heap *h, uint64_t limit);
void penstock_heap_fini(struct penstock_heap *h);

static inline int penstock_heap_before(struct penstock_heap_item a, struct penstock_heap_item b)
{
	return a.key < b.key || (a.key == b.key && a.value < b.value);
}

/* The key of the first, UINT64_MAX where there is none. */
static inline uint64_t penstock_heap_first(const struct penstock_heap *h)
{
	return h->nr ? h->v[0].key : UINT64_MAX;
}

#endif
