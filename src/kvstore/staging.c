/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that values pass through on their way to a GPU or under a deadline, and the copies of
 * what was written last.  Buffers that nobody uses are kept for values of the same size; when the
 * limit is reached those go first, then copies, oldest first, and then one has to wait.
 *
 * Memory is made and given back without the store's lock: to map, register and pin a buffer takes
 * as long as to read it.
 */
#include <errno.h>
#include <stdlib.h>

#include <penstock/gpu.h>

#include "base/util.h"
#include "kvstore/kvstore.h"

/* Unless the caller says how much: for values that only pass under a deadline, and for GPUs. */
enum { MEMORY_BYTES = 64 << 20, DEVICE_BYTES = 256 << 20 };

static void buf_list_init(struct store_buf *head)
{
	head->prev = head->next = head;
}

static void buf_list_remove(struct store_buf *b)
{
	b->prev->next = b->next;
	b->next->prev = b->prev;
}

static void buf_list_append(struct store_buf *head, struct store_buf *b)
{
	b->prev = head->prev;
	b->next = head;
	b->prev->next = b;
	head->prev = b;
}

void store_staging_init(struct penstock_store *s)
{
	struct store_staging *g = &s->staging;

	g->limit = s->opts.memory ? s->opts.memory : MEMORY_BYTES;
	buf_list_init(&g->idle);
	buf_list_init(&g->recent);
	store_op_queue_init(&g->waiting);
}

/* It is none of ours any more; freed by store_unlock(). */
static void retire_buf(struct store_staging *g, struct store_buf *b)
{
	g->bytes -= b->len;
	g->slots[b->slot] = NULL;
	b->next = g->retired;
	g->retired = b;
}

static void free_retired(struct penstock_store *s, struct store_buf *b)
{
	struct store_buf *next;

	for (; b; b = next) {
		next = b->next;
		if (atomic_load(&b->pinned) == STORE_PINNED)
			penstock_gpu_unpin(b->addr);
		if (b->addr)
			penstock_buf_free(s->io, b->addr);
		free(b);
	}
}

void store_unlock(struct penstock_store *s)
{
	struct store_buf *retired = s->staging.retired;

	s->staging.retired = NULL;
	pthread_mutex_unlock(&s->lock);
	free_retired(s, retired);
}

static void retire_all_bufs(struct store_staging *g, struct store_buf *head)
{
	while (head->next != head) {
		struct store_buf *b = head->next;

		buf_list_remove(b);
		retire_buf(g, b);
	}
}

void store_staging_fini(struct penstock_store *s)
{
	struct store_staging *g = &s->staging;

	retire_all_bufs(g, &g->recent);
	retire_all_bufs(g, &g->idle);
	free_retired(s, g->retired);
	free(g->slots);
}

static int take_slot(struct store_staging *g, struct store_buf *b)
{
	for (b->slot = 0; b->slot < g->nr_slots; b->slot++)
		if (!g->slots[b->slot])
			break;
	if (b->slot == g->nr_slots) {
		if (ARRAY_RESERVE(g->slots, g->slots_capacity, (uint64_t)g->nr_slots + 1) < 0)
			return -ENOMEM;
		g->nr_slots++;
	}
	g->slots[b->slot] = b;
	return 0;
}

static struct store_buf *buf_new(struct penstock_store *s, uint64_t len)
{
	struct store_buf *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->len = len;
	if (take_slot(&s->staging, b) < 0) {
		free(b);
		return NULL;
	}
	s->staging.bytes += len;
	return b;
}

int store_staging_map(struct penstock_store *s, struct store_buf *b)
{
	void *addr;
	int r = b->addr ? 0 : penstock_buf_alloc(&addr, s->io, b->len, 0, NULL, NULL);

	if (r == 0 && !b->addr)
		b->addr = addr;
	return r;
}

/* Once for as long as the buffer lives; where the driver refuses, it copies as it can. */
void store_staging_pin(struct store_buf *b)
{
	unsigned never = STORE_PIN_NEVER;

	if (atomic_load(&b->pinned) == STORE_PIN_NEVER &&
	    atomic_compare_exchange_strong(&b->pinned, &never, STORE_PIN_TRIED) &&
	    penstock_gpu_pin(b->addr, b->len, NULL) == 0)
		atomic_store(&b->pinned, STORE_PINNED);
}

/* Nobody has it any more: keep the memory for the next one, within the limit. */
static void buf_unref(struct penstock_store *s, struct store_buf *b)
{
	struct store_staging *g = &s->staging;

	if (--b->refs)
		return;
	if (g->bytes > g->limit || !b->addr)
		retire_buf(g, b);
	else
		buf_list_append(&g->idle, b);
}

void store_staging_drop_copy(struct penstock_store *s, struct store_entry *e)
{
	struct store_buf *b = e->recent == STORE_NONE ? NULL : s->staging.slots[e->recent];

	if (!b)
		return;
	buf_list_remove(b);
	b->entry = NULL;
	e->recent = STORE_NONE;
	buf_unref(s, b);
}

/* One that is not in use goes; false: there is none. */
static bool staging_reserve(struct penstock_store *s)
{
	struct store_staging *g = &s->staging;
	struct store_buf *b;

	if (g->idle.next == &g->idle && g->recent.next != &g->recent)
		store_staging_drop_copy(s, g->recent.next->entry);
	b = g->idle.next;
	if (b == &g->idle) /* a copy is being read: perhaps the next one is not */
		return g->recent.next != &g->recent;
	buf_list_remove(b);
	retire_buf(g, b);
	return true;
}

/* Newest first: its memory is still in the processor's cache. */
static struct store_buf *find_idle(struct store_staging *g, uint64_t len)
{
	for (struct store_buf *b = g->idle.prev; b != &g->idle; b = b->prev)
		if (b->len == len)
			return b;
	return NULL;
}

/* A copy nobody reads, of this size, whose memory can be used for another. */
static struct store_buf *reuse_copy(struct penstock_store *s, uint64_t len)
{
	struct store_staging *g = &s->staging;
	struct store_buf *b = g->recent.next;

	if (b == &g->recent || b->len != len || b->refs != 1 || g->bytes + len <= g->limit)
		return NULL;
	store_staging_drop_copy(s, b->entry);
	return find_idle(g, len);
}

struct store_buf *store_staging_get(struct penstock_store *s, uint64_t len)
{
	struct store_staging *g = &s->staging;
	struct store_buf *b;

	len = max_u64(store_units(len), 1) * STORE_UNIT;
	b = find_idle(g, len);
	if (!b)
		b = reuse_copy(s, len);
	if (b) {
		buf_list_remove(b);
	} else {
		/* One alone may be larger than the limit. */
		while (g->bytes && g->bytes + len > g->limit)
			if (!staging_reserve(s))
				return NULL;
		b = buf_new(s, len);
		if (!b)
			return NULL;
	}
	b->refs = 1;
	g->in_use++;
	return b;
}

/* Every value passes: with 64 MiB on their way a drive has too little to do. */
void store_staging_expect_gpu(struct penstock_store *s)
{
	if (!s->opts.memory)
		s->staging.limit = DEVICE_BYTES;
}

bool store_staging_queue(struct penstock_store *s, struct store_op *op)
{
	struct store_staging *g = &s->staging;

	/* Who has not waited yet stands behind those who do; one of them is always on its way. */
	if (!g->in_use && (op->waits_for_memory || !g->waiting.first))
		return false;
	if (op->waits_for_memory)
		store_op_queue_push_front(&g->waiting, op);
	else
		store_op_queue_push(&g->waiting, op);
	op->waits_for_memory = true;
	return true;
}

/* One at a time: there may be hundreds, and memory for one. */
static void wake_next_waiting(struct penstock_store *s)
{
	struct store_op *op = store_op_queue_pop(&s->staging.waiting);

	if (op)
		store_queue_op(s, op);
}

void store_staging_leave_queue(struct penstock_store *s, struct store_op *op)
{
	if (op->waits_for_memory)
		wake_next_waiting(s);
	op->waits_for_memory = false;
}

void store_staging_put(struct penstock_store *s, struct store_buf *b)
{
	s->staging.in_use--;
	buf_unref(s, b);
	wake_next_waiting(s);
}

void store_staging_keep_copy(struct penstock_store *s, struct store_buf *b, struct store_entry *e)
{
	struct store_staging *g = &s->staging;

	g->in_use--;
	b->entry = e;
	e->recent = b->slot;
	buf_list_append(&g->recent, b);
	wake_next_waiting(s); /* it can be taken for another now */
}

struct store_buf *store_staging_get_copy(struct penstock_store *s, const struct store_entry *e)
{
	struct store_buf *b = e->recent == STORE_NONE ? NULL : s->staging.slots[e->recent];

	if (b) {
		b->refs++;
		s->staging.in_use++;
	}
	return b;
}

/* ------------------------------------------------------------ the caller's */

int penstock_store_register(struct penstock_store *store, void *addr, uint64_t len, uint32_t want,
			    struct penstock_buf_info *info, struct penstock_err *err)
{
	int r = store_check(store, err);

	return r < 0 ? r : penstock_buf_register(store->io, addr, len, want, info, err);
}

int penstock_store_unregister(struct penstock_store *store, void *addr)
{
	int r = store_check(store, NULL);

	return r < 0 ? r : penstock_buf_unregister(store->io, addr);
}
