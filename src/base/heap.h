/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_BASE_HEAP_H
#define SLUICE_BASE_HEAP_H

/* What comes first by its key, of equal keys the lowest number: a heap of such pairs. */
#include <stdint.h>

struct sluice_heap_item {
	uint64_t key, who;
};

/* Zeroed is empty. */
struct sluice_heap {
	struct sluice_heap_item *v;
	uint64_t nr, room;
};

/* Room for so many, after which putting them in cannot fail; 0 or -ENOMEM. */
int sluice_heap_reserve(struct sluice_heap *h, uint64_t room);
int sluice_heap_put(struct sluice_heap *h, uint64_t key, uint64_t who); /* 0 or -ENOMEM */
struct sluice_heap_item
sluice_heap_take(struct sluice_heap *h); /* the first; not from an empty one */
/* Take item @i out. */
void sluice_heap_remove(struct sluice_heap *h, uint64_t i);
/* Remove all with who >= @limit. */
void sluice_heap_cut(struct sluice_heap *h, uint64_t limit);
void sluice_heap_fini(struct sluice_heap *h);

static inline int sluice_heap_before(struct sluice_heap_item a, struct sluice_heap_item b)
{
	return a.key < b.key || (a.key == b.key && a.who < b.who);
}

/* The key of the first, UINT64_MAX where there is none. */
static inline uint64_t sluice_heap_first(const struct sluice_heap *h)
{
	return h->nr ? h->v[0].key : UINT64_MAX;
}

#endif
