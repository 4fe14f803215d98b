/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_CACHE_INTERNAL_H
#define PENSTOCK_MODEL_KV_CACHE_INTERNAL_H

/* The inside of the cache; of kv_cache*.c only. */
#include "load/model/kv_cache.h"
#include "load/model/kv_entries.h"

struct kv_list {
	uint32_t head, tail;
};

/* Bounds of comparisons with shares of the limit, as whole bytes. */
struct kv_tier_state {
	bool exists, last, unlimited;
	uint64_t limit;
	uint64_t fits;       /* used + need must be less */
	uint64_t empty;      /* used is less: nearly empty */
	uint64_t too_large;  /* a need of this or more skips the tier */
	uint64_t sparse;     /* what is in it is less, ... */
	uint64_t large_need; /* ... and the need is this or more: not worth it */
	uint64_t used;
	uint64_t entries;
	struct kv_list lists[KV_TIERS]; /* by the tier of the last touch */
};

struct kv_cache {
	struct kv_cache_opts o;
	struct kv_entries s;
	struct kv_tier_state tiers[KV_TIERS];
	kv_emit *emit;
	void *arg;
	uint64_t now;      /* the last stamp */
	uint64_t ceiling;  /* bytes of all entries: no sum is larger */
	bool event_failed; /* not all events were emitted: one failed */
	/* of debug builds */
	struct kv_counts event_counts;
	uint64_t dropped[KV_TIERS], unchecked;
};

/*
 * In debug builds, after every operation: has every byte that left a tier arrived in the next,
 * is `used' what came less what went?  And now and then, kv_cache_check().  Aborts.
 */
#ifndef KV_CACHE_CHECKED
#define KV_CACHE_CHECKED 0
#endif
void kv_cache_checked_event(struct kv_cache *c, const struct kv_event *ev);
void kv_cache_checked_drop(struct kv_cache *c, uint32_t i);
void kv_cache_checked_done(struct kv_cache *c);

#endif
