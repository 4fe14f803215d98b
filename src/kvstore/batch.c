/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: how their keys get results, and how the caller learns of it.
 *
 * A key is over once, by whoever is first: the one that finishes it, or its deadline.  What is
 * still under way for a key that is over goes on inside the store and touches nothing of the
 * caller's.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "kvstore/kvstore.h"

/* --------------------------------------------------------------- finishing */

static void batch_put(struct store_batch *b)
{
	struct penstock_store *s = b->store;

	if (atomic_fetch_sub(&b->refs, 1) != 1)
		return;
	free(b);
	pthread_mutex_lock(&s->queues.lock);
	s->queues.objects--;
	pthread_cond_broadcast(&s->queues.finished);
	pthread_mutex_unlock(&s->queues.lock);
}

static struct penstock_store_done batch_done(const struct store_batch *b)
{
	struct penstock_store_done d = {
		.ticket = b->ticket,
		.tag = b->user.tag,
		.opcode = b->user.opcode,
		.nr = b->nr,
		.good = atomic_load(&b->good),
	};

	while (d.prefix < b->nr && b->results[d.prefix] >= 0)
		d.prefix++;
	return d;
}

void store_batch_open(struct store_queues *q, struct store_batch *b)
{
	b->open_prev = NULL;
	b->open_next = q->open;
	if (q->open)
		q->open->open_prev = b;
	q->open = b;
}

static void open_remove(struct store_queues *q, struct store_batch *b)
{
	*(b->open_prev ? &b->open_prev->open_next : &q->open) = b->open_next;
	if (b->open_next)
		b->open_next->open_prev = b->open_prev;
}

void store_batch_finish(struct store_batch *b)
{
	struct penstock_store *s = b->store;
	struct penstock_store_done d = batch_done(b);
	bool calls = b->user.on_done;

	if (calls)
		b->user.on_done(b->user.arg, &d);
	pthread_mutex_lock(&s->queues.lock);
	open_remove(&s->queues, b);
	b->finished = true;
	if (!calls && !b->awaited) { /* from here on it may be collected, and gone */
		if (!s->queues.done_first)
			atomic_store(&s->queues.signal_due, true);
		b->next = NULL;
		*s->queues.done_last = b;
		s->queues.done_last = &b->next;
	}
	pthread_cond_broadcast(&s->queues.finished);
	pthread_mutex_unlock(&s->queues.lock);
	if (calls)
		batch_put(b);
}

/* Without the lock, which whoever wakes up takes first. */
void store_signal_done(struct penstock_store *s)
{
	uint64_t one = 1;

	if (atomic_load(&s->queues.signal_due) && atomic_exchange(&s->queues.signal_due, false) &&
	    write(s->event, &one, sizeof(one)) < 0)
		return; /* its counter is full: it is readable */
}

static void set_result(struct store_op *op, int64_t result)
{
	struct store_batch *b = op->batch;

	b->results[op - b->ops] = result;
	if (result >= 0)
		atomic_fetch_add(&b->good, 1);
	if (atomic_fetch_sub(&b->left, 1) == 1)
		store_batch_finish(b);
}

bool store_op_has_result(struct store_op *op)
{
	return atomic_load(&op->result_state) == STORE_RESULT_SET;
}

bool store_op_lock_result(struct store_op *op)
{
	int open = STORE_RESULT_PENDING;

	return atomic_compare_exchange_strong(&op->result_state, &open, STORE_RESULT_LOCKED);
}

bool store_op_unlock_result(struct store_op *op)
{
	atomic_store(&op->result_state, STORE_RESULT_PENDING);
	return op->batch->due > clock_ns(); /* nobody else will see that it is late */
}

void store_op_finish(struct store_op *op, int64_t result)
{
	struct store_batch *b = op->batch;

	if (atomic_exchange(&op->result_state, STORE_RESULT_SET) != STORE_RESULT_SET)
		set_result(op, result);
	batch_put(b);
}

/* --------------------------------------------------------------- deadlines */

static void expire_batch(struct store_batch *b)
{
	struct penstock_store *s = b->store;
	uint64_t late = 0;

	for (uint32_t i = 0; i < b->nr; i++) {
		int open = STORE_RESULT_PENDING;

		b->ops[i].expired = atomic_compare_exchange_strong(&b->ops[i].result_state, &open,
								   STORE_RESULT_SET);
		late += b->ops[i].expired;
	}
	/* Before anybody is told, who might ask. */
	pthread_mutex_lock(&s->lock);
	s->stats.late += late;
	store_unlock(s);
	for (uint32_t i = 0; i < b->nr; i++)
		if (b->ops[i].expired)
			set_result(&b->ops[i], -ETIME);
	batch_put(b);
}

/* One whose time is over; the others say when to look again. */
static struct store_batch *next_expired(struct penstock_store *s)
{
	struct store_batch *found = NULL;
	uint64_t now = clock_ns(), soonest = UINT64_MAX;

	pthread_mutex_lock(&s->queues.lock);
	for (struct store_batch *b = s->queues.open; b; b = b->open_next) {
		if (!b->has_deadline)
			continue;
		if (!found && b->due <= now) {
			found = b;
			b->has_deadline = false;
			atomic_fetch_add(&b->refs, 1);
		} else {
			soonest = min_u64(soonest, b->due);
		}
	}
	atomic_store(&s->queues.next_deadline, soonest);
	pthread_mutex_unlock(&s->queues.lock);
	return found;
}

void store_expire_batches(struct penstock_store *s)
{
	struct store_batch *b;

	while (atomic_load(&s->queues.next_deadline) <= clock_ns() && (b = next_expired(s))) {
		expire_batch(b);
		store_signal_done(s);
	}
}

/* -------------------------------------------------------------- collecting */

int penstock_store_fd(const struct penstock_store *store)
{
	return store->event;
}

/* With @queues.lock: readable as long as something is to be collected, whoever has read it. */
static void update_event(struct penstock_store *s)
{
	uint64_t n = 1;

	atomic_store(&s->queues.signal_due, false);
	if ((s->queues.done_first ? write(s->event, &n, sizeof(n))
				  : read(s->event, &n, sizeof(n))) < 0)
		return;
}

int penstock_store_drain(struct penstock_store *store, struct penstock_store_done *done,
			 unsigned max)
{
	struct store_batch *b, *list = NULL;
	int n = 0, r = store_check(store, NULL);

	if (r < 0)
		return r;
	pthread_mutex_lock(&store->queues.lock);
	while ((unsigned)n < max && (b = store->queues.done_first)) {
		store->queues.done_first = b->next;
		if (!b->next)
			store->queues.done_last = &store->queues.done_first;
		done[n++] = batch_done(b);
		b->next = list;
		list = b;
	}
	update_event(store);
	pthread_mutex_unlock(&store->queues.lock);
	while ((b = list)) {
		list = b->next;
		batch_put(b);
	}
	return n;
}

/* With @queues.lock: the batch, off the list, if it is finished. */
static struct store_batch *take_done(struct penstock_store *s, uint64_t ticket)
{
	struct store_batch **at = &s->queues.done_first, *b;

	while (*at && (*at)->ticket != ticket)
		at = &(*at)->next;
	b = *at;
	if (!b)
		return NULL;
	*at = b->next;
	if (s->queues.done_last == &b->next)
		s->queues.done_last = at;
	update_event(s);
	return b;
}

static bool is_open(const struct store_queues *q, uint64_t ticket)
{
	const struct store_batch *b = q->open;

	while (b && b->ticket != ticket)
		b = b->open_next;
	return b && !b->user.on_done && !b->awaited;
}

void store_batch_await(struct store_batch *b, struct penstock_store_done *done)
{
	struct store_queues *q = &b->store->queues;

	pthread_mutex_lock(&q->lock);
	while (!b->finished)
		pthread_cond_wait(&q->finished, &q->lock);
	pthread_mutex_unlock(&q->lock);
	*done = batch_done(b);
	batch_put(b);
}

int penstock_store_wait(struct penstock_store *store, uint64_t ticket, int64_t timeout_ns,
			struct penstock_store_done *done)
{
	struct store_queues *q = &store->queues;
	uint64_t end = timeout_ns < 0 ? INT64_MAX : clock_ns() + (uint64_t)timeout_ns;
	struct timespec ts = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
	struct store_batch *b;
	int r = store_check(store, NULL);

	if (r < 0)
		return r;
	pthread_mutex_lock(&q->lock);
	while (!(b = take_done(store, ticket)) && r == 0) {
		if (!is_open(q, ticket))
			r = -ENOENT;
		else if (clock_ns() >= end)
			r = -ETIMEDOUT;
		else
			pthread_cond_clockwait(&q->finished, &q->lock, CLOCK_MONOTONIC, &ts);
	}
	if (b)
		*done = batch_done(b);
	pthread_mutex_unlock(&q->lock);
	if (b)
		batch_put(b);
	return b ? 0 : r;
}
