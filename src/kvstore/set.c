/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set: find space, write the value there, and when the log has it (log_writer.c) let others find
 * it. Also how space is made, and deletes.
 */
#include <errno.h>

#include "base/util.h"
#include "kvstore/kvstore.h"

/* ----------------------------------------------------------------- entries */

static void entry_free(struct penstock_store *s, struct store_entry *e)
{
	extents_free(&e->space, s->dirs[e->dir].map);
	store_index_free(&s->index, e);
}

void store_entry_drop(struct penstock_store *s, struct store_entry *e)
{
	store_staging_drop_copy(s, e);
	store_policy_remove(&s->policy, &s->index, e);
	store_index_remove(&s->index, e);
	s->dirs[e->dir].log_live -= store_record_size(e->key_len, e->space.nr);
	s->stats.entries--;
	s->stats.value_bytes -= e->len;
	e->state = STORE_DEAD;
	if (!e->pins)
		entry_free(s, e);
}

void store_entry_erase(struct penstock_store *s, struct store_entry *e)
{
	/* Without memory for the record it may be back after the next start: told as what it is. */
	if (store_journal_drop(&s->dirs[e->dir], e->hash, e->gen) < 0)
		s->stats.errors++;
	store_entry_drop(s, e);
}

/* The set that has waited longest for space may try again. */
static void wake_next_set(struct penstock_store *s)
{
	struct store_op *op = store_op_queue_pop(&s->waiting);

	if (op)
		store_queue_op(s, op);
}

/* What was in use is free, or can be sent away. */
static void release_busy_entry(struct penstock_store *s)
{
	s->busy_entries--;
	wake_next_set(s);
}

void store_entry_pin(struct penstock_store *s, struct store_entry *e)
{
	e->pins++;
	s->busy_entries++;
}

void store_entry_unpin(struct penstock_store *s, struct store_entry *e)
{
	if (--e->pins == 0 && e->state == STORE_DEAD)
		entry_free(s, e);
	release_busy_entry(s);
}

/* ------------------------------------------------------------------- space */

static bool evict_one(struct penstock_store *s)
{
	struct store_entry *e = store_policy_victim(&s->policy, &s->index);

	if (!e)
		return false;
	s->stats.evictions++;
	s->stats.evicted_bytes += e->len;
	store_tier_demote(s, e);
	store_entry_erase(s, e);
	return true;
}

/* Could it have room for so much? */
static bool can_fit(const struct store_dir *d, uint64_t units)
{
	return !d->excluded && units <= d->limit_units && store_log_space_is_usable(d);
}

/* Has it? */
static bool fits_now(const struct store_dir *d, const struct store_op *op, uint64_t units)
{
	return extent_map_unused(d->map) >= units &&
	       store_log_space_fits(d, store_record_size(op->key_len, 1));
}

/* Or can it get it without sending anything away? */
static bool fits_after_growth(const struct store_dir *d, const struct store_op *op, uint64_t units)
{
	return (extent_map_unused(d->map) >= units || store_dir_can_grow(d)) &&
	       (store_log_space_fits(d, store_record_size(op->key_len, 1)) ||
		store_log_space_is_short(d));
}

/* The directory with room that has least to do, or NULL; can any have room at all? */
static struct store_dir *pick_dir(struct penstock_store *s, const struct store_op *op,
				  uint64_t units, bool *ret_fits)
{
	struct store_dir *best = NULL;

	*ret_fits = false;
	for (unsigned i = 0; i < s->nr_dirs; i++) {
		struct store_dir *d = &s->dirs[(s->next_dir + i) % s->nr_dirs];

		if (!can_fit(d, units))
			continue;
		*ret_fits = true;
		if (fits_after_growth(d, op, units) &&
		    (!best || atomic_load(&d->in_flight) < atomic_load(&best->in_flight)))
			best = d;
	}
	s->next_dir++;
	return best;
}

static void request_growth(struct penstock_store *s, struct store_dir *d)
{
	if (!d->growth_requested) {
		d->growth_requested = true;
		store_wake_log_writer(s);
	}
}

static int take_space(struct penstock_store *s, struct store_op *op, struct store_dir *d,
		      uint64_t units)
{
	struct store_entry *e = store_index_new(&s->index);
	int r;

	if (!e)
		return -ENOMEM;
	r = extents_alloc(&e->space, d->map, units);
	if (r == 0 && (e->space.nr > STORE_PIECES_MAX ||
		       !store_log_space_fits(d, store_record_size(op->key_len, e->space.nr)))) {
		extents_free(&e->space, d->map);
		r = -ENOSPC;
	}
	if (r < 0) {
		store_index_free(&s->index, e);
		return r;
	}
	e->hash = op->hash;
	e->len = (uint32_t)op->len;
	e->key_len = (uint16_t)op->key_len;
	e->dir = (uint8_t)d->nr;
	e->freq = op->batch->user.cost & 3;
	op->entry = e;
	s->busy_entries++;
	d->log_in_flight += store_record_size(e->key_len, e->space.nr);
	if ((extent_map_unused(d->map) < d->step_units / 2 && store_dir_can_grow(d)) ||
	    store_log_space_is_short(d))
		request_growth(s, d);
	return 0;
}

/*
 * With @lock.  Nothing can be sent away now.  What others are writing can be, when it is there, and
 * what is pinned when it is read: wait for that, in the order of arrival.
 */
static int wait_for_space(struct penstock_store *s, struct store_op *op)
{
	/* Who has not waited yet stands behind those who do; one of them is always on its way. */
	if (!s->busy_entries && (op->waited_for_space || !s->waiting.first))
		return -ENOSPC;
	if (op->waited_for_space)
		store_op_queue_push_front(&s->waiting, op);
	else
		store_op_queue_push(&s->waiting, op);
	op->waited_for_space = true;
	return 1;
}

/* With @lock.  0, 1: wait until a file has grown or others have finished, or -errno. */
static int find_space(struct penstock_store *s, struct store_op *op)
{
	uint64_t units = store_units(op->len);
	struct store_dir *d;
	bool fits;
	int r;

	if (s->waiting.first && !op->waited_for_space)
		return wait_for_space(s, op);
	for (;;) {
		d = pick_dir(s, op, units, &fits);
		if (d && !fits_now(d, op, units)) {
			store_op_queue_push(&d->waiting, op);
			request_growth(s, d);
			return 1;
		}
		/* In too many pieces: fewer when a neighbour has gone. */
		r = d ? take_space(s, op, d, units) : -ENOSPC;
		if (r != -ENOSPC)
			return r;
		if (!fits)
			return r;
		if (store_tier_unread(s) >= units * STORE_UNIT || !evict_one(s))
			return wait_for_space(s, op);
	}
}

/* --------------------------------------------------------------------- set */

static void set_end(struct store_op *op, int64_t result)
{
	struct penstock_store *s = op->batch->store;

	pthread_mutex_lock(&s->lock);
	s->stats.sets++;
	s->stats.sets_no_space += result == -ENOSPC;
	s->stats.sets_refused += result == -EAGAIN;
	if (op->buf)
		store_staging_put(s, op->buf);
	op->buf = NULL;
	store_unlock(s);
	store_op_finish(op, result);
}

/* With @lock.  Is it worth writing?  0, or the result: it is there, or was never seen before. */
static int64_t admit_set(struct penstock_store *s, struct store_op *op)
{
	struct store_entry *e = store_index_find(&s->index, op->hash);

	if (op->admitted)
		return 0;
	op->admitted = true;
	if (e && (op->batch->user.flags & PENSTOCK_STORE_ABSENT) && e->len == op->len &&
	    !(e->expiry && e->expiry <= store_now(s))) {
		store_policy_touch(&s->policy, &s->index, e);
		s->stats.sets_present++;
		return -EALREADY;
	}
	if (e || !(s->opts.flags & PENSTOCK_STORE_SECOND_TOUCH))
		return 0;
	store_seen_fit(&s->touched, s->index.used);
	if (store_seen_take(&s->touched, op->hash))
		return 0;
	store_seen_add(&s->touched, op->hash);
	return -EAGAIN;
}

/* With @lock.  A buffer where one is needed, or useful: 0, 1: wait for memory, or -ENOMEM. */
static int set_buffer(struct penstock_store *s, struct store_op *op)
{
	bool must = op->device || op->batch->user.deadline_ns;
	bool recent =
		!(s->opts.flags & PENSTOCK_STORE_NO_RECENT) && op->len <= s->staging.limit / 8;

	if (op->buf || !op->len || (!must && !recent))
		return 0;
	if (op->device)
		store_staging_expect_gpu(s);
	if (op->waits_for_memory || !s->staging.waiting.first)
		op->buf = store_staging_get(s, op->len);
	if (op->buf || !must)
		return 0;
	return store_staging_queue(s, op) ? 1 : -ENOMEM;
}

/* Its memory.  One that would only be useful is done without. */
static int map_buffer(struct penstock_store *s, struct store_op *op)
{
	if (!op->buf || store_staging_map(s, op->buf) == 0)
		return 0;
	if (op->device || op->batch->user.deadline_ns)
		return -ENOMEM;
	pthread_mutex_lock(&s->lock);
	store_staging_put(s, op->buf);
	op->buf = NULL;
	store_unlock(s);
	return 0;
}

/* What has been taken for a set that does not come about. */
static void undo_set(struct store_op *op, int64_t result)
{
	struct penstock_store *s = op->batch->store;

	pthread_mutex_lock(&s->lock);
	store_set_discard(s, op);
	store_unlock(s);
	set_end(op, result);
}

/* The value is where it will be written from. */
static void set_write(struct store_worker *w, struct store_op *op, uint32_t crc)
{
	op->entry->crc = crc;
	op->state = STORE_OP_WRITE;
	store_transfer(w, op, PENSTOCK_WRITE);
}

static void set_copy_in(struct store_worker *w, struct store_op *op)
{
	uint32_t crc;

	if (!op->buf) {
		set_write(w, op, store_value_crc(op, op->len));
		return;
	}
	if (!store_op_lock_result(op)) {
		undo_set(op, -ETIME);
		return;
	}
	if (op->device) {
		op->state = STORE_OP_COPY_FROM_GPU;
		store_copy_device(w, op, false);
		return;
	}
	crc = store_copy_host(op, false);
	if (store_op_unlock_result(op))
		set_write(w, op, crc);
	else
		undo_set(op, -ETIME);
}

static void set_start(struct store_worker *w, struct store_op *op)
{
	struct penstock_store *s = w->store;
	int64_t r;

	store_op_prepare(op);
	pthread_mutex_lock(&s->lock);
	r = store_op_has_result(op) ? -ETIME : admit_set(s, op);
	if (r == 0)
		r = set_buffer(s, op);
	if (r <= 0)
		store_staging_leave_queue(s, op);
	if (r == 0)
		r = find_space(s, op);
	if (r <= 0) /* there may be space for another, or nobody left to make it */
		wake_next_set(s);
	store_unlock(s);
	if (r > 0)
		return;
	if (r < 0)
		set_end(op, r == -EALREADY ? (int64_t)op->len : r);
	else if (map_buffer(s, op) < 0)
		undo_set(op, -ENOMEM);
	else
		set_copy_in(w, op);
}

void store_set_step(struct store_worker *w, struct store_op *op)
{
	int code = atomic_load(&op->error);

	if (op->state == STORE_OP_START) {
		set_start(w, op);
		return;
	}
	/* Device memory has been copied. */
	if (!store_op_unlock_result(op))
		code = -ETIME;
	if (code < 0)
		undo_set(op, code);
	else
		set_write(w, op, store_value_crc(op, op->len));
}

/* Its record is no longer on its way. */
static void end_log_in_flight(struct penstock_store *s, const struct store_entry *e)
{
	s->dirs[e->dir].log_in_flight -= store_record_size(e->key_len, e->space.nr);
}

void store_set_discard(struct penstock_store *s, struct store_op *op)
{
	end_log_in_flight(s, op->entry);
	entry_free(s, op->entry);
	op->entry = NULL;
	release_busy_entry(s);
}

int store_set_publish(struct penstock_store *s, struct store_op *op)
{
	struct store_entry *e = op->entry, *old = store_index_find(&s->index, e->hash);

	/* The new record says that the old value is gone, to its own directory. */
	if (old && old->dir == e->dir)
		store_entry_drop(s, old);
	else if (old)
		store_entry_erase(s, old);
	if (store_index_add(&s->index, e) < 0)
		return -ENOMEM;
	end_log_in_flight(s, e);
	store_tier_forget(s, e->hash);
	s->stats.promoted += op->promotes_gen != 0;
	e->state = STORE_LIVE;
	store_policy_add(&s->policy, &s->index, e);
	s->dirs[e->dir].log_live += store_record_size(e->key_len, e->space.nr);
	s->stats.entries++;
	s->stats.value_bytes += e->len;
	s->stats.stored++;
	s->stats.bytes_set += e->len;
	if (op->buf && !(s->opts.flags & PENSTOCK_STORE_NO_RECENT)) {
		store_staging_keep_copy(s, op->buf, e);
		op->buf = NULL;
	}
	release_busy_entry(s);
	return 0;
}

/* ------------------------------------------------------------------ delete */

void store_delete_step(struct store_worker *w, struct store_op *op)
{
	struct penstock_store *s = w->store;
	struct store_entry *e;
	bool below;

	op->hash = store_hash_key(&s->secret, op->key, op->key_len);
	pthread_mutex_lock(&s->lock);
	e = store_index_find(&s->index, op->hash);
	below = store_tier_forget(s, op->hash);
	s->stats.deletes += e || below;
	if (e)
		store_entry_erase(s, e);
	store_unlock(s);
	/* One that is coming up may be in the log already: its end is written before ours. */
	if (e || below)
		store_queue_commit(s, op);
	else
		store_op_finish(op, -ENOENT);
}
