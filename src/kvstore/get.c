/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A get: find and pin the entry, read its value into the caller's memory, verify, unpin.  The value
 * comes by way of a buffer of the store where the memory is a GPU's or the batch has a deadline,
 * and from memory where it has just been written.
 */
#include <errno.h>

#include "base/util.h"
#include "kvstore/kvstore.h"

/*
 * What is given to the drives cannot be taken back.  Under a deadline it is kept short, so that
 * reads that are late already are not in the way of those that are not.
 */
enum { READING_BYTES = 16 << 20 };

static void count_get(struct penstock_store *s, const struct store_op *op, int64_t result)
{
	s->stats.gets++;
	if (result < 0) {
		s->stats.misses++;
		s->stats.corrupt += result == -EBADMSG;
		s->stats.errors += atomic_load(&op->error) != 0;
		return;
	}
	s->stats.hits++;
	s->stats.hits_recent += op->recent;
	s->stats.bytes_got += (uint64_t)result;
}

static void get_end(struct store_op *op, int64_t result)
{
	struct penstock_store *s = op->batch->store;
	bool late = store_op_has_result(op);

	pthread_mutex_lock(&s->lock);
	count_get(s, op, late ? -ETIME : result);
	if (op->entry && !op->recent)
		s->stats.bytes_read += op->entry->len;
	if (op->counted)
		s->staging.reading -= op->entry->len;
	if (op->entry)
		store_entry_unpin(s, op->entry);
	if (op->buf)
		store_staging_put(s, op->buf);
	store_unlock(s);
	store_op_finish(op, result);
}

/* With @lock.  The entry, or NULL and why not. */
static struct store_entry *find_entry(struct penstock_store *s, const struct store_op *op,
				      int64_t *why)
{
	struct store_entry *e = store_index_find(&s->index, op->hash);

	*why = -ENOENT;
	if (!e)
		return NULL;
	if (e->expiry && e->expiry <= store_now(s)) {
		s->stats.expired++;
		store_entry_erase(s, e);
		return NULL;
	}
	if (!op->waits_for_memory)
		store_policy_touch(&s->policy, &s->index, e);
	if (e->len <= op->len)
		return e;
	*why = -EMSGSIZE;
	return NULL;
}

/*
 * It will not be better the next time, and as long as it is there it is not written again.  Returns
 * whether others have not found that out before.
 */
static bool drop_bad_entry(const struct store_op *op)
{
	struct penstock_store *s = op->batch->store;
	bool first;

	pthread_mutex_lock(&s->lock);
	first = op->entry->state == STORE_LIVE;
	if (first)
		store_entry_erase(s, op->entry);
	store_unlock(s);
	return first;
}

/* What was read, or is about to be delivered, is not what was set. */
static int report_corruption(const struct store_op *op)
{
	struct penstock_store *s = op->batch->store;

	store_report_error(s, -EBADMSG, s->dirs[op->entry->dir].path, op->entry->len,
			   "a value is not what was written");
	drop_bad_entry(op);
	return -EBADMSG;
}

/* A drive is judged by values: one place that is bad is one failure, however many ask for it. */
static void report_read_result(const struct store_op *op, int code)
{
	struct penstock_store *s = op->batch->store;

	if (code == 0 || code == -ENOMEM || drop_bad_entry(op))
		store_dir_count_result(&s->dirs[op->entry->dir], code, "a value cannot be read");
}

static void get_verify(struct store_worker *w, struct store_op *op)
{
	const struct store_entry *e = op->entry;
	int64_t r = atomic_load(&op->error);
	bool copies = op->buf && !op->device; /* and is summed up on the way */

	if (!op->recent)
		report_read_result(op, (int)r);
	if (r == 0 && !copies && store_value_crc(op, e->len) != e->crc)
		r = report_corruption(op);
	if (r == 0 && op->buf && !store_op_lock_result(op))
		r = -ETIME;
	if (r == 0 && op->device) {
		op->state = STORE_OP_COPY_TO_GPU;
		store_copy_device(w, op, true);
		return;
	}
	if (r == 0 && copies && store_copy_host(op, true) != e->crc)
		r = report_corruption(op);
	get_end(op, r < 0 ? r : (int64_t)e->len);
}

/* With @lock.  A buffer for the value, where it needs one; false: there is none now. */
static bool get_buffer(struct penstock_store *s, struct store_op *op)
{
	bool timed = op->batch->user.deadline_ns;

	if (op->device)
		store_staging_expect_gpu(s);
	op->buf = store_staging_get_copy(s, op->entry);
	op->recent = op->buf;
	if (op->buf || (!op->device && !timed))
		return true;
	if (s->staging.waiting.first && !op->waits_for_memory)
		return false;
	if (!timed || s->staging.reading < READING_BYTES)
		op->buf = store_staging_get(s, op->entry->len);
	op->counted = op->buf && timed;
	s->staging.reading += op->counted ? op->entry->len : 0;
	return op->buf;
}

static void get_start(struct store_worker *w, struct store_op *op)
{
	struct penstock_store *s = w->store;
	int64_t why = -ETIME;

	store_op_prepare(op);
	pthread_mutex_lock(&s->lock);
	op->entry = store_op_has_result(op) ? NULL : find_entry(s, op, &why);
	if (!op->entry && why == -ENOENT && store_tier_queue_fetch(s, op)) {
		store_staging_leave_queue(s, op);
		store_unlock(s);
		return;
	}
	if (!op->entry && why == -ENOENT && store_tier_len(s, op->hash) > (int64_t)op->len)
		why = -EMSGSIZE;
	if (op->entry && !get_buffer(s, op)) {
		op->entry = NULL;
		why = -ENOMEM;
		if (store_staging_queue(s, op)) {
			store_unlock(s);
			return;
		}
	}
	store_staging_leave_queue(s, op);
	if (op->entry)
		store_entry_pin(s, op->entry);
	store_unlock(s);
	if (op->buf && store_staging_map(s, op->buf) < 0) {
		get_end(op, -ENOMEM);
	} else if (!op->entry) {
		get_end(op, why);
	} else if (op->recent) {
		get_verify(w, op);
	} else {
		op->state = STORE_OP_READ;
		store_transfer(w, op, PENSTOCK_READ);
	}
}

void store_get_step(struct store_worker *w, struct store_op *op)
{
	int code = atomic_load(&op->error);

	if (op->state == STORE_OP_START)
		get_start(w, op);
	else if (op->state == STORE_OP_READ)
		get_verify(w, op);
	else
		get_end(op, code < 0 ? code : (int64_t)op->entry->len);
}
