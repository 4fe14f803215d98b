/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in the object store below has records in the logs of the directories, so that the next
 * run finds it.  A record is written when the object is there, and one that takes it back when its
 * key is set or deleted, before that is complete.  Of a key the newest value counts, here or below.
 *
 * Records of what is below have at most an eighth of a log: what finds no room is in the index
 * alone, and gone with the run.
 */
#include <errno.h>

#include "base/util.h"
#include "kvstore/tier_internal.h"

static void count_record(struct store_dir *d, int sign)
{
	d->log_live += (uint64_t)(sign * STORE_RECORD_BELOW_SIZE);
	d->log_below += (uint64_t)(sign * STORE_RECORD_BELOW_SIZE);
}

void tier_write_record(struct store_tier *t, struct store_entry *e)
{
	struct penstock_store *s = t->store;

	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_dir *d = &s->dirs[(e->hash.b + i) % s->nr_dirs];

		if (d->excluded || d->log_below + STORE_RECORD_BELOW_SIZE > d->log_allocated / 8)
			continue;
		if (store_journal_below(d, e, t->runs[e->recent]) < 0)
			return;
		e->dir = (uint8_t)d->nr;
		count_record(d, 1);
		d->growth_requested = d->growth_requested || store_log_space_is_short(d);
		store_wake_log_writer(s);
		return;
	}
}

void tier_write_drop(struct store_tier *t, const struct store_entry *e)
{
	struct penstock_store *s = t->store;
	struct store_dir *d = e->dir == TIER_NO_LOG ? NULL : &s->dirs[e->dir];

	if (!d)
		return;
	count_record(d, -1);
	/* Without memory for the record it may be back after the next start. */
	if (store_journal_drop(d, e->hash, e->gen) < 0)
		s->stats.errors++;
}

/* Which of the runs?  The newest are asked for most. */
static int find_run(struct store_tier *t, uint64_t run, uint32_t *ret)
{
	uint64_t i = t->nr_runs;

	while (i && t->runs[i - 1] != run)
		i--;
	if (!i) {
		if (ARRAY_RESERVE(t->runs, t->runs_capacity, t->nr_runs + 1) < 0)
			return -ENOMEM;
		t->runs[t->nr_runs++] = run;
		i = t->nr_runs;
	}
	*ret = (uint32_t)(i - 1);
	return 0;
}

/* It is neither there nor to be found again. */
static void unload_entry(struct store_dir *d, struct store_entry *e)
{
	if (e->dir == d->nr)
		count_record(d, -1);
	else
		tier_write_drop(d->store->tier, e);
	tier_remove(d->store->tier, e);
}

int store_tier_load_record(struct store_dir *d, const struct store_record *r)
{
	struct penstock_store *s = d->store;
	struct store_tier *t = s->tier;
	struct store_entry *local = store_index_find(&s->index, r->hash), *e;

	/* Without the tier nobody would see what makes it out of date. */
	if (!t || (local && local->gen >= r->gen))
		return store_journal_drop(d, r->hash, r->gen);
	e = store_index_find(&t->index, r->hash);
	if (e && e->gen > r->gen)
		return store_journal_drop(d, r->hash, r->gen);
	if (e)
		unload_entry(d, e);
	if (local)
		local->dir == d->nr ? store_entry_drop(s, local) : store_entry_erase(s, local);
	e = store_index_new(&t->index);
	if (!e)
		return -ENOMEM;
	e->hash = r->hash;
	e->gen = r->gen;
	e->len = r->len;
	e->crc = r->crc;
	e->expiry = r->expiry;
	s->expiring = s->expiring || r->expiry;
	e->dir = (uint8_t)d->nr;
	if (find_run(t, r->run, &e->recent) < 0 || store_index_add(&t->index, e) < 0) {
		store_index_free(&t->index, e);
		return -ENOMEM;
	}
	count_record(d, 1);
	tier_add(t, e);
	return 0;
}

void store_tier_load_drop(struct store_dir *d, const struct store_record *r)
{
	struct store_tier *t = d->store->tier;
	struct store_entry *e = t ? store_index_find(&t->index, r->hash) : NULL;

	if (e && e->gen == r->gen && e->dir == d->nr)
		unload_entry(d, e);
}

bool store_tier_is_newer(struct store_dir *d, struct store_hash h, uint64_t gen)
{
	struct store_tier *t = d->store->tier;
	struct store_entry *e = t ? store_index_find(&t->index, h) : NULL;

	if (!e)
		return false;
	if (e->gen < gen) {
		unload_entry(d, e);
		return false;
	}
	/* On another directory: it must not come back.  If that cannot be said now, it is next
	 * time. */
	if (e->dir != d->nr && store_journal_drop(d, h, gen) < 0)
		d->store->stats.errors++;
	return true;
}

void store_tier_drop_records(struct store_dir *d, bool is_valid)
{
	struct store_tier *t = d->store->tier;
	struct store_entry *e;
	uint32_t pos = 0;

	d->log_live -= d->log_below;
	d->log_below = 0;
	while (t && (e = store_index_next(&t->index, &pos))) {
		if (e->dir != d->nr)
			continue;
		e->dir = TIER_NO_LOG;
		if (!is_valid)
			tier_remove(t, e);
	}
}
