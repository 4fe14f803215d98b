/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_QUEUE_H
#define PENSTOCK_MODEL_KV_QUEUE_H

/*
 * Who is next: the queue is made of one heap of times per level of service.  What is
 * queued are not requests but those that make them, each once, at the arrival of its next request.
 * So the queue is as large as the number of users, however far the workers are behind.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "load/model/kv_params.h"

struct kv_queue {
	struct penstock_heap level[KV_QOS];
	int64_t priority[KV_QOS];
};
int kv_queue_init(struct kv_queue *q, const struct kv_params *p, uint32_t capacity);
void kv_queue_fini(struct kv_queue *q);

/* The earliest arrival of all; UINT64_MAX: nobody is waiting. */
uint64_t kv_queue_first(const struct kv_queue *q);

/*
 * Of those that have arrived at @now_ns the one with the highest priority, of equal ones the
 * earliest: its level, or -1 when nobody has arrived.
 */
int kv_queue_take(struct kv_queue *q, uint64_t now_ns, struct penstock_heap_item *ret);

#endif
