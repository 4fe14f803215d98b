/* SPDX-License-Identifier: Apache-2.0 */
/* What runs of both kinds put into a result, and the memory of one. */
#include "load/kv/kv_result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"

#define CHANNEL(name, kind, member)                               \
	{                                                         \
		name, kind, offsetof(struct kv_second, member), 0 \
	}

static const struct per_second_channel channels[] = {
	CHANNEL("read_latency_sum", PER_SECOND_SUM, read_latency_sum),
	CHANNEL("write_latency_sum", PER_SECOND_SUM, write_latency_sum),
	CHANNEL("queued", PER_SECOND_COUNT, queued),
	CHANNEL("in_flight", PER_SECOND_COUNT, in_flight),
	CHANNEL("requests", PER_SECOND_COUNT, requests),
	CHANNEL("tokens", PER_SECOND_COUNT, tokens),
	CHANNEL("hits", PER_SECOND_COUNT, hits),
	CHANNEL("misses", PER_SECOND_COUNT, misses),
	CHANNEL("gpu_read_bytes", PER_SECOND_COUNT, read_bytes[KV_GPU]),
	CHANNEL("cpu_read_bytes", PER_SECOND_COUNT, read_bytes[KV_CPU]),
	CHANNEL("nvme_read_bytes", PER_SECOND_COUNT, read_bytes[KV_NVME]),
	CHANNEL("gpu_write_bytes", PER_SECOND_COUNT, write_bytes[KV_GPU]),
	CHANNEL("cpu_write_bytes", PER_SECOND_COUNT, write_bytes[KV_CPU]),
	CHANNEL("nvme_write_bytes", PER_SECOND_COUNT, write_bytes[KV_NVME]),
	CHANNEL("read_ops", PER_SECOND_COUNT, read_ops),
	CHANNEL("write_ops", PER_SECOND_COUNT, write_ops),
};

int kv_result_init(struct kv_result *r)
{
	*r = (struct kv_result){.seconds = {.channels = channels,
					    .nr_channels = ARRAY_SIZE(channels),
					    .size = sizeof(struct kv_second)}};
	for (int i = 0; i < 2; i++) {
		if (series_init(&r->series[i]) < 0) {
			kv_result_fini(r);
			return -ENOMEM;
		}
	}
	return 0;
}

void kv_result_fini(struct kv_result *r)
{
	struct samples *single[] = {&r->end_to_end, &r->storage, &r->generation,
				    &r->prefill,    &r->decode,  &r->device[0],
				    &r->device[1],  &r->host[0], &r->host[1]};

	for (size_t i = 0; i < ARRAY_SIZE(single); i++)
		samples_fini(single[i]);
	for (int i = 0; i < KV_QOS; i++)
		samples_fini(&r->qos[i]);
	for (int i = 0; i < KV_TIERS; i++) {
		for (int j = 0; j < 2; j++) {
			samples_fini(&r->tier[i][j]);
			samples_fini(&r->evict[i][j]);
		}
	}
	for (int i = 0; i < 2; i++)
		series_fini(&r->series[i]);
	per_second_fini(&r->seconds);
	free(r->timeline);
	free(r->scale);
	*r = (struct kv_result){0};
}

int kv_result_request(struct kv_result *r, const struct kv_params *p,
		      const struct kv_request_done *d)
{
	/* what ends with a second is part of it */
	struct kv_second *sec = per_second_at(&r->seconds, d->end_ns ? d->end_ns - 1 : 0);

	if (!sec || samples_add(&r->end_to_end, d->end_to_end) < 0 ||
	    samples_add(&r->storage, d->storage) < 0 ||
	    samples_add(&r->generation, d->generation) < 0 ||
	    samples_add(&r->qos[d->qos], d->end_to_end) < 0)
		return -ENOMEM;
	sec->requests++;
	sec->tokens += d->tokens;
	r->requests++;
	r->tokens += d->tokens;
	r->storage_io_sec += d->storage;
	r->generation_sec += d->generation;
	r->qos_violations[d->qos] += d->end_to_end * 1e3 > p->config.qos[d->qos].p95_ms;
	return 0;
}

void kv_result_planned(struct kv_result *r, const struct kv_params *p, const struct kv_planned *d)
{
	r->turn_hits += d->turn_hits;
	r->turn_misses += d->turn_misses;
	if (!p->prefix)
		return;
	r->prefix_hits += d->prefix_hit;
	r->prefix_misses += !d->prefix_hit;
	r->prefix_bytes_saved += d->prefix_bytes_saved;
}

int kv_result_scaled(struct kv_result *r, const struct kv_scale *s, enum kv_scale_action action,
		     double at_sec, const struct kv_scale_sample *sample)
{
	struct kv_scale_event *event;

	if (ARRAY_GROW(r->timeline, r->nr_timeline) < 0 || ARRAY_GROW(r->scale, r->nr_scale) < 0)
		return -ENOMEM;
	r->timeline[r->nr_timeline].at_sec = at_sec;
	r->timeline[r->nr_timeline++].tokens_per_sec = sample->tokens_per_sec;
	r->users_end = s->users;
	r->users_peak = s->peak_users;
	r->peak_tokens_per_sec = s->peak_tokens_per_sec;
	event = &r->scale[r->nr_scale++];
	*event = (struct kv_scale_event){
		.at_sec = at_sec,
		.users = s->users,
		.saturation = s->saturation,
		.tokens_per_sec = sample->tokens_per_sec,
		.read_p95_ms = sample->read_p95_ms,
		.write_p95_ms = sample->write_p95_ms,
	};
	snprintf(event->action, sizeof(event->action), "%s", kv_scale_names[action]);
	return 0;
}

void kv_result_tiers(struct kv_result *r, const struct kv_cache *c)
{
	for (int i = 0; i < KV_TIERS; i++) {
		r->entries[i] = kv_cache_entries(c, (enum kv_tier)i);
		r->used[i] = kv_cache_used(c, (enum kv_tier)i);
		r->limit[i] = kv_cache_limit(c, (enum kv_tier)i);
	}
}

void kv_result_partial(struct kv_result *r, const char *why)
{
	r->partial = true;
	snprintf(r->partial_why, sizeof(r->partial_why), "%s", why);
}

void kv_result_input(struct kv_result *r, const struct kv_load *l)
{
	r->input_empty = kv_load_is_empty(l);
	r->input_bad = *kv_load_bad(l);
}
