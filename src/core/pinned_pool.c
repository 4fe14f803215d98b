/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pinned pool: host memory that device memory is read and written through.  One
 * per handle, made when device memory is first met, of a fixed size whatever the
 * transfers are.  It is known to the CUDA driver, so that copies run at the speed of
 * the bus, and to the queues' engines, so that the kernel need not look it up.
 *
 * Queues take pieces of it, from a page up to PINNED_PIECE, each a power of two of pages
 * at a multiple of its size: a buddy system.  Who finds none waits; and nobody is served
 * before who waits longest, so that many small pieces cannot keep a large one out for
 * ever.  What holds a piece never waits for another, so pieces always come back.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core.h"
#include "core/queue.h"
#include "core/submitter.h"
#include "dl/cuda.h"

enum {
	PINNED_PAGE = 4096,
	ORDERS = 11,                        /* of pieces: PINNED_PAGE << order */
	PINNED_PER_QUEUE = 64 << 20,        /* about twice what a queue has in flight */
	PINNED_MAX = 256 << 20,             /* in all */
	PINNED_MIN = 2 * (int)PINNED_PIECE, /* where memory is short */
};
_Static_assert((uint64_t)PINNED_PAGE << (ORDERS - 1) == PINNED_PIECE, "the largest order");

#define NONE UINT32_MAX

/* A page of the pool; the first of a piece speaks for it. */
struct pinned_page {
	uint32_t next, prev; /* in the list of its order, while free */
	uint8_t order;
	bool free;
};

/* ------------------------------------------------------------------ pieces */

static void pieces_add(struct pinned_pool *pool, uint32_t i, unsigned order)
{
	struct pinned_page *p = &pool->pages[i];

	*p = (struct pinned_page){pool->lists[order], NONE, (uint8_t)order, true};
	if (p->next != NONE)
		pool->pages[p->next].prev = i;
	pool->lists[order] = i;
}

static void pieces_del(struct pinned_pool *pool, uint32_t i)
{
	struct pinned_page *p = &pool->pages[i];

	if (p->prev != NONE)
		pool->pages[p->prev].next = p->next;
	else
		pool->lists[p->order] = p->next;
	if (p->next != NONE)
		pool->pages[p->next].prev = p->prev;
	p->free = false;
}

static uint32_t piece_take(struct pinned_pool *pool, unsigned order)
{
	unsigned from = order;
	uint32_t i;

	while (from < ORDERS && pool->lists[from] == NONE)
		from++;
	if (from == ORDERS)
		return NONE;
	i = pool->lists[from];
	pieces_del(pool, i);
	while (from > order) { /* the upper half stays */
		from--;
		pieces_add(pool, i + (1u << from), from);
	}
	pool->pages[i].order = (uint8_t)order;
	return i;
}

static void piece_return(struct pinned_pool *pool, uint32_t i)
{
	unsigned order = pool->pages[i].order;
	uint32_t other;

	for (; order < ORDERS - 1; order++) {
		other = i ^ (1u << order);
		if (!pool->pages[other].free || pool->pages[other].order != order)
			break;
		pieces_del(pool, other);
		i &= ~(1u << order);
	}
	pieces_add(pool, i, order);
}

static int pieces_init(struct pinned_pool *pool)
{
	uint32_t n = (uint32_t)(pool->area.len / PINNED_PAGE);

	pool->pages = calloc(n, sizeof(*pool->pages));
	pool->lists = malloc(ORDERS * sizeof(*pool->lists));
	if (!pool->pages || !pool->lists)
		return -ENOMEM;
	for (unsigned i = 0; i < ORDERS; i++)
		pool->lists[i] = NONE;
	for (uint32_t i = n; i; i -= 1u << (ORDERS - 1)) /* so that the first is taken first */
		pieces_add(pool, i - (1u << (ORDERS - 1)), ORDERS - 1);
	return 0;
}

/* ------------------------------------------------------------------ making */

static void pinned_pool_unmake(struct pinned_pool *pool)
{
	penstock_area_unmap(&pool->area);
	free(pool->pages);
	free(pool->lists);
	pool->pages = NULL;
	pool->lists = NULL;
}

static int pinned_pool_make_of(struct penstock_io *io, uint64_t bytes,
			       struct penstock_cuda_failure *failure)
{
	struct pinned_pool *pool = &io->pinned_pool;
	int r = penstock_area_map(&pool->area, bytes, io->opts.huge, 0);

	if (r < 0)
		return r;
	r = pieces_init(pool);
	/* A copy in a child of fork() would leave the pinned pages with one of the two. */
	if (!r)
		madvise(pool->area.addr, pool->area.len, MADV_DONTFORK);
	if (!r)
		r = penstock_cuda_failure_set(failure, "cuMemHostRegister",
					      io->gpus.cuda->host_register(pool->area.addr,
									   pool->area.len,
									   CUDA_HOST_PORTABLE));
	if (r < 0)
		pinned_pool_unmake(pool);
	return r;
}

/* Under pool->make_lock, with a context current. */
static int pinned_pool_make_now(struct penstock_io *io, struct penstock_cuda_failure *failure)
{
	uint64_t bytes = min_u64((uint64_t)io->nr_queues * PINNED_PER_QUEUE, PINNED_MAX);
	struct penstock_cuda_failure why;
	int r;

	do {
		why = (struct penstock_cuda_failure){0};
		r = pinned_pool_make_of(io, bytes, &why);
		bytes /= 2;
	} while (r == -ENOMEM && bytes >= PINNED_MIN);
	if (r < 0) {
		*failure = why;
		return r;
	}
	io->pinned_pool.slot = buf_slots_take(io, 1);
	if (io->pinned_pool.slot >= 0 && !io->engine->device)
		io->pinned_pool.shared_bufs =
			shared_bufs_set(io, (unsigned)io->pinned_pool.slot,
					io->pinned_pool.area.addr, io->pinned_pool.area.len);
	atomic_store(&io->pinned_pool.bytes, io->pinned_pool.area.len);
	return 0;
}

int pinned_pool_make(struct penstock_io *io, struct penstock_cuda_failure *failure)
{
	int r = 0;

	if (atomic_load(&io->pinned_pool.bytes))
		return 0;
	pthread_mutex_lock(&io->pinned_pool.make_lock);
	if (!atomic_load(&io->pinned_pool.bytes))
		r = pinned_pool_make_now(io, failure);
	pthread_mutex_unlock(&io->pinned_pool.make_lock);
	return r;
}

/* ------------------------------------------------------------------ taking */

/* Whoever waits is served in turn.  Under pinned_pool.lock. */
static void waiting_add(struct pinned_pool *pool, struct queue *q)
{
	if (q->pinned_waits)
		return;
	q->pinned_waits = true;
	q->pinned_next = NULL;
	*pool->waiting_tail = q;
	pool->waiting_tail = &q->pinned_next;
}

static void waiting_del(struct pinned_pool *pool, struct queue *q)
{
	struct queue **at = &pool->waiting;

	if (!q->pinned_waits)
		return;
	while (*at != q)
		at = &(*at)->pinned_next;
	*at = q->pinned_next;
	if (!*at)
		pool->waiting_tail = at;
	q->pinned_waits = false;
}

/* Enough for everybody, also for who waits and does not look just now. */
static bool is_plenty(const struct pinned_pool *pool)
{
	uint32_t first = pool->lists[ORDERS - 1];

	return first != NONE && pool->pages[first].next != NONE;
}

int pinned_pool_get(struct queue *q, uint64_t len, void **out)
{
	struct pinned_pool *pool = &q->io->pinned_pool;
	unsigned order = 0;
	uint32_t i = NONE;

	while (((uint64_t)PINNED_PAGE << order) < len)
		order++;
	pthread_mutex_lock(&pool->lock);
	if (!pool->waiting || pool->waiting == q || is_plenty(pool))
		i = piece_take(pool, order);
	if (i == NONE)
		waiting_add(pool, q);
	else
		waiting_del(pool, q);
	pthread_mutex_unlock(&pool->lock);
	if (i == NONE)
		return -EBUSY;
	*out = (char *)pool->area.addr + (size_t)i * PINNED_PAGE;
	return 0;
}

void pinned_pool_put(struct queue *q, void *piece)
{
	struct pinned_pool *pool = &q->io->pinned_pool;
	size_t at = (size_t)((char *)piece - (char *)pool->area.addr);

	pthread_mutex_lock(&pool->lock);
	piece_return(pool, (uint32_t)(at / PINNED_PAGE));
	pthread_mutex_unlock(&pool->lock);
}

void pinned_pool_stop_waiting(struct queue *q)
{
	struct pinned_pool *pool = &q->io->pinned_pool;

	pthread_mutex_lock(&pool->lock);
	waiting_del(pool, q);
	pthread_mutex_unlock(&pool->lock);
}

/* This queue's engine is told of the pinned pool by its own thread, when it first uses it. */
int pinned_pool_slot(struct queue *q)
{
	struct penstock_io *io = q->io;
	const struct pinned_pool *pool = &io->pinned_pool;
	int r = -ENOTSUP;

	if (q->pinned_tried)
		return q->pinned_slot;
	q->pinned_tried = true;
	q->pinned_slot = -1;
	if (!io->engine->set_buf || io->engine->device || pool->slot < 0)
		return -1;
	r = io->engine->set_buf(q->engine, pool->shared_bufs, (unsigned)pool->slot, pool->area.addr,
				pool->area.len);
	if (!r)
		q->pinned_slot = pool->slot;
	else if (r != -ENOTSUP)
		report_fallback(io, PENSTOCK_FALLBACK_UNREGISTERED, NULL,
				"the engine could not register memory (RLIMIT_MEMLOCK)");
	return q->pinned_slot;
}

/* ------------------------------------------------------------------ ending */

void pinned_pool_setup(struct pinned_pool *pool)
{
	pthread_mutex_init(&pool->make_lock, NULL);
	pthread_mutex_init(&pool->lock, NULL);
	pool->waiting_tail = &pool->waiting;
}

void pinned_pool_free(struct penstock_io *io)
{
	struct pinned_pool *pool = &io->pinned_pool;
	bool entered;

	if (pool->area.addr) {
		entered = penstock_gpus_enter(&io->gpus);
		/* Rather lose it than give pages back that a device knows. */
		if (io->gpus.cuda->host_unregister(pool->area.addr) != CUDA_OK)
			pool->area.addr = NULL;
		if (entered)
			penstock_gpus_leave(&io->gpus);
	}
	pinned_pool_unmake(pool);
	pthread_mutex_destroy(&pool->lock);
	pthread_mutex_destroy(&pool->make_lock);
}

/* In a child of fork(), which has the tables but neither the memory nor a driver. */
void pinned_pool_abandon(struct penstock_io *io)
{
	free(io->pinned_pool.pages);
	free(io->pinned_pool.lists);
}
