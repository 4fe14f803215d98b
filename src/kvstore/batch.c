/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: how they come in, how their keys get results, how the caller learns of it.
 *
 * A key is over once, by whoever is first: the one that finishes it, or its deadline.  What is
 * still under way for a key that is over goes on inside the store and touches nothing of the
 * caller's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

/* ------------------------------------------------------------------- lines */

void store_line_init(struct store_line *l)
{
	l->first = NULL;
	l->last = &l->first;
}

void store_line_add(struct store_line *l, struct store_op *op)
{
	op->next = NULL;
	*l->last = op;
	l->last = &op->next;
}

void store_line_first(struct store_line *l, struct store_op *op)
{
	if (!l->first) {
		store_line_add(l, op);
		return;
	}
	op->next = l->first;
	l->first = op;
}

struct store_op *store_line_next(struct store_line *l)
{
	struct store_op *op = l->first;

	if (op)
		l->first = op->next;
	if (!l->first)
		l->last = &l->first;
	return op;
}

struct store_op *store_line_take(struct store_line *l)
{
	struct store_op *list = l->first;

	store_line_init(l);
	return list;
}

void store_ready(struct sluice_store *s, struct store_op *op)
{
	pthread_mutex_lock(&s->line.lock);
	store_line_add(&s->line.ready, op);
	if (s->line.idle)
		pthread_cond_signal(&s->line.work);
	pthread_mutex_unlock(&s->line.lock);
}

void store_ready_all(struct sluice_store *s, struct store_op *list)
{
	while (list) {
		struct store_op *next = list->next;

		store_ready(s, list);
		list = next;
	}
}

void store_logging(struct sluice_store *s, struct store_op *op)
{
	pthread_mutex_lock(&s->line.lock);
	if (!s->line.logging.first)
		pthread_cond_signal(&s->line.commit);
	store_line_add(&s->line.logging, op);
	pthread_mutex_unlock(&s->line.lock);
}

void store_kick(struct sluice_store *s)
{
	pthread_mutex_lock(&s->line.lock);
	s->line.kick = true;
	pthread_cond_signal(&s->line.commit);
	pthread_mutex_unlock(&s->line.lock);
}

/* --------------------------------------------------------------- finishing */

static void batch_put(struct store_batch *b)
{
	struct sluice_store *s = b->store;

	if (atomic_fetch_sub(&b->refs, 1) != 1)
		return;
	free(b);
	pthread_mutex_lock(&s->line.lock);
	s->line.objects--;
	pthread_cond_broadcast(&s->line.finished);
	pthread_mutex_unlock(&s->line.lock);
}

static struct sluice_store_done batch_done(const struct store_batch *b)
{
	struct sluice_store_done d = {
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

static void open_add(struct store_queues *q, struct store_batch *b)
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

/* All keys are over: tell the caller. */
static void batch_finish(struct store_batch *b)
{
	struct sluice_store *s = b->store;
	struct sluice_store_done d = batch_done(b);
	bool calls = b->user.on_done;
	uint64_t one = 1;

	if (calls)
		b->user.on_done(b->user.arg, &d);
	pthread_mutex_lock(&s->line.lock);
	open_remove(&s->line, b);
	if (!calls) { /* from here on it may be collected, and gone */
		bool first = !s->line.done_first;

		b->next = NULL;
		*s->line.done_last = b;
		s->line.done_last = &b->next;
		if (first && write(s->event, &one, sizeof(one)) < 0)
			one = 0; /* its counter is full: it is readable */
	}
	pthread_cond_broadcast(&s->line.finished);
	pthread_mutex_unlock(&s->line.lock);
	if (calls)
		batch_put(b);
}

static void key_over(struct store_op *op, int64_t result)
{
	struct store_batch *b = op->batch;

	b->results[op - b->ops] = result;
	if (result >= 0)
		atomic_fetch_add(&b->good, 1);
	if (atomic_fetch_sub(&b->left, 1) == 1)
		batch_finish(b);
}

bool store_is_over(struct store_op *op)
{
	return atomic_load(&op->over) == STORE_OVER;
}

bool store_hold(struct store_op *op)
{
	int open = STORE_OPEN;

	return atomic_compare_exchange_strong(&op->over, &open, STORE_HELD);
}

bool store_release(struct store_op *op)
{
	atomic_store(&op->over, STORE_OPEN);
	return op->batch->due > clock_ns(); /* nobody else will see that it is late */
}

void store_finish(struct store_op *op, int64_t result)
{
	struct store_batch *b = op->batch;

	if (atomic_exchange(&op->over, STORE_OVER) != STORE_OVER)
		key_over(op, result);
	batch_put(b);
}

/* --------------------------------------------------------------- deadlines */

static void batch_late(struct store_batch *b)
{
	struct sluice_store *s = b->store;
	uint64_t late = 0;

	for (uint32_t i = 0; i < b->nr; i++) {
		int open = STORE_OPEN;

		b->ops[i].late = atomic_compare_exchange_strong(&b->ops[i].over, &open, STORE_OVER);
		late += b->ops[i].late;
	}
	/* Before anybody is told, who might ask. */
	pthread_mutex_lock(&s->lock);
	s->stats.late += late;
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < b->nr; i++)
		if (b->ops[i].late)
			key_over(&b->ops[i], -ETIME);
	batch_put(b);
}

/* One whose time is over; the others say when to look again. */
static struct store_batch *next_late(struct sluice_store *s)
{
	struct store_batch *found = NULL;
	uint64_t now = clock_ns(), soonest = UINT64_MAX;

	pthread_mutex_lock(&s->line.lock);
	for (struct store_batch *b = s->line.open; b; b = b->open_next) {
		if (!b->watched)
			continue;
		if (!found && b->due <= now) {
			found = b;
			b->watched = false;
			atomic_fetch_add(&b->refs, 1);
		} else {
			soonest = min_u64(soonest, b->due);
		}
	}
	atomic_store(&s->line.next_deadline, soonest);
	pthread_mutex_unlock(&s->line.lock);
	return found;
}

void store_deadlines(struct sluice_store *s)
{
	struct store_batch *b;

	while (atomic_load(&s->line.next_deadline) <= clock_ns() && (b = next_late(s)))
		batch_late(b);
}

/* -------------------------------------------------------------- submission */

static int check_item(const struct sluice_store_batch *u, uint32_t i, uint64_t *ret_bytes,
		      struct sluice_err *err)
{
	const struct sluice_store_item *it = &u->items[i];
	bool moves = u->opcode == SLUICE_STORE_GET || u->opcode == SLUICE_STORE_SET;
	uint64_t len = 0;

	if (!it->key || !it->key_len || it->key_len > SLUICE_STORE_KEY_MAX)
		return sluice_fail(err, -EINVAL, "items[%u].key_len: %u is outside 1..%u", i,
				   it->key_len, SLUICE_STORE_KEY_MAX);
	*ret_bytes += it->key_len;
	if (!moves)
		return 0;
	if (it->nr_iov && !it->iov)
		return sluice_fail(err, -EINVAL, "items[%u].iov: is NULL", i);
	for (uint32_t j = 0; j < it->nr_iov; j++) {
		if (it->iov[j].len && !it->iov[j].addr)
			return sluice_fail(err, -EINVAL, "items[%u].iov[%u].addr: is NULL", i, j);
		if (it->iov[j].len > UINT64_MAX - len)
			return sluice_fail(err, -EINVAL, "items[%u].iov: is too long", i);
		len += it->iov[j].len;
	}
	if (u->opcode == SLUICE_STORE_SET && len > SLUICE_STORE_VALUE_MAX)
		return sluice_fail(err, -EINVAL, "items[%u]: a value of %llu bytes, at most %u", i,
				   (unsigned long long)len, SLUICE_STORE_VALUE_MAX);
	*ret_bytes += it->nr_iov * sizeof(struct sluice_iov);
	return 0;
}

static int check_batch(const struct sluice_store_batch *u, struct sluice_err *err)
{
	static const uint32_t flags[] = {0, 0, SLUICE_STORE_ABSENT, SLUICE_STORE_PREFIX, 0};

	if (u->opcode < SLUICE_STORE_GET || u->opcode > SLUICE_STORE_DELETE)
		return sluice_fail(err, -EINVAL, "opcode: %u is outside 1..4", u->opcode);
	if (u->flags & ~flags[u->opcode])
		return sluice_fail(err, -EINVAL, "flags: 0x%x is not for this opcode", u->flags);
	if (u->memory > SLUICE_MEMORY_HOST)
		return sluice_fail(err, -EINVAL, "memory: %u is outside 0..1", u->memory);
	if (u->cost > 3)
		return sluice_fail(err, -EINVAL, "cost: %u is outside 0..3", u->cost);
	if (u->reserved[0] || u->reserved[1])
		return sluice_fail(err, -EINVAL, "reserved: is not 0");
	if (u->nr && !u->items)
		return sluice_fail(err, -EINVAL, "items: is NULL");
	return u->nr > (1u << 20) ? sluice_fail(err, -EINVAL, "nr: %u is above 1048576", u->nr) : 0;
}

/* Keys and scatter lists are copied behind the operations. */
static void fill_ops(struct store_batch *b, unsigned char *room)
{
	const struct sluice_store_batch *u = &b->user;
	bool moves = u->opcode == SLUICE_STORE_GET || u->opcode == SLUICE_STORE_SET;

	for (uint32_t i = 0; moves && i < u->nr; i++) {
		const struct sluice_store_item *it = &u->items[i];
		struct store_op *op = &b->ops[i];

		if (it->nr_iov)
			memcpy(room, it->iov, it->nr_iov * sizeof(*it->iov));
		op->iov = (const struct sluice_iov *)room;
		op->nr_iov = it->nr_iov;
		room += it->nr_iov * sizeof(*it->iov);
		for (uint32_t j = 0; j < it->nr_iov; j++)
			op->len += it->iov[j].len;
	}
	for (uint32_t i = 0; i < u->nr; i++) {
		struct store_op *op = &b->ops[i];

		memcpy(room, u->items[i].key, u->items[i].key_len);
		op->batch = b;
		op->key = room;
		op->key_len = u->items[i].key_len;
		room += op->key_len;
	}
}

static struct store_batch *batch_new(struct sluice_store *s, const struct sluice_store_batch *u,
				     struct sluice_err *err)
{
	uint64_t bytes = 0, ops = sizeof(struct store_batch) + u->nr * sizeof(struct store_op);
	struct store_batch *b;

	for (uint32_t i = 0; i < u->nr; i++)
		if (check_item(u, i, &bytes, err) < 0)
			return NULL;
	if (!u->results)
		bytes += u->nr * sizeof(int64_t);
	b = malloc(ops + bytes);
	if (!b) {
		sluice_fail(err, -ENOMEM, "out of memory");
		return NULL;
	}
	memset(b, 0, ops);
	b->store = s;
	b->user = *u;
	b->nr = u->nr;
	b->results = u->results ? u->results : (int64_t *)((char *)b + ops);
	atomic_init(&b->left, u->nr);
	atomic_init(&b->refs, u->nr + 1);
	fill_ops(b, (unsigned char *)b + ops + (u->results ? 0 : u->nr * sizeof(int64_t)));
	b->watched = u->deadline_ns != 0;
	b->due = b->watched ? clock_ns() + min_u64(u->deadline_ns, INT64_MAX) : UINT64_MAX;
	return b;
}

/* In line with the others; exists is one piece of work for all its keys. */
static uint64_t enqueue(struct sluice_store *s, struct store_batch *b)
{
	bool whole = b->user.opcode == SLUICE_STORE_EXISTS;
	uint64_t ticket;

	pthread_mutex_lock(&s->line.lock);
	ticket = b->ticket = ++s->line.tickets;
	s->line.objects++;
	open_add(&s->line, b);
	for (uint32_t i = 0; i < (whole ? 1 : b->nr); i++)
		store_line_add(&s->line.ready, &b->ops[i]);
	if (b->watched && b->due < atomic_load(&s->line.next_deadline))
		atomic_store(&s->line.next_deadline, b->due);
	if (s->line.idle)
		pthread_cond_signal(&s->line.work);
	pthread_mutex_unlock(&s->line.lock);
	return ticket;
}

int store_submit_promotion(struct sluice_store *s, const struct sluice_store_batch *u, uint64_t gen)
{
	struct store_batch *b = batch_new(s, u, NULL);

	if (!b)
		return -ENOMEM;
	b->ops[0].promotes = gen;
	b->ops[0].admitted = true;
	enqueue(s, b);
	return 0;
}

static int check_store(const struct sluice_store *s, struct sluice_err *err)
{
	if (!s)
		return sluice_fail(err, -EINVAL, "store: is NULL");
	if (s->pid != getpid())
		return sluice_fail(err, -ECHILD, "the store belongs to the parent process");
	return 0;
}

int64_t sluice_store_submit(struct sluice_store *store, const struct sluice_store_batch *batch,
			    struct sluice_err *err)
{
	struct sluice_err local = {0, ""};
	struct store_batch *b;
	uint64_t ticket;
	int r = check_store(store, err);

	err = err ? err : &local;
	if (r == 0)
		r = batch ? check_batch(batch, err) : sluice_fail(err, -EINVAL, "batch: is NULL");
	if (r < 0)
		return r;
	b = batch_new(store, batch, err);
	if (!b)
		return err->code;
	/* An empty batch is finished as it comes; it may be gone when enqueue() returns. */
	if (b->nr)
		return (int64_t)enqueue(store, b);
	ticket = enqueue(store, b);
	batch_finish(b);
	return (int64_t)ticket;
}

/* -------------------------------------------------------------- collecting */

int sluice_store_fd(const struct sluice_store *store)
{
	return store->event;
}

/* With @line.lock: what is finished is no longer to be collected. */
static void uncount(struct sluice_store *s)
{
	uint64_t n;

	if (!s->line.done_first && read(s->event, &n, sizeof(n)) < 0)
		return;
}

int sluice_store_drain(struct sluice_store *store, struct sluice_store_done *done, unsigned max)
{
	struct store_batch *b, *list = NULL;
	int n = 0, r = check_store(store, NULL);

	if (r < 0)
		return r;
	pthread_mutex_lock(&store->line.lock);
	while ((unsigned)n < max && (b = store->line.done_first)) {
		store->line.done_first = b->next;
		if (!b->next)
			store->line.done_last = &store->line.done_first;
		done[n++] = batch_done(b);
		b->next = list;
		list = b;
	}
	uncount(store);
	pthread_mutex_unlock(&store->line.lock);
	while ((b = list)) {
		list = b->next;
		batch_put(b);
	}
	return n;
}

/* With @line.lock: the batch, off the list, if it is finished. */
static struct store_batch *take_done(struct sluice_store *s, uint64_t ticket)
{
	struct store_batch **at = &s->line.done_first, *b;

	while (*at && (*at)->ticket != ticket)
		at = &(*at)->next;
	b = *at;
	if (!b)
		return NULL;
	*at = b->next;
	if (s->line.done_last == &b->next)
		s->line.done_last = at;
	uncount(s);
	return b;
}

static bool is_open(const struct store_queues *q, uint64_t ticket)
{
	const struct store_batch *b = q->open;

	while (b && b->ticket != ticket)
		b = b->open_next;
	return b && !b->user.on_done;
}

int sluice_store_wait(struct sluice_store *store, uint64_t ticket, int64_t timeout_ns,
		      struct sluice_store_done *done)
{
	struct store_queues *q = &store->line;
	uint64_t end = timeout_ns < 0 ? INT64_MAX : clock_ns() + (uint64_t)timeout_ns;
	struct timespec ts = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
	struct store_batch *b;
	int r = check_store(store, NULL);

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

/* By the calling thread: nothing to wait for. */
static int run_exists(struct sluice_store *s, const struct sluice_store_batch *u,
		      struct sluice_store_done *done, struct sluice_err *err)
{
	uint64_t bytes = 0;
	int r = check_store(s, err);

	if (r == 0)
		r = check_batch(u, err);
	for (uint32_t i = 0; i < u->nr && r == 0; i++)
		r = check_item(u, i, &bytes, err);
	if (r < 0)
		return r;
	*done = (struct sluice_store_done){.tag = u->tag, .opcode = u->opcode, .nr = u->nr};
	store_exists_run(s, u, done);
	return 0;
}

int sluice_store_run(struct sluice_store *store, const struct sluice_store_batch *batch,
		     struct sluice_store_done *done, struct sluice_err *err)
{
	struct sluice_store_done local;
	struct sluice_store_batch u;
	int64_t ticket;

	if (!batch)
		return sluice_fail(err, -EINVAL, "batch: is NULL");
	u = *batch;
	u.on_done = NULL;
	if (u.opcode == SLUICE_STORE_EXISTS)
		return run_exists(store, &u, done ? done : &local, err);
	ticket = sluice_store_submit(store, &u, err);
	if (ticket < 0)
		return (int)ticket;
	return sluice_store_wait(store, (uint64_t)ticket, -1, done ? done : &local);
}
