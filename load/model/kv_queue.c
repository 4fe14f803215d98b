/* SPDX-License-Identifier: Apache-2.0 */
/* A heap for each level of service. */
#include "load/model/kv_queue.h"

#include "base/util.h"

int kv_queue_init(struct kv_queue *q, const struct kv_params *p, uint32_t capacity)
{
	int r = 0;

	for (int i = 0; i < KV_QOS; i++) {
		q->priority[i] = p->config.qos[i].priority;
		if (r == 0)
			r = penstock_heap_reserve(&q->level[i], capacity);
	}
	return r;
}

void kv_queue_fini(struct kv_queue *q)
{
	for (int i = 0; i < KV_QOS; i++)
		penstock_heap_fini(&q->level[i]);
}

uint64_t kv_queue_first(const struct kv_queue *q)
{
	uint64_t first = UINT64_MAX;

	for (int i = 0; i < KV_QOS; i++)
		first = min_u64(first, penstock_heap_first(&q->level[i]));
	return first;
}

int kv_queue_take(struct kv_queue *q, uint64_t now_ns, struct penstock_heap_item *ret)
{
	int best = -1;

	for (int i = 0; i < KV_QOS; i++) {
		if (!q->level[i].nr || penstock_heap_first(&q->level[i]) > now_ns)
			continue;
		if (best < 0 || q->priority[i] > q->priority[best] ||
		    (q->priority[i] == q->priority[best] &&
		     penstock_heap_before(q->level[i].v[0], q->level[best].v[0])))
			best = i;
	}
	if (best >= 0)
		*ret = penstock_heap_pop(&q->level[best]);
	return best;
}
