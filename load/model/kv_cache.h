/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_CACHE_H
#define PENSTOCK_MODEL_KV_CACHE_H

/*
 * The three tiers and the waterfall between them, as decisions without I/O: what is where, what
 * has to move, in which order.  Each decision is an event; who carries events out or writes them
 * down is no business of the cache's.  One thread at a time.
 *
 * Deterministic: the order of eviction is the order of the last touch.  Cost per operation
 * does not grow with the number of entries.
 */
#include <stdbool.h>
#include <stdint.h>

#include "load/model/kv_key.h"
#include "load/model/kv_model.h"

enum kv_tier { KV_GPU, KV_CPU, KV_NVME, KV_TIERS };
extern const char *const kv_tier_names[KV_TIERS]; /* "gpu", "cpu", "nvme" */

#define KV_UNLIMITED UINT64_MAX

struct kv_cache_opts {
	const struct kv_model *model;
	uint32_t shards;          /* into which an entry is divided, >= 1; what is kept is one */
	bool has_gpu;             /* the tier exists; its limit may still be 0 */
	uint64_t limit[KV_TIERS]; /* bytes; KV_UNLIMITED for nvme only */
	uint32_t max_recursion_depth;    /* 10 */
	double target_usage_ratio;       /* 0.8 */
	double large_entry_limit_ratio;  /* 0.95 */
	uint32_t max_evictions_hard_cap; /* 5000 */
	uint32_t max_evictions_min;      /* 1000 */
};
void kv_cache_opts_defaults(struct kv_cache_opts *o);

enum kv_phase { KV_PREFILL, KV_DECODE, KV_EVICT, KV_PHASES };
extern const char *const kv_phase_names[KV_PHASES]; /* "Prefill", "Decode", "Evict" */
/* Of a read: what kind of reuse it was. */
enum kv_kind { KV_USER, KV_SYSTEM, KV_COMMON, KV_MULTI_TURN, KV_KINDS };

enum kv_event_type {
	KV_EV_WRITE,  /* phase PREFILL: a new entry;  EVICT: the second half of a demotion */
	KV_EV_READ,   /* phase DECODE (or PREFILL): a hit;  EVICT: the first half of a demotion */
	KV_EV_DELETE, /* phase EVICT: dropped from the last tier;  PREFILL: kv_cache_delete() */
	KV_EV_MISS,   /* asked for and not there; tier is meaningless, size 0 */
};

struct kv_event {
	uint8_t type, tier, phase, kind; /* enums above */
	uint32_t entry;  /* number of the entry: unique among live ones, used again after DELETE */
	uint32_t tokens; /* of the entry */
	uint64_t size;   /* bytes of one rank's object */
	struct kv_key key;
};

/*
 * Carry it out or write it down.  Returns 0, or -errno which ends the call that caused it; what
 * was decided up to there stays decided.  It must not call the cache.
 */
typedef int kv_emit(void *arg, const struct kv_event *ev);

struct kv_cache;
/* Returns 0 or -ENOMEM. */
int kv_cache_new(struct kv_cache **out, const struct kv_cache_opts *o, kv_emit *emit, void *arg);
void kv_cache_free(struct kv_cache *c);

/*
 * Put an entry in.  Returns the tier it is in (at once, without an event, when it was there
 * already), or -errno: that of an event, -ENOMEM, -EOVERFLOW (all bytes together are 2^64).  When
 * no tier takes it, the last one does, whatever its limit.
 */
int kv_cache_allocate(struct kv_cache *c, struct kv_key key, uint32_t tokens);

/* Read it: touch, event, tier; or -ENOENT with KV_EV_MISS. */
int kv_cache_access(struct kv_cache *c, struct kv_key key, enum kv_phase phase, enum kv_kind kind);

/*
 * Before operations on many keys: ask memory for what they will need, all at once.  Up to 32 keys
 * are of use, and only in a cache that is larger than the processor's.
 */
void kv_cache_prefetch(const struct kv_cache *c, const struct kv_key *keys, unsigned n);

/* Is it there?  Without touch and without event: tier or -ENOENT. */
int kv_cache_where(const struct kv_cache *c, struct kv_key key);

/* Forget an entry whose write failed: no event.  0 or -ENOENT. */
int kv_cache_drop(struct kv_cache *c, struct kv_key key);

/*
 * Its owner is done with an entry: KV_EV_DELETE from the tier it is in, of phase KV_PREFILL, since
 * it is no eviction.  0, -ENOENT or what the event came to.
 */
int kv_cache_delete(struct kv_cache *c, struct kv_key key);

uint64_t kv_cache_used(const struct kv_cache *c, enum kv_tier t); /* bytes */
uint64_t kv_cache_entries(const struct kv_cache *c, enum kv_tier t);
uint64_t kv_cache_limit(const struct kv_cache *c, enum kv_tier t);

/* Every live entry in the order of allocation, as an event with its tier: start with *@pos = 0. */
bool kv_cache_next(const struct kv_cache *c, uint64_t *pos, struct kv_event *ret);

/* Bytes of memory the cache uses, all told. */
uint64_t kv_cache_memory(const struct kv_cache *c);

/* used = sum of entries, lists and tables agree; for tests and debug builds.  0 or -EINVAL. */
int kv_cache_check(const struct kv_cache *c, struct penstock_err *err);

/*
 * What events add up to, in upstream's names.  In trace mode every event is counted; in a real
 * run those whose I/O completed inside the measured interval.
 */
struct kv_counts {
	uint64_t hits, misses, kind_hits[KV_KINDS];
	uint64_t evictions, offloads_cpu, offloads_storage;
	uint64_t prefill_writes, decode_reads;
	uint64_t write_ops, read_ops; /* of allocations and accesses, not of demotions */
	uint64_t total_write_bytes, total_read_bytes;
	uint64_t tier_written[KV_TIERS], tier_read[KV_TIERS]; /* bytes, demotions included */
	uint64_t tier_evicted_in[KV_TIERS], tier_evicted_out[KV_TIERS], tier_deleted[KV_TIERS];
	double storage_tokens;
	bool storage_tokens_float; /* a read of the storage tier was counted: Python prints a float
				    */
};
void kv_count(struct kv_counts *n, const struct kv_event *ev, const struct kv_cache_opts *o);

#endif
