/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys are there.  Looking one up is two misses of the processor's cache; of several the
 * misses overlap, so keys are taken in groups.
 */
#include <errno.h>

#include "base/util.h"
#include "kvstore/kvstore.h"

enum { GROUP = 16 };

/* A group of keys, and whether one before them was missing and ends it. */
struct group {
	struct store_hash hash[GROUP];
	int64_t result[GROUP];
	unsigned nr;
	bool prefix, touch, ended;
};

static void group_find(struct penstock_store *s, struct group *g)
{
	struct store_entry *e;
	uint64_t now;

	if (g->ended) {
		for (unsigned i = 0; i < g->nr; i++)
			g->result[i] = -ENOENT;
		return;
	}
	now = store_now(s);
	pthread_mutex_lock(&s->lock);
	for (int step = 0; step < 2; step++)
		for (unsigned i = 0; i < g->nr; i++)
			store_index_prefetch(&s->index, g->hash[i], step);
	for (unsigned i = 0; i < g->nr; i++) {
		e = g->ended ? NULL : store_index_find(&s->index, g->hash[i]);
		if (e && g->touch)
			store_policy_touch(&s->policy, &s->index, e);
		g->result[i] = !e || (e->expiry && e->expiry <= now) ? -ENOENT : (int64_t)e->len;
		if (s->tier && g->result[i] < 0 && !g->ended)
			g->result[i] = store_tier_len(s, g->hash[i]);
		g->ended = g->prefix && g->result[i] < 0;
	}
	store_unlock(s);
}

void store_exists_run(struct penstock_store *s, const struct penstock_store_batch *u,
		      struct penstock_store_done *done)
{
	struct group g = {.prefix = u->flags & PENSTOCK_STORE_PREFIX,
			  .touch = u->flags & PENSTOCK_STORE_TOUCH};

	for (uint32_t at = 0; at < u->nr; at += g.nr) {
		const struct penstock_store_item *it = &u->items[at];

		g.nr = (unsigned)min_u64(GROUP, u->nr - at);
		for (unsigned i = 0; i < g.nr; i++)
			g.hash[i] = store_hash_key(&s->secret, it[i].key, it[i].key_len);
		group_find(s, &g);
		for (unsigned i = 0; i < g.nr; i++) {
			if (u->results)
				u->results[at + i] = g.result[i];
			done->good += g.result[i] >= 0;
			done->prefix += g.result[i] >= 0 && done->prefix == at + i;
		}
	}
}

void store_exists_step(struct store_op *op)
{
	struct store_batch *b = op->batch;
	struct group g = {.prefix = b->user.flags & PENSTOCK_STORE_PREFIX,
			  .touch = b->user.flags & PENSTOCK_STORE_TOUCH};
	uint32_t nr = b->nr;

	for (uint32_t at = 0; at < nr; at += g.nr) {
		struct store_op *k = &b->ops[at];

		g.nr = (unsigned)min_u64(GROUP, nr - at);
		for (unsigned i = 0; i < g.nr; i++)
			g.hash[i] = store_hash_key(&b->store->secret, k[i].key, k[i].key_len);
		group_find(b->store, &g);
		for (unsigned i = 0; i < g.nr; i++) /* after the last one the batch may be gone */
			store_op_finish(&k[i], g.result[i]);
	}
}
