/* SPDX-License-Identifier: Apache-2.0 */
/* Heaps with four children per node: less deep, and the children are in one cache line. */
#include "load/model/kv_queue.h"

#include <errno.h>
#include <stdlib.h>

#define WAYS 4

static bool before(struct kv_heap_item a, struct kv_heap_item b)
{
	return a.at_ns < b.at_ns || (a.at_ns == b.at_ns && a.who < b.who);
}

int kv_heap_init(struct kv_heap *h, uint32_t room)
{
	*h = (struct kv_heap){.v = calloc(room ? room : 1, sizeof(*h->v)), .room = room};
	return h->v ? 0 : -ENOMEM;
}

void kv_heap_fini(struct kv_heap *h)
{
	free(h->v);
	*h = (struct kv_heap){0};
}

static void sink(struct kv_heap *h, uint32_t i)
{
	struct kv_heap_item item = h->v[i];

	for (;;) {
		uint32_t child = i * WAYS + 1, least = child;
		uint32_t end = child + WAYS < h->nr ? child + WAYS : h->nr;

		if (child >= h->nr)
			break;
		while (++child < end)
			if (before(h->v[child], h->v[least]))
				least = child;
		if (!before(h->v[least], item))
			break;
		h->v[i] = h->v[least];
		i = least;
	}
	h->v[i] = item;
}

void kv_heap_put(struct kv_heap *h, uint64_t at_ns, uint32_t who)
{
	struct kv_heap_item item = {at_ns, who};
	uint32_t i = h->nr++;

	for (; i && before(item, h->v[(i - 1) / WAYS]); i = (i - 1) / WAYS)
		h->v[i] = h->v[(i - 1) / WAYS];
	h->v[i] = item;
}

struct kv_heap_item kv_heap_take(struct kv_heap *h)
{
	struct kv_heap_item top = h->v[0];

	h->v[0] = h->v[--h->nr];
	if (h->nr)
		sink(h, 0);
	return top;
}

void kv_heap_cut(struct kv_heap *h, uint32_t limit)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < h->nr; i++)
		if (h->v[i].who < limit)
			h->v[nr++] = h->v[i];
	h->nr = nr;
	for (uint32_t i = nr / WAYS + 1; i-- > 0;)
		if (i < nr)
			sink(h, i);
}

int kv_queue_init(struct kv_queue *q, const struct kv_params *p, uint32_t room)
{
	int r = 0;

	for (int i = 0; i < KV_QOS; i++) {
		q->priority[i] = p->config.qos[i].priority;
		if (r == 0)
			r = kv_heap_init(&q->level[i], room);
	}
	return r;
}

void kv_queue_fini(struct kv_queue *q)
{
	for (int i = 0; i < KV_QOS; i++)
		kv_heap_fini(&q->level[i]);
}

uint64_t kv_queue_first(const struct kv_queue *q)
{
	uint64_t first = UINT64_MAX;

	for (int i = 0; i < KV_QOS; i++)
		if (q->level[i].nr && q->level[i].v[0].at_ns < first)
			first = q->level[i].v[0].at_ns;
	return first;
}

int kv_queue_take(struct kv_queue *q, uint64_t now_ns, struct kv_heap_item *ret)
{
	int best = -1;

	for (int i = 0; i < KV_QOS; i++) {
		if (!q->level[i].nr || q->level[i].v[0].at_ns > now_ns)
			continue;
		if (best < 0 || q->priority[i] > q->priority[best] ||
		    (q->priority[i] == q->priority[best] &&
		     before(q->level[i].v[0], q->level[best].v[0])))
			best = i;
	}
	if (best >= 0)
		*ret = kv_heap_take(&q->level[best]);
	return best;
}
