/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring: pinned host memory that device memory is read and written through.  One
 * per handle, made when device memory is first met, of a fixed size whatever the
 * transfers are.  It is known to the CUDA driver, so that copies run at the speed of
 * the bus, and to the queues' engines, so that the kernel need not look it up.
 *
 * Queues take pieces of it, from a page up to RING_PIECE, each a power of two of pages
 * at a multiple of its size: a buddy system.  Who finds none waits; and nobody is served
 * before who waits longest, so that many small pieces cannot keep a large one out for
 * ever.  What holds a piece never waits for another, so pieces always come back.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/core.h"
#include "core/port.h"
#include "core/queue.h"
#include "dl/cuda.h"

enum {
	RING_PAGE = 4096,
	ORDERS = 11,                    /* of pieces: RING_PAGE << order */
	RING_PER_QUEUE = 64 << 20,      /* about twice what a queue has in flight */
	RING_MAX = 256 << 20,           /* in all */
	RING_MIN = 2 * (int)RING_PIECE, /* where memory is short */
};
_Static_assert((uint64_t)RING_PAGE << (ORDERS - 1) == RING_PIECE, "the largest order");

#define NONE UINT32_MAX

/* A page of the ring; the first of a piece speaks for it. */
struct ring_page {
	uint32_t next, prev; /* in the list of its order, while free */
	uint8_t order;
	bool free;
};

/* ------------------------------------------------------------------ pieces */

static void pieces_add(struct ring *ring, uint32_t i, unsigned order)
{
	struct ring_page *p = &ring->pages[i];

	*p = (struct ring_page){ring->lists[order], NONE, (uint8_t)order, true};
	if (p->next != NONE)
		ring->pages[p->next].prev = i;
	ring->lists[order] = i;
}

static void pieces_del(struct ring *ring, uint32_t i)
{
	struct ring_page *p = &ring->pages[i];

	if (p->prev != NONE)
		ring->pages[p->prev].next = p->next;
	else
		ring->lists[p->order] = p->next;
	if (p->next != NONE)
		ring->pages[p->next].prev = p->prev;
	p->free = false;
}

static uint32_t piece_take(struct ring *ring, unsigned order)
{
	unsigned from = order;
	uint32_t i;

	while (from < ORDERS && ring->lists[from] == NONE)
		from++;
	if (from == ORDERS)
		return NONE;
	i = ring->lists[from];
	pieces_del(ring, i);
	while (from > order) { /* the upper half stays */
		from--;
		pieces_add(ring, i + (1u << from), from);
	}
	ring->pages[i].order = (uint8_t)order;
	return i;
}

static void piece_return(struct ring *ring, uint32_t i)
{
	unsigned order = ring->pages[i].order;
	uint32_t other;

	for (; order < ORDERS - 1; order++) {
		other = i ^ (1u << order);
		if (!ring->pages[other].free || ring->pages[other].order != order)
			break;
		pieces_del(ring, other);
		i &= ~(1u << order);
	}
	pieces_add(ring, i, order);
}

static int pieces_init(struct ring *ring)
{
	uint32_t n = (uint32_t)(ring->area.len / RING_PAGE);

	ring->pages = calloc(n, sizeof(*ring->pages));
	ring->lists = malloc(ORDERS * sizeof(*ring->lists));
	if (!ring->pages || !ring->lists)
		return -ENOMEM;
	for (unsigned i = 0; i < ORDERS; i++)
		ring->lists[i] = NONE;
	for (uint32_t i = n; i; i -= 1u << (ORDERS - 1)) /* so that the first is taken first */
		pieces_add(ring, i - (1u << (ORDERS - 1)), ORDERS - 1);
	return 0;
}

/* ------------------------------------------------------------------ making */

static void ring_unmake(struct ring *ring)
{
	penstock_area_unmap(&ring->area);
	free(ring->pages);
	free(ring->lists);
	ring->pages = NULL;
	ring->lists = NULL;
}

static int ring_make_of(struct penstock_io *io, uint64_t bytes, struct penstock_fault *fault)
{
	struct ring *ring = &io->ring;
	int r = penstock_area_map(&ring->area, bytes, io->opts.huge, 0);

	if (r < 0)
		return r;
	r = pieces_init(ring);
	/* A copy in a child of fork() would leave the pinned pages with one of the two. */
	if (!r)
		madvise(ring->area.addr, ring->area.len, MADV_DONTFORK);
	if (!r)
		r = penstock_fault_set(fault, "cuMemHostRegister",
				       io->gpus.cuda->host_register(ring->area.addr, ring->area.len,
								    CUDA_HOST_PORTABLE));
	if (r < 0)
		ring_unmake(ring);
	return r;
}

/* Under ring->making, with a context current. */
static int ring_make_now(struct penstock_io *io, struct penstock_fault *fault)
{
	uint64_t bytes = min_u64((uint64_t)io->nr_queues * RING_PER_QUEUE, RING_MAX);
	struct penstock_fault why;
	int r;

	do {
		why = (struct penstock_fault){0};
		r = ring_make_of(io, bytes, &why);
		bytes /= 2;
	} while (r == -ENOMEM && bytes >= RING_MIN);
	if (r < 0) {
		*fault = why;
		return r;
	}
	io->ring.slot = buf_slots_take(io, 1);
	if (io->ring.slot >= 0 && !io->engine->device)
		io->ring.bank = bank_put(io, (unsigned)io->ring.slot, io->ring.area.addr,
					 io->ring.area.len);
	atomic_store(&io->ring.bytes, io->ring.area.len);
	return 0;
}

int ring_make(struct penstock_io *io, struct penstock_fault *fault)
{
	int r = 0;

	if (atomic_load(&io->ring.bytes))
		return 0;
	pthread_mutex_lock(&io->ring.making);
	if (!atomic_load(&io->ring.bytes))
		r = ring_make_now(io, fault);
	pthread_mutex_unlock(&io->ring.making);
	return r;
}

/* ------------------------------------------------------------------ taking */

/* Whoever waits is served in turn.  Under ring->lock. */
static void waiters_add(struct ring *ring, struct queue *q)
{
	if (q->ring_waits)
		return;
	q->ring_waits = true;
	q->ring_next = NULL;
	*ring->waiters_tail = q;
	ring->waiters_tail = &q->ring_next;
}

static void waiters_del(struct ring *ring, struct queue *q)
{
	struct queue **at = &ring->waiters;

	if (!q->ring_waits)
		return;
	while (*at != q)
		at = &(*at)->ring_next;
	*at = q->ring_next;
	if (!*at)
		ring->waiters_tail = at;
	q->ring_waits = false;
}

/* Enough for everybody, also for who waits and does not look just now. */
static bool is_plenty(const struct ring *ring)
{
	uint32_t first = ring->lists[ORDERS - 1];

	return first != NONE && ring->pages[first].next != NONE;
}

int ring_get(struct queue *q, uint64_t len, void **out)
{
	struct ring *ring = &q->io->ring;
	unsigned order = 0;
	uint32_t i = NONE;

	while (((uint64_t)RING_PAGE << order) < len)
		order++;
	pthread_mutex_lock(&ring->lock);
	if (!ring->waiters || ring->waiters == q || is_plenty(ring))
		i = piece_take(ring, order);
	if (i == NONE)
		waiters_add(ring, q);
	else
		waiters_del(ring, q);
	pthread_mutex_unlock(&ring->lock);
	if (i == NONE)
		return -EBUSY;
	*out = (char *)ring->area.addr + (size_t)i * RING_PAGE;
	return 0;
}

void ring_put(struct queue *q, void *piece)
{
	struct ring *ring = &q->io->ring;
	size_t at = (size_t)((char *)piece - (char *)ring->area.addr);

	pthread_mutex_lock(&ring->lock);
	piece_return(ring, (uint32_t)(at / RING_PAGE));
	pthread_mutex_unlock(&ring->lock);
}

void ring_leave(struct queue *q)
{
	struct ring *ring = &q->io->ring;

	pthread_mutex_lock(&ring->lock);
	waiters_del(ring, q);
	pthread_mutex_unlock(&ring->lock);
}

/* This queue's engine is told of the ring by its own thread, when it first uses it. */
int ring_slot(struct queue *q)
{
	struct penstock_io *io = q->io;
	const struct ring *ring = &io->ring;
	int r = -ENOTSUP;

	if (q->ring_tried)
		return q->ring_slot;
	q->ring_tried = true;
	q->ring_slot = -1;
	if (!io->engine->set_buf || io->engine->device || ring->slot < 0)
		return -1;
	r = io->engine->set_buf(q->engine, ring->bank, (unsigned)ring->slot, ring->area.addr,
				ring->area.len);
	if (!r)
		q->ring_slot = ring->slot;
	else if (r != -ENOTSUP)
		io_fell(io, PENSTOCK_FELL_UNREGISTERED, NULL,
			"the engine could not register memory (RLIMIT_MEMLOCK)");
	return q->ring_slot;
}

/* ------------------------------------------------------------------ ending */

void ring_setup(struct ring *ring)
{
	pthread_mutex_init(&ring->making, NULL);
	pthread_mutex_init(&ring->lock, NULL);
	ring->waiters_tail = &ring->waiters;
}

void ring_free(struct penstock_io *io)
{
	struct ring *ring = &io->ring;
	bool entered;

	if (ring->area.addr) {
		entered = penstock_gpus_enter(&io->gpus);
		/* Rather lose it than give pages back that a device knows. */
		if (io->gpus.cuda->host_unregister(ring->area.addr) != CUDA_OK)
			ring->area.addr = NULL;
		if (entered)
			penstock_gpus_leave(&io->gpus);
	}
	ring_unmake(ring);
	pthread_mutex_destroy(&ring->lock);
	pthread_mutex_destroy(&ring->making);
}

/* In a child of fork(), which has the tables but neither the memory nor a driver. */
void ring_abandon(struct penstock_io *io)
{
	free(io->ring.pages);
	free(io->ring.lists);
}
