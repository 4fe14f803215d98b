/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on a store: whole values under their names, each one call of the public API.
 *
 * A value is in the memory of the place it comes from, or in buffers, of which there are only so
 * many: whoever finds too few waits, in the order of arrival, and one that is larger than all of
 * them waits until it is alone.  What is read and what is written have buffers of their own, since
 * those for writing hold the noise from the beginning on.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "load/object/flow_internal.h"

enum {
	BUFFER_BYTES = CONTENT_PERIOD,
	BUFFERS_STEP = 16, /* made at a time */
	BUFFERS_MAX = 256, /* of each kind, unless one value needs more */
};

/* What is at the store for an operation. */
struct store_call {
	char **buffers;
	uint64_t nr;
	bool writing; /* they are those for writing */
	bool setting; /* a read that has missed, and sets now */
	struct penstock_iov *iov;
	uint32_t nr_iov;
	int64_t result;
	uint64_t begin_ns, end_ns;
	char wrong[NAME_TEXT + 100]; /* what verification found */
};

/* ---------------------------------------------------------------------- buffers */

/* @nr of them; -EAGAIN: others have them. */
static int buffers_take(struct flow *f, struct store_call *e, uint64_t nr)
{
	struct buffer_pool *b = &f->store_pools[e->writing];
	bool alone = b->nr_unused == b->nr;
	int r = 0;

	while (r == 0 && b->nr_unused < nr && (alone || b->nr < BUFFERS_MAX))
		r = buffer_pool_grow(f, b, BUFFERS_STEP, BUFFER_BYTES, e->writing);
	if (r < 0)
		return r;
	if (b->nr_unused < nr)
		return -EAGAIN;
	e->buffers = malloc(max_u64(nr, 1) * sizeof(*e->buffers));
	if (!e->buffers)
		return -ENOMEM;
	for (e->nr = 0; e->nr < nr; e->nr++)
		e->buffers[e->nr] = b->unused[--b->nr_unused];
	return 0;
}

static void buffers_return(struct flow *f, struct store_call *e)
{
	struct buffer_pool *b = &f->store_pools[e->writing];

	for (uint64_t i = 0; i < e->nr; i++)
		b->unused[b->nr_unused++] = e->buffers[i];
	free(TAKE_PTR(e->buffers));
	e->nr = 0;
}

/* ------------------------------------------------------------------- one value */

static struct place *store_of(const struct op *op)
{
	struct place *dst = op_dst(op);

	return dst && place_is_store(dst) ? dst : op_src(op);
}

static void store_call_free(struct op *op)
{
	struct store_call *e = op->store_call;

	if (!e)
		return;
	buffers_return(op->flow, e);
	free(e->iov);
	free(e);
	op->store_call = NULL;
}

/* It is over, with what is in op->code. */
static void flow_store_end(struct flow *f, struct op *op)
{
	store_call_free(op);
	op_moved(f, op);
}

static void flow_store_fail(struct flow *f, struct op *op, int code, const char *msg)
{
	op_fail_named(op, op_attrs(op), code, msg);
	flow_store_end(f, op);
}

/* By a thread of the store's. */
static void store_done(void *arg, const struct penstock_store_done *done)
{
	struct op *op = arg;
	struct flow *f = op->flow;

	(void)done;
	op->store_call->end_ns = clock_ns();
	inbox_push(&f->inbox, &op->task);
	atomic_fetch_sub(&f->nr_store_calls, 1); /* from here on the flow may be gone */
}

static uint32_t store_opcode(const struct op *op)
{
	if (op->type == FLOW_DELETE)
		return PENSTOCK_STORE_DELETE;
	return op->type == FLOW_READ && !op->store_call->setting ? PENSTOCK_STORE_GET
								 : PENSTOCK_STORE_SET;
}

static void store_call_done(struct task *t, void *owner);

static void store_submit(struct flow *f, struct op *op)
{
	struct store_call *e = op->store_call;
	const struct attrs *l = op_attrs(op);
	struct penstock_store_item item = {l->text, l->name_len, e->nr_iov, e->iov};
	struct penstock_store_batch b = {
		.opcode = store_opcode(op),
		.nr = 1,
		.memory = op_on_gpu(op) ? PENSTOCK_MEMORY_ANY : PENSTOCK_MEMORY_HOST,
		.items = &item,
		.results = &e->result,
		.on_done = store_done,
		.arg = op,
	};
	struct penstock_err err = {0, ""};
	int64_t r;

	op->task.done = store_call_done;
	e->begin_ns = clock_ns();
	atomic_fetch_add(&f->nr_store_calls, 1);
	r = penstock_store_submit(store_of(op)->store, &b, &err);
	if (r < 0) {
		atomic_fetch_sub(&f->nr_store_calls, 1);
		flow_store_fail(f, op, (int)r, err.msg);
	}
}

/* ------------------------------------------------------------- where its bytes are */

static int iov_buffers(struct flow *f, struct op *op)
{
	struct store_call *e = op->store_call;
	uint64_t left = op->size;

	e->iov = calloc(max_u64(e->nr, 1), sizeof(*e->iov));
	if (!e->iov)
		return -ENOMEM;
	e->nr_iov = (uint32_t)e->nr;
	for (uint64_t i = 0; i < e->nr; i++, left -= e->iov[i - 1].len) {
		e->iov[i] = (struct penstock_iov){e->buffers[i], min_u64(left, BUFFER_BYTES)};
		if (e->writing && f->o.fill)
			content_stamp(&f->content, e->buffers[i], e->iov[i].len, op->content,
				      i * BUFFER_BYTES);
	}
	return 0;
}

/* Of a move: the memory where it is. */
static int iov_memory(struct op *op)
{
	struct store_call *e = op->store_call;
	struct end src = src_end(op, &op->src_hint);
	uint32_t capacity = 0;

	for (uint64_t at = 0, n; at < op->size; at += n) {
		n = op->size - at;
		if (ARRAY_RESERVE(e->iov, capacity, (uint64_t)e->nr_iov + 1) < 0)
			return -ENOMEM;
		e->iov[e->nr_iov].addr = end_addr(&src, at, &n);
		e->iov[e->nr_iov++].len = n;
	}
	return 0;
}

/* Take buffers and start the call; -EAGAIN: too few are free. */
static int store_call_start(struct flow *f, struct op *op)
{
	struct store_call *e = op->store_call;
	int r = buffers_take(f, e, (op->size + BUFFER_BYTES - 1) / BUFFER_BYTES);

	if (r == -EAGAIN)
		return r;
	if (r == 0)
		r = iov_buffers(f, op);
	if (r < 0)
		flow_store_fail(f, op, r, "out of memory");
	else
		store_submit(f, op);
	return 0;
}

/* Now, or behind those who wait already. */
static void store_enter(struct flow *f, struct op *op)
{
	buffer_pool_start(f, &f->store_pools[op->store_call->writing], op, store_call_start);
}

void stores_serve(struct flow *f)
{
	for (unsigned i = 0; i < ARRAY_SIZE(f->store_pools); i++)
		buffer_pool_serve(f, &f->store_pools[i], store_call_start);
}

/* The length of the value that is to be read; the store itself says whether it is there. */
static void store_size(struct op *op)
{
	const struct attrs *l = op_attrs(op);
	struct penstock_store_item item = {l->text, l->name_len, 0, NULL};
	int64_t result = -ENOENT;
	struct penstock_store_batch b = {
		.opcode = PENSTOCK_STORE_EXISTS, .nr = 1, .items = &item, .results = &result};

	penstock_store_run(store_of(op)->store, &b, NULL, NULL);
	op->size = result > 0 ? (uint64_t)result : 0;
}

void store_start(struct flow *f, struct op *op)
{
	op->wanted = op->size;
	op->store_call = calloc(1, sizeof(*op->store_call));
	if (!op->store_call) {
		op_fail(op, -ENOMEM, "out of memory");
		op_moved(f, op);
		return;
	}
	op->store_call->writing = op->type == FLOW_WRITE;
	if (op->type == FLOW_READ)
		store_size(op);
	if (op->type == FLOW_READ || op->type == FLOW_WRITE)
		store_enter(f, op);
	else if (op->type == FLOW_MOVE && iov_memory(op) < 0)
		flow_store_fail(f, op, -ENOMEM, "out of memory");
	else
		store_submit(f, op);
}

/* ------------------------------------------------------------------- afterwards */

/* Runs in a copy thread. */
static void flow_store_check(struct task *t)
{
	struct op *op = container_of(t, struct op, task);
	struct store_call *e = op->store_call;
	char name[NAME_TEXT];

	for (uint64_t i = 0; i < e->nr; i++) {
		const char *at = e->iov[i].addr;
		uint64_t len = e->iov[i].len;
		uint64_t good =
			content_check(&op->flow->content, at, len, op->content, i * BUFFER_BYTES);

		if (good == len)
			continue;
		snprintf(e->wrong, sizeof(e->wrong),
			 "verification failed: %s: offset %" PRIu64 " holds 0x%02x",
			 attrs_print_name(name, op->attrs), i * BUFFER_BYTES + good,
			 (unsigned char)at[good]);
		return;
	}
}

static void store_checked(struct task *t, void *owner)
{
	struct op *op = container_of(t, struct op, task);
	struct flow *f = owner;

	if (op->store_call->wrong[0])
		op_fail(op, -EBADMSG, "%s", op->store_call->wrong);
	else
		f->stats.verified += op->size;
	flow_store_end(f, op);
}

/* What is not there is set: the same operation, once more. */
static void store_set_missed(struct flow *f, struct op *op)
{
	struct store_call *e = op->store_call;

	buffers_return(f, e);
	free(TAKE_PTR(e->iov));
	e->nr_iov = 0;
	e->writing = e->setting = true;
	op->size = op->wanted;
	store_enter(f, op);
}

/*
 * Not there, or not taken: what a cache may always say.  A value that has come since its size was
 * asked for is a miss, to the store as well.
 */
static bool store_missed(const struct op *op)
{
	struct store_call *e = op->store_call;

	if (e->result == -EMSGSIZE)
		e->result = -ENOENT;
	return e->result == (store_opcode(op) == PENSTOCK_STORE_SET ? -ENOSPC : -ENOENT);
}

static void store_call_done(struct task *t, void *owner)
{
	struct op *op = container_of(t, struct op, task);
	struct store_call *e = op->store_call;
	struct flow *f = owner;

	op_used(op, store_opcode(op) == PENSTOCK_STORE_SET, e->begin_ns, e->end_ns);
	op->missed |= store_missed(op);
	if (op->missed && op->set_missed && !e->setting) {
		store_set_missed(f, op);
	} else if (e->result < 0) {
		flow_store_fail(f, op, (int)e->result, penstock_strerror((int)e->result));
	} else if (op->type == FLOW_READ && !e->setting && f->o.verify) {
		op->task.run = flow_store_check;
		op->task.done = store_checked;
		thread_pool_push(&f->copy_threads, &op->task);
	} else {
		flow_store_end(f, op);
	}
}

void stores_cancel(struct flow *f)
{
	for (unsigned i = 0; i < ARRAY_SIZE(f->store_pools); i++)
		buffer_pool_cancel(f, &f->store_pools[i], flow_store_end);
}
