/* SPDX-License-Identifier: Apache-2.0 */
/* Batches come in: they are checked, copied and queued, or answered at once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "kvstore/kvstore.h"

int store_check(const struct penstock_store *s, struct penstock_err *err)
{
	if (!s)
		return penstock_fail(err, -EINVAL, "store: is NULL");
	if (s->pid != getpid())
		return penstock_fail(err, -ECHILD, "the store belongs to the parent process");
	return 0;
}

static int check_item(const struct penstock_store_batch *u, uint32_t i, uint64_t *ret_bytes,
		      struct penstock_err *err)
{
	const struct penstock_store_item *it = &u->items[i];
	bool moves = u->opcode == PENSTOCK_STORE_GET || u->opcode == PENSTOCK_STORE_SET;
	uint64_t len = 0;

	if (!it->key || !it->key_len || it->key_len > PENSTOCK_STORE_KEY_MAX)
		return penstock_fail(err, -EINVAL, "items[%u].key_len: %u is outside 1..%u", i,
				     it->key_len, PENSTOCK_STORE_KEY_MAX);
	*ret_bytes += it->key_len;
	if (!moves)
		return 0;
	if (it->nr_iov && !it->iov)
		return penstock_fail(err, -EINVAL, "items[%u].iov: is NULL", i);
	for (uint32_t j = 0; j < it->nr_iov; j++) {
		if (it->iov[j].len && !it->iov[j].addr)
			return penstock_fail(err, -EINVAL, "items[%u].iov[%u].addr: is NULL", i, j);
		if (it->iov[j].len > UINT64_MAX - len)
			return penstock_fail(err, -EINVAL, "items[%u].iov: is too long", i);
		len += it->iov[j].len;
	}
	if (u->opcode == PENSTOCK_STORE_SET && len > PENSTOCK_STORE_VALUE_MAX)
		return penstock_fail(err, -EINVAL, "items[%u]: a value of %llu bytes, at most %u",
				     i, (unsigned long long)len, PENSTOCK_STORE_VALUE_MAX);
	*ret_bytes += it->nr_iov * sizeof(struct penstock_iov);
	return 0;
}

static int check_batch(const struct penstock_store_batch *u, struct penstock_err *err)
{
	static const uint32_t flags[] = {0, 0, PENSTOCK_STORE_ABSENT,
					 PENSTOCK_STORE_PREFIX | PENSTOCK_STORE_TOUCH, 0};

	if (u->opcode < PENSTOCK_STORE_GET || u->opcode > PENSTOCK_STORE_DELETE)
		return penstock_fail(err, -EINVAL, "opcode: %u is outside 1..4", u->opcode);
	if (u->flags & ~flags[u->opcode])
		return penstock_fail(err, -EINVAL, "flags: 0x%x is not for this opcode", u->flags);
	if (u->memory > PENSTOCK_MEMORY_HOST)
		return penstock_fail(err, -EINVAL, "memory: %u is outside 0..1", u->memory);
	if (u->cost > 3)
		return penstock_fail(err, -EINVAL, "cost: %u is outside 0..3", u->cost);
	if (u->reserved[0] || u->reserved[1])
		return penstock_fail(err, -EINVAL, "reserved: is not 0");
	if (u->nr && !u->items)
		return penstock_fail(err, -EINVAL, "items: is NULL");
	return u->nr > (1u << 20) ? penstock_fail(err, -EINVAL, "nr: %u is above 1048576", u->nr)
				  : 0;
}

/* Keys and scatter lists are copied behind the operations. */
static void fill_ops(struct store_batch *b, unsigned char *to)
{
	const struct penstock_store_batch *u = &b->user;
	bool moves = u->opcode == PENSTOCK_STORE_GET || u->opcode == PENSTOCK_STORE_SET;

	for (uint32_t i = 0; moves && i < u->nr; i++) {
		const struct penstock_store_item *it = &u->items[i];
		struct store_op *op = &b->ops[i];

		if (it->nr_iov)
			memcpy(to, it->iov, it->nr_iov * sizeof(*it->iov));
		op->iov = (const struct penstock_iov *)to;
		op->nr_iov = it->nr_iov;
		to += it->nr_iov * sizeof(*it->iov);
		for (uint32_t j = 0; j < it->nr_iov; j++)
			op->len += it->iov[j].len;
	}
	for (uint32_t i = 0; i < u->nr; i++) {
		struct store_op *op = &b->ops[i];

		memcpy(to, u->items[i].key, u->items[i].key_len);
		op->batch = b;
		op->key = to;
		op->key_len = u->items[i].key_len;
		to += op->key_len;
	}
}

static struct store_batch *batch_new(struct penstock_store *s, const struct penstock_store_batch *u,
				     struct penstock_err *err)
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
		penstock_fail(err, -ENOMEM, "out of memory");
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
	b->has_deadline = u->deadline_ns != 0;
	b->due = b->has_deadline ? clock_ns() + min_u64(u->deadline_ns, INT64_MAX) : UINT64_MAX;
	return b;
}

/* Into the queue of the workers; exists is one piece of work for all its keys. */
static uint64_t queue_batch(struct penstock_store *s, struct store_batch *b)
{
	bool whole = b->user.opcode == PENSTOCK_STORE_EXISTS;
	uint64_t ticket;
	bool idle;

	pthread_mutex_lock(&s->queues.lock);
	ticket = b->ticket = ++s->queues.tickets;
	b->clears_begun = s->queues.clears_begun;
	s->queues.objects++;
	store_batch_open(&s->queues, b);
	for (uint32_t i = 0; i < (whole ? b->nr != 0 : b->nr); i++)
		store_op_queue_push(&s->queues.ready, &b->ops[i]);
	if (b->has_deadline && b->due < atomic_load(&s->queues.next_deadline))
		atomic_store(&s->queues.next_deadline, b->due);
	idle = s->queues.idle;
	pthread_mutex_unlock(&s->queues.lock);
	if (idle)
		pthread_cond_signal(&s->queues.work);
	return ticket;
}

int store_submit_promotion(struct penstock_store *s, const struct penstock_store_batch *u,
			   uint64_t gen)
{
	struct store_batch *b = batch_new(s, u, NULL);

	if (!b)
		return -ENOMEM;
	b->ops[0].promotes_gen = gen;
	b->ops[0].admitted = true;
	queue_batch(s, b);
	return 0;
}

static int batch_make(struct store_batch **out, struct penstock_store *s,
		      const struct penstock_store_batch *u, struct penstock_err *err)
{
	struct penstock_err local = {0, ""};
	int r = store_check(s, err);

	err = err ? err : &local;
	if (r == 0)
		r = u ? check_batch(u, err) : penstock_fail(err, -EINVAL, "batch: is NULL");
	if (r < 0)
		return r;
	*out = batch_new(s, u, err);
	return *out ? 0 : err->code;
}

/* One without keys is finished as it comes; any may be gone when this returns. */
static uint64_t batch_start(struct penstock_store *s, struct store_batch *b)
{
	uint64_t ticket;

	if (b->nr)
		return queue_batch(s, b);
	ticket = queue_batch(s, b);
	store_batch_finish(b);
	store_signal_done(s);
	return ticket;
}

int64_t penstock_store_submit(struct penstock_store *store,
			      const struct penstock_store_batch *batch, struct penstock_err *err)
{
	struct store_batch *b;
	int r = batch_make(&b, store, batch, err);

	return r < 0 ? r : (int64_t)batch_start(store, b);
}

/* By the calling thread: nothing to wait for. */
static int run_exists(struct penstock_store *s, const struct penstock_store_batch *u,
		      struct penstock_store_done *done, struct penstock_err *err)
{
	uint64_t bytes = 0;
	int r = store_check(s, err);

	if (r == 0)
		r = check_batch(u, err);
	for (uint32_t i = 0; i < u->nr && r == 0; i++)
		r = check_item(u, i, &bytes, err);
	if (r < 0)
		return r;
	*done = (struct penstock_store_done){.tag = u->tag, .opcode = u->opcode, .nr = u->nr};
	store_exists_run(s, u, done);
	return 0;
}

int penstock_store_run(struct penstock_store *store, const struct penstock_store_batch *batch,
		       struct penstock_store_done *done, struct penstock_err *err)
{
	struct penstock_store_done local;
	struct penstock_store_batch u;
	struct store_batch *b;
	int r;

	if (!batch)
		return penstock_fail(err, -EINVAL, "batch: is NULL");
	u = *batch;
	u.on_done = NULL;
	if (u.opcode == PENSTOCK_STORE_EXISTS)
		return run_exists(store, &u, done ? done : &local, err);
	r = batch_make(&b, store, &u, err);
	if (r < 0)
		return r;
	b->awaited = true;
	batch_start(store, b);
	store_batch_await(b, done ? done : &local);
	return 0;
}
