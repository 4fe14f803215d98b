/* SPDX-License-Identifier: Apache-2.0 */
/* Is the cache what it says it is?  By looking at all of it, and by what went in and out. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/model/kv_cache_internal.h"

struct sums {
	uint64_t used, entries;
};

/* One list: linked both ways, in the order of stamps, of entries that belong there. */
static int check_list(const struct kv_cache *c, int tier, int touched, struct sums *ret,
		      struct penstock_err *err)
{
	const struct kv_list *l = &c->tiers[tier].lists[touched];
	uint32_t before = KV_NONE;
	uint64_t stamp = 0, n = 0;

	for (uint32_t i = l->head; i != KV_NONE; i = kv_entry(&c->s, i)->next) {
		const struct kv_entry *e = kv_entry(&c->s, i);

		if (n++ >= c->s.live || !e->live || e->tier != tier || e->touched != touched ||
		    e->prev != before || e->stamp <= stamp)
			return penstock_fail(err, -EINVAL,
					     "%s, list %d: entry %u does not belong where it is",
					     kv_tier_names[tier], touched, i);
		stamp = e->stamp;
		before = i;
		ret->used += e->size;
	}
	ret->entries += n;
	if (l->tail != before)
		return penstock_fail(err, -EINVAL, "%s, list %d: ends with %u, not %u",
				     kv_tier_names[tier], touched, before, l->tail);
	return 0;
}

static int check_tier(const struct kv_cache *c, int tier, struct penstock_err *err)
{
	const struct kv_tier_state *t = &c->tiers[tier];
	struct sums sums = {0};
	int r = 0;

	for (int k = 0; k < KV_TIERS && r == 0; k++)
		r = check_list(c, tier, k, &sums, err);
	if (r < 0)
		return r;
	if (sums.used != t->used || sums.entries != t->entries)
		return penstock_fail(err, -EINVAL,
				     "%s: %" PRIu64 " bytes used in %" PRIu64
				     " entries, but the entries are %" PRIu64 " bytes and %" PRIu64,
				     kv_tier_names[tier], t->used, t->entries, sums.used,
				     sums.entries);
	return 0;
}

int kv_cache_check(const struct kv_cache *c, struct penstock_err *err)
{
	uint64_t entries = 0;

	for (int i = 0; i < KV_TIERS; i++) {
		int r = check_tier(c, i, err);

		if (r < 0)
			return r;
		entries += c->tiers[i].entries;
	}
	if (entries != c->s.live)
		return penstock_fail(err, -EINVAL, "%" PRIu64 " entries in tiers, %u in all",
				     entries, c->s.live);
	if (!kv_entries_are_consistent(&c->s))
		return penstock_fail(err, -EINVAL, "an entry is not where it is looked for");
	return 0;
}

/* ---- in debug builds ---- */

void kv_cache_checked_event(struct kv_cache *c, const struct kv_event *ev)
{
	kv_count(&c->event_counts, ev, &c->o);
}

void kv_cache_checked_drop(struct kv_cache *c, uint32_t i)
{
	const struct kv_entry *e = kv_entry(&c->s, i);

	c->dropped[e->tier] += e->size;
}

static bool conserved(const struct kv_cache *c, int i)
{
	const struct kv_counts *n = &c->event_counts;
	uint64_t in = i > 0 ? n->tier_evicted_out[i - 1] : 0;
	uint64_t left = n->tier_evicted_out[i] + n->tier_deleted[i] + c->dropped[i];

	return n->tier_evicted_in[i] == in && n->tier_written[i] - left == c->tiers[i].used;
}

void kv_cache_checked_done(struct kv_cache *c)
{
	struct penstock_err err = {0};
	bool ok = true;

	for (int i = 0; i < KV_TIERS && ok; i++)
		ok = c->event_failed || conserved(c, i);
	/* All of it as often as costs about the same per operation, however many there are. */
	if (ok && ++c->unchecked * 16 >= c->s.entries.made) {
		c->unchecked = 0;
		ok = kv_cache_check(c, &err) == 0;
	}
	if (ok)
		return;
	fprintf(stderr, "kv_cache: %s\n", err.msg[0] ? err.msg : "bytes were lost between tiers");
	abort();
}
