/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_CONV_H
#define PENSTOCK_MODEL_KV_CONV_H

/*
 * The conversation manager: a record per conversation, at most so many; for a new one the least
 * recently used is forgotten.  What is cached of a forgotten conversation stays in the cache.
 */
#include <stdbool.h>
#include <stdint.h>

#define KV_NO_CONV UINT32_MAX

struct kv_conv {
	uint64_t ms; /* of its name: when it began, since the epoch */
	uint32_t user;
	uint32_t turns;
	uint32_t older, newer; /* by last use */
};

struct kv_convs {
	struct kv_conv *v;
	uint32_t nr, capacity, max;
	uint32_t oldest, newest;
};

/* At most @max records, at least 1.  Returns 0 or -ENOMEM. */
int kv_convs_init(struct kv_convs *c, int64_t max);
void kv_convs_fini(struct kv_convs *c);

/* A new conversation without turns; its slot. */
uint32_t kv_convs_start(struct kv_convs *c, uint32_t user, uint64_t ms);
/* Does @slot still hold that conversation? */
bool kv_convs_has(const struct kv_convs *c, uint32_t slot, uint32_t user, uint64_t ms);
/* Register a turn: its number, from 1. */
uint32_t kv_convs_turn(struct kv_convs *c, uint32_t slot);

#endif
