/* SPDX-License-Identifier: Apache-2.0 */
/* Four children per node: less deep, and the children are in one cache line. */
#include "base/heap.h"

#include "base/util.h"

#define WAYS 4

int penstock_heap_reserve(struct penstock_heap *h, uint64_t capacity)
{
	return ARRAY_RESERVE(h->v, h->capacity, capacity);
}

void penstock_heap_fini(struct penstock_heap *h)
{
	free(h->v);
	*h = (struct penstock_heap){.nr = 0};
}

static void penstock_heap_sink(struct penstock_heap *h, uint64_t i, struct penstock_heap_item item)
{
	for (;;) {
		uint64_t child = i * WAYS + 1, least = child, end = min_u64(child + WAYS, h->nr);

		if (child >= h->nr)
			break;
		while (++child < end)
			if (penstock_heap_before(h->v[child], h->v[least]))
				least = child;
		if (!penstock_heap_before(h->v[least], item))
			break;
		h->v[i] = h->v[least];
		i = least;
	}
	h->v[i] = item;
}

int penstock_heap_push(struct penstock_heap *h, uint64_t key, uint64_t value)
{
	struct penstock_heap_item item = {key, value};
	uint64_t i;

	if (penstock_heap_reserve(h, h->nr + 1) < 0)
		return -ENOMEM;
	for (i = h->nr++; i && penstock_heap_before(item, h->v[(i - 1) / WAYS]); i = (i - 1) / WAYS)
		h->v[i] = h->v[(i - 1) / WAYS];
	h->v[i] = item;
	return 0;
}

struct penstock_heap_item penstock_heap_pop(struct penstock_heap *h)
{
	struct penstock_heap_item top = h->v[0];

	if (--h->nr)
		penstock_heap_sink(h, 0, h->v[h->nr]);
	return top;
}

void penstock_heap_remove(struct penstock_heap *h, uint64_t i)
{
	for (; i; i = (i - 1) / WAYS)
		h->v[i] = h->v[(i - 1) / WAYS];
	penstock_heap_pop(h);
}

void penstock_heap_remove_from(struct penstock_heap *h, uint64_t limit)
{
	uint64_t nr = 0;

	for (uint64_t i = 0; i < h->nr; i++)
		if (h->v[i].value < limit)
			h->v[nr++] = h->v[i];
	h->nr = nr;
	for (uint64_t i = nr; i-- > 0;)
		penstock_heap_sink(h, i, h->v[i]);
}
