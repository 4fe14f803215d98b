/* SPDX-License-Identifier: Apache-2.0 */
/* What events add up to, by upstream's rules. */
#include "load/model/kv_cache.h"

/* An entry has come to a tier other than the first, by itself or from above. */
static void count_offload(struct kv_counts *n, const struct kv_event *ev, uint64_t tokens)
{
	if (ev->tier == KV_CPU)
		n->offloads_cpu++;
	if (ev->tier != KV_NVME)
		return;
	n->offloads_storage++;
	n->storage_tokens += (double)tokens;
}

static void count_write(struct kv_counts *n, const struct kv_event *ev,
			const struct kv_cache_opts *o)
{
	uint64_t per_token;

	n->tier_written[ev->tier] += ev->size;
	if (ev->phase == KV_EVICT) {
		per_token = kv_model_bytes_per_token(o->model) / o->shards;
		n->evictions++;
		n->tier_evicted_in[ev->tier] += ev->size;
		count_offload(n, ev, per_token ? ev->size / per_token : 0);
		return;
	}
	n->prefill_writes++;
	n->write_ops++;
	n->total_write_bytes += ev->size;
	count_offload(n, ev, ev->tokens);
}

static void count_read(struct kv_counts *n, const struct kv_event *ev,
		       const struct kv_cache_opts *o)
{
	n->tier_read[ev->tier] += ev->size;
	if (ev->phase == KV_EVICT) {
		n->tier_evicted_out[ev->tier] += ev->size;
		return;
	}
	n->hits++;
	n->kind_hits[ev->kind]++;
	n->decode_reads += ev->phase == KV_DECODE;
	n->read_ops++;
	n->total_read_bytes += ev->size;
	if (ev->tier == KV_NVME) {
		double per_token = (double)kv_model_bytes_per_token(o->model) / o->shards;

		n->storage_tokens += (double)ev->size / per_token;
		n->storage_tokens_float = true;
	}
}

void kv_count(struct kv_counts *n, const struct kv_event *ev, const struct kv_cache_opts *o)
{
	switch (ev->type) {
	case KV_EV_WRITE:
		count_write(n, ev, o);
		break;
	case KV_EV_READ:
		count_read(n, ev, o);
		break;
	case KV_EV_DELETE:
		n->evictions += ev->phase == KV_EVICT;
		n->tier_deleted[ev->tier] += ev->size;
		break;
	case KV_EV_MISS:
		n->misses++;
		break;
	}
}
