/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slot queues.  Bytes move in chunks through slots; a slot has a buffer, or stands for a transfer
 * that needs none.  Operations with chunks to cut off wait in the queue of the slots they need,
 * and the one that has waited longest gets the next free slot: so all share the queues of
 * the device alike, one huge object and thousands of small ones.  Of large objects only so
 * many take part at once, in the order in which they came: a hundred that took turns would all
 * end late.
 *
 * No more is given to the library than it can give to the device: what waits, waits here, and
 * is not taken for the device's time.
 */
#include <errno.h>
#include <stdlib.h>

#include <penstock/gpu.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/flow_internal.h"

enum {
	PAGE_BYTES = 4096,
	AUTO_BYTES = 32 << 20, /* in flight per I/O thread: more gains nothing, see core.h */
	SMALL_MAX = 512,
	GPU_COPY = 8 << 20,     /* a copy to or from a GPU has a price of its own: larger chunks, */
	GPU_TRANSFER = 4 << 20, /* and between its memory and storage */
};

uint64_t slot_bytes(const struct flow *f, unsigned queue)
{
	if (queue == SLOTS_DIRECT)
		return 0;
	if (queue == SLOTS_COPY && f->gpu)
		return max_u64(GPU_COPY, f->o.chunk);
	return queue == SLOTS_READ_SMALL || queue == SLOTS_WRITE_SMALL ? FLOW_SMALL : f->o.chunk;
}

static int slot_queue_init(struct flow *f, unsigned queue, unsigned nr, struct penstock_err *err)
{
	struct slot_queue *l = &f->slot_queues[queue];
	uint64_t bytes = slot_bytes(f, queue);
	void *memory = NULL;
	int r;

	l->slots = calloc(nr, sizeof(*l->slots));
	if (!l->slots)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (bytes) {
		r = penstock_buf_alloc(&memory, f->io, nr * bytes, 0, &f->stats.buf, err);
		if (r < 0)
			return r;
		f->stats.memory += nr * bytes;
		if (queue == SLOTS_COPY && f->gpu &&
		    penstock_gpu_pin(memory, nr * bytes, NULL) == 0)
			l->pinned = memory;
	}
	for (unsigned i = nr; i-- > 0;) {
		struct slot *s = &l->slots[i];

		s->buf = memory ? (char *)memory + i * bytes : NULL;
		s->queue = (uint8_t)queue;
		s->has_noise = true;
		s->task.next = l->unused ? &l->unused->task : NULL;
		l->unused = s;
		if (queue == SLOTS_WRITE || queue == SLOTS_WRITE_SMALL)
			content_noise(&f->content, s->buf, bytes, 0);
	}
	return 0;
}

static bool uses_storage(const struct flow *f)
{
	for (unsigned i = 0; i < f->o.nr_places; i++)
		if (place_is_storage(flow_place(f, i)))
			return true;
	return false;
}

int slot_queues_init(struct flow *f, struct penstock_err *err)
{
	struct penstock_stats st = {.size = sizeof(st)};
	unsigned big, small, copy_threads = f->o.copy_threads, ops;
	int r;

	penstock_get_stats(f->io, &st);
	ops = st.depth * st.threads;
	f->max_dev_ops = ops;
	f->max_dev_bytes = f->o.io.depth ? UINT64_MAX : (uint64_t)AUTO_BYTES * st.threads;
	big = (unsigned)min_u64(ops, max_u64(2, f->max_dev_bytes / f->o.chunk));
	if (f->o.buffers)
		big = f->o.buffers;
	small = (unsigned)min_u64(ops, SMALL_MAX);
	r = slot_queue_init(f, SLOTS_COPY, f->gpu ? copy_threads + 2 : 2 * copy_threads + 2, err);
	if (r < 0 || !uses_storage(f))
		return r;
	r = slot_queue_init(f, SLOTS_READ, big + 2 * copy_threads, err);
	if (r == 0)
		r = slot_queue_init(f, SLOTS_WRITE, big, err);
	if (r == 0)
		r = slot_queue_init(f, SLOTS_READ_SMALL, small + 4 * copy_threads, err);
	if (r == 0)
		r = slot_queue_init(f, SLOTS_WRITE_SMALL, small, err);
	if (r == 0)
		r = slot_queue_init(f, SLOTS_DIRECT, ops, err);
	return r;
}

void slot_queues_fini(struct flow *f)
{
	for (unsigned i = 0; i < SLOT_QUEUES; i++) {
		if (f->slot_queues[i].pinned)
			penstock_gpu_unpin(f->slot_queues[i].pinned);
		free(f->slot_queues[i].slots);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(f->store_pools); i++)
		free(f->store_pools[i].unused);
}

static uint64_t chunk_of(const struct op *op)
{
	uint64_t chunk = op->flow->o.chunk;

	if (!op->flow->gpu || !op_on_gpu(op))
		return chunk;
	switch (op->mode) {
	case MODE_LOAD:
	case MODE_STORE:
		return max_u64(chunk, GPU_TRANSFER);
	case MODE_COPY_OUT:
	case MODE_FILL:
	case MODE_COPY:
		return max_u64(chunk, GPU_COPY);
	default:
		return chunk;
	}
}

/* Bytes of the next chunk: none crosses a multiple of the chunk size, where the noise repeats. */
static uint64_t next_len(const struct op *op)
{
	uint64_t chunk = chunk_of(op);

	return min_u64(op->end - op->pos, chunk - op->pos % chunk);
}

static bool is_small(const struct op *op)
{
	return next_len(op) + op->pos % PAGE_BYTES <= FLOW_SMALL;
}

static unsigned slot_queue_of(const struct op *op)
{
	if (op->todo & TODO_HEADER)
		return SLOTS_WRITE_SMALL;
	switch (op->mode) {
	case MODE_READ:
	case MODE_PASS:
		return is_small(op) ? SLOTS_READ_SMALL : SLOTS_READ;
	case MODE_WRITE:
		return is_small(op) ? SLOTS_WRITE_SMALL : SLOTS_WRITE;
	case MODE_LOAD:
	case MODE_STORE:
		return SLOTS_DIRECT;
	default:
		return SLOTS_COPY;
	}
}

static void oplist_add(struct oplist *l, struct op *op)
{
	op->qnext = NULL;
	op->qprev = l->last;
	*(l->last ? &l->last->qnext : &l->first) = op;
	l->last = op;
}

static void oplist_push(struct oplist *l, struct op *op)
{
	op->qprev = NULL;
	op->qnext = l->first;
	*(l->first ? &l->first->qprev : &l->last) = op;
	l->first = op;
}

static void oplist_del(struct oplist *l, struct op *op)
{
	*(op->qprev ? &op->qprev->qnext : &l->first) = op->qnext;
	*(op->qnext ? &op->qnext->qprev : &l->last) = op->qprev;
}

int buffer_pool_grow(struct flow *f, struct buffer_pool *s, uint64_t nr, uint64_t bytes,
		     bool writing)
{
	void *memory;

	if (ARRAY_RESERVE(s->unused, s->capacity, s->nr + nr) < 0 ||
	    penstock_buf_alloc(&memory, f->io, nr * bytes, 0, &f->stats.buf, NULL) < 0)
		return -ENOMEM;
	f->stats.memory += nr * bytes;
	for (uint64_t i = 0; i < nr; i++) {
		char *piece = (char *)memory + i * bytes;

		if (writing)
			content_noise(&f->content, piece, bytes, 0);
		s->unused[s->nr_unused++] = piece;
	}
	s->nr += nr;
	return 0;
}

void buffer_pool_start(struct flow *f, struct buffer_pool *s, struct op *op, buffer_pool_go *go)
{
	if (s->waits.first || go(f, op) == -EAGAIN)
		oplist_add(&s->waits, op);
}

void buffer_pool_serve(struct flow *f, struct buffer_pool *s, buffer_pool_go *go)
{
	struct op *op;

	while ((op = s->waits.first)) {
		oplist_del(&s->waits, op);
		if (go(f, op) == -EAGAIN) {
			oplist_push(&s->waits, op);
			break;
		}
	}
}

void buffer_pool_cancel(struct flow *f, struct buffer_pool *s,
			void (*end)(struct flow *f, struct op *op))
{
	struct op *op;

	while ((op = s->waits.first)) {
		oplist_del(&s->waits, op);
		op_fail(op, -ECANCELED, "cancelled");
		end(f, op);
	}
}

static void serve(struct flow *f, struct slot_queue *l, struct op *op)
{
	op->queued = QUEUED_SERVED;
	op->seq = f->seq++;
	oplist_add(&l->served, op);
}

void slot_queue_enter(struct flow *f, struct op *op)
{
	unsigned queue = slot_queue_of(op);
	struct slot_queue *l = &f->slot_queues[queue];
	bool small = queue == SLOTS_READ_SMALL || queue == SLOTS_WRITE_SMALL;

	if (l->nr_served >= FLOW_SERVED && !small) {
		op->queued = QUEUED_WAITS;
		oplist_add(&l->waits, op);
		return;
	}
	l->nr_served++;
	serve(f, l, op);
}

/* Who is served leaves its place to the first that waits. */
static void serve_next(struct flow *f, struct slot_queue *l)
{
	struct op *next = l->waits.first;

	if (next) {
		oplist_del(&l->waits, next);
		serve(f, l, next);
	} else {
		l->nr_served--;
	}
}

void slot_queue_leave(struct flow *f, struct op *op)
{
	struct slot_queue *l = &f->slot_queues[slot_queue_of(op)];
	bool waits = op->queued == QUEUED_WAITS;

	op->queued = QUEUED_NOT;
	oplist_del(waits ? &l->waits : &l->served, op);
	if (!waits)
		serve_next(f, l);
}

bool op_idle(const struct op *op)
{
	return op->queued == QUEUED_NOT && !op->inflight;
}

void slot_free(struct flow *f, struct slot *s)
{
	struct slot_queue *l = &f->slot_queues[s->queue];

	free(s->msg);
	s->msg = NULL;
	s->op = NULL;
	s->task.next = l->unused ? &l->unused->task : NULL;
	l->unused = s;
}

bool device_full(const struct flow *f)
{
	return f->dev_ops >= f->max_dev_ops || f->dev_bytes >= f->max_dev_bytes;
}

/* The queue whose first operation has waited longest, of those that can go on. */
static unsigned slot_queue_pick(const struct flow *f)
{
	bool full = device_full(f);
	unsigned best = SLOT_QUEUES;

	for (unsigned i = 0; i < SLOT_QUEUES; i++) {
		const struct slot_queue *l = &f->slot_queues[i];

		if (l->served.first && l->unused && (i == SLOTS_COPY || !full) &&
		    (best == SLOT_QUEUES ||
		     l->served.first->seq < f->slot_queues[best].served.first->seq))
			best = i;
	}
	return best;
}

/* Where in the buffer byte @pos goes: as aligned as it is in the file, and where its noise is. */
static char *slot_data(const struct flow *f, const struct slot *s)
{
	return s->buf ? s->buf + s->pos % (s->queue == SLOTS_WRITE ? f->o.chunk : PAGE_BYTES)
		      : NULL;
}

/* A chunk has been cut off: again behind the others, or out of the queue. */
static void slot_queue_next(struct flow *f, struct slot_queue *l, struct op *op)
{
	if (op->pos < op->end && &f->slot_queues[slot_queue_of(op)] == l) {
		serve(f, l, op);
		return;
	}
	op->queued = QUEUED_NOT;
	serve_next(f, l);
	if (op->pos < op->end)
		slot_queue_enter(f, op);
	else
		op_all_cut(op);
}

/* Cut a chunk off the operation that has waited longest in @queue. */
static struct slot *slot_queue_cut(struct flow *f, unsigned queue)
{
	struct slot_queue *l = &f->slot_queues[queue];
	struct op *op = l->served.first;
	struct slot *s = l->unused;

	l->unused = s->task.next ? container_of(s->task.next, struct slot, task) : NULL;
	oplist_del(&l->served, op);
	s->op = op;
	s->header = op->todo & TODO_HEADER;
	s->writing = false;
	s->code = 0;
	s->pos = op->pos;
	s->len = s->header ? PLACE_HEADER : next_len(op);
	s->data = slot_data(f, s);
	op->inflight++;
	atomic_fetch_add(&op->chunks, 1);
	if (s->header)
		op->todo &= (uint8_t)~TODO_HEADER;
	else
		op->pos += s->len;
	slot_queue_next(f, l, op);
	return s;
}

struct slot *slot_queues_cut(struct flow *f)
{
	unsigned queue = slot_queue_pick(f);

	return queue < SLOT_QUEUES ? slot_queue_cut(f, queue) : NULL;
}
