/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of device memory.  A read is I/O into a piece of the pinned pool, then a copy to the
 * device; a write is a copy from the device, then I/O.  Copies are queued in copy streams, of
 * which a queue has several per device and direction: one for what may run at once, and a
 * few for what has to wait for streams of the user's, which may take long, so that nobody
 * else waits with them.
 *
 * The I/O thread never waits for a copy.  It puts an event behind each large one, and once
 * a round one behind all small ones since the last, and asks each copy stream for the oldest
 * that is reached; until that says so the pieces are not touched.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "dl/cuda.h"
#include "mem/copy.h"

enum {
	STREAM_WAITERS =
		3, /* copy streams for streams of the user's; with more of these some share one */
	COPY_STREAMS = 2 * (1 + STREAM_WAITERS) * PENSTOCK_GPUS_MAX,
	SPINS = 50,     /* looks at the copy streams before sleeping in between, or for longer */
	NAP_NS = 20000, /* the first of these sleeps, */
	NAP_MAX_NS = 500000, /* and the longest */
	FAILURES_MAX = 1000,
	LARGE = 256 << 10, /* a block worth an event of its own */
};

static int failure_to_err(struct penstock_err *err, const char *what, int code,
			  const struct penstock_cuda_failure *failure)
{
	if (!code)
		return 0;
	if (!failure->code)
		return penstock_fail(err, code, "out of memory");
	return penstock_fail(err, code, "%s: %s: %s", what, failure->call,
			     penstock_cuda_name(failure->code));
}

/* ---------------------------------------------------------------- locations */

/* Also where the driver failed to say: that makes an error later, with its name. */
static bool is_device(const struct penstock_cuda *cuda, const void *addr, uint64_t len)
{
	struct penstock_cuda_failure failure = {0};

	return len && (penstock_mem_locate(cuda, addr, &failure).device >= 0 || failure.code);
}

bool device_any(const struct penstock_cuda *cuda, const struct penstock_op *u)
{
	bool any = false;

	if (!u->nr_iov)
		return is_device(cuda, u->buf, u->len);
	for (unsigned i = 0; u->iov && i < u->nr_iov && !any; i++)
		any = is_device(cuda, u->iov[i].addr, u->iov[i].len);
	return any;
}

int device_find(const struct penstock_cuda *cuda, struct op *op, struct penstock_err *err)
{
	struct penstock_mem_location *locations = &op->one_location;
	struct penstock_cuda_failure failure = {0};
	bool any = false;

	if (!op->len)
		return 0;
	if (op->nr_iov > 1)
		locations = calloc(op->nr_iov, sizeof(*locations));
	if (!locations)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < op->nr_iov; i++) {
		locations[i] = op->iov[i].len ? penstock_mem_locate(cuda, op->iov[i].addr, &failure)
					      : (struct penstock_mem_location){-1, false};
		any |= locations[i].device >= 0;
	}
	op->marker = NULL;
	if (any && !failure.code)
		op->locations = locations;
	else if (locations != &op->one_location)
		free(locations);
	return failure_to_err(err, "buf", penstock_cuda_errno(failure.code), &failure);
}

static int first_device(const struct op *op)
{
	unsigned i = 0;

	while (op->locations[i].device < 0)
		i++;
	return op->locations[i].device;
}

int device_set_marker(struct penstock_io *io, struct op *op, void *stream,
		      struct penstock_stream_marker **last, struct penstock_err *err)
{
	struct penstock_cuda_failure failure = {0};
	int r;

	if (!*last || (*last)->stream != stream) {
		penstock_stream_marker_put(*last);
		*last = NULL;
		r = penstock_stream_marker_new(last, &io->gpus, first_device(op), stream, &failure);
		if (r < 0)
			return failure_to_err(err, "stream", r, &failure);
	}
	atomic_fetch_add(&(*last)->refs, 1);
	op->marker = *last;
	return 0;
}

/* ---------------------------------------------------------------- copy streams */

/* Blocks for copies, so that these do not take the place of transfers. */
static int add_blocks(struct queue *q)
{
	if (!q->copy_streams)
		q->copy_streams = calloc(COPY_STREAMS, sizeof(struct penstock_copy_stream *));
	if (!q->device_blocks) {
		q->device_blocks = calloc(COPY_BLOCKS, sizeof(*q->device_blocks));
		for (unsigned i = 0; q->device_blocks && i < COPY_BLOCKS; i++) {
			q->device_blocks[i].req.next = (struct penstock_req *)q->free;
			q->free = &q->device_blocks[i];
			q->nr_free++;
		}
	}
	return q->copy_streams && q->device_blocks ? 0 : -ENOMEM;
}

static int set_ctx(struct queue *q, void *ctx, struct penstock_cuda_failure *failure)
{
	int r;

	if (q->ctx == ctx)
		return 0;
	r = penstock_cuda_failure_set(failure, "cuCtxSetCurrent", q->io->gpus.cuda->ctx_set(ctx));
	q->ctx = r < 0 ? NULL : ctx;
	return r;
}

int device_enter(struct queue *q, int device)
{
	struct penstock_cuda_failure ignored = {0};
	void *ctx;
	int r = penstock_gpus_ctx(&q->io->gpus, device, &ctx, &ignored);

	return r < 0 ? r : set_ctx(q, ctx, &ignored);
}

static int open_copy_stream(struct queue *q, int device, struct penstock_copy_stream **out,
			    struct penstock_cuda_failure *failure)
{
	CLEANUP_FREE struct penstock_copy_stream *cs = calloc(1, sizeof(*cs));
	int r;

	if (!cs)
		return -ENOMEM;
	r = penstock_gpus_ctx(&q->io->gpus, device, &cs->ctx, failure);
	if (r < 0)
		return r;
	cs->cuda = q->io->gpus.cuda;
	r = set_ctx(q, cs->ctx, failure);
	if (r < 0)
		return r;
	r = penstock_copy_stream_open(cs, failure);
	if (r < 0)
		return r;
	cs->next = q->open_copy_streams;
	q->open_copy_streams = cs;
	*out = TAKE_PTR(cs);
	return 0;
}

static int block_device(const struct block *b)
{
	const struct op *op = b->op;
	uint64_t left = b->len, seg_off = b->seg_off;

	for (unsigned seg = b->seg; left; seg++, seg_off = 0) {
		uint64_t bytes = min_u64(left, op->iov[seg].len - seg_off);

		if (bytes && op->locations[seg].device >= 0)
			return op->locations[seg].device;
		left -= bytes;
	}
	return -1;
}

/* Of the copy streams for markers that of the stream, else a new one, else one that has nothing to
 * do. */
static struct penstock_copy_stream **copy_stream_behind(struct penstock_copy_stream **streams,
							const void *stream)
{
	struct penstock_copy_stream **at = streams;

	for (unsigned i = 0; i < STREAM_WAITERS; i++) {
		if (!streams[i] || streams[i]->behind == stream)
			return &streams[i];
		if (!streams[i]->first && !streams[i]->open)
			at = &streams[i];
	}
	return at;
}

/* The copy stream of a block, with its context current, and behind what the operation waits for. */
static int get_copy_stream(struct queue *q, struct block *b, struct penstock_copy_stream **out)
{
	const struct op *op = b->op;
	int device = block_device(b), r = 0;
	bool leaves = op->opcode == PENSTOCK_WRITE ||
		      (op->opcode == PENSTOCK_COPY && op->locations[0].device < 0);
	bool waits = op->marker && !penstock_stream_marker_reached(op->marker);
	struct penstock_copy_stream **at;

	if (device < 0)
		device = first_device(op); /* gathered from host memory alone: any will do */
	at = q->copy_streams + (1 + STREAM_WAITERS) * (2 * device + leaves);
	if (waits)
		at = copy_stream_behind(at + 1, op->marker->stream);
	if (!*at)
		r = open_copy_stream(q, device, at, &b->failure);
	if (!r)
		r = set_ctx(q, (*at)->ctx, &b->failure);
	if (!r && waits) {
		(*at)->behind = op->marker->stream;
		r = penstock_copy_stream_wait(*at, op->marker, &b->failure);
	}
	*out = *at;
	return r;
}

/* ------------------------------------------------------------------ copies */

/* Copy one stretch of a segment. */
static int copy_stretch(struct penstock_copy_stream *cs, const struct block *b, bool device,
			char *user, char *piece, uint64_t len,
			struct penstock_cuda_failure *failure)
{
	const struct penstock_cuda *cuda = cs->cuda;
	bool read = b->op->opcode == PENSTOCK_READ;

	if (!device) {
		penstock_copy_nontemporal(read ? user : piece, read ? piece : user, len);
		return 0;
	}
	if (read)
		return penstock_cuda_failure_set(
			failure, "cuMemcpyHtoDAsync",
			cuda->copy_to_device((uintptr_t)user, piece, len, cs->stream));
	return penstock_cuda_failure_set(
		failure, "cuMemcpyDtoHAsync",
		cuda->copy_from_device(piece, (uintptr_t)user, len, cs->stream));
}

/* Queue the copies of @len bytes of a block.  After a failure some may be queued all the same. */
static int device_copy(struct penstock_copy_stream *cs, struct block *b, uint64_t len)
{
	const struct op *op = b->op;
	uint64_t seg_off = b->seg_off, step;
	unsigned seg = b->seg;
	char *piece = b->data;
	int r = 0;

	for (; len && !r; seg++, seg_off = 0) {
		step = min_u64(len, op->iov[seg].len - seg_off);
		if (step)
			r = copy_stretch(cs, b, op->locations[seg].device >= 0,
					 (char *)op->iov[seg].addr + seg_off, piece, step,
					 &b->failure);
		piece += step;
		len -= step;
	}
	return r;
}

/*
 * May the copy stream be looked after?  Not without its context, but that cannot be waited for
 * for ever: in the end the calls fail for want of it, and so do the blocks.
 */
static bool copy_stream_use(struct queue *q, struct penstock_copy_stream *cs)
{
	struct penstock_cuda_failure ignored = {0};

	if (!set_ctx(q, cs->ctx, &ignored))
		cs->failures = 0;
	else if (++cs->failures < FAILURES_MAX)
		return false;
	return true;
}

/* Give the block to its copy stream: it comes back by device_done(), failed ones included. */
static void copy_stream_add(struct queue *q, struct penstock_copy_stream *cs, struct block *b)
{
	b->req.next = cs->open;
	cs->open = b;
	q->nr_copying++;
	q->copy_bytes += b->len;
	q->polls = 0;
	if (b->len >= LARGE && copy_stream_use(q, cs))
		penstock_copy_stream_mark(cs); /* else with others, by device_flush() */
}

static void starve(struct queue *q, struct block *b)
{
	b->req.next = NULL;
	*q->starved_tail = b;
	q->starved_tail = (struct block **)&b->req.next;
	q->nr_starved++;
}

static uint64_t piece_len(const struct block *b)
{
	return align_up(b->skip + b->len, b->op->file->backing.off_align);
}

/* From memory to memory: nothing but the copy. */
static int prepare_copy(struct queue *q, struct block *b)
{
	const struct penstock_iov *iov = b->op->iov;
	struct penstock_copy_stream *cs;
	int r = add_blocks(q);

	if (!r)
		r = get_copy_stream(q, b, &cs);
	if (r < 0)
		return r;
	b->code = penstock_cuda_failure_set(&b->failure, "cuMemcpyAsync",
					    cs->cuda->copy((uintptr_t)iov[0].addr + b->seg_off,
							   (uintptr_t)iov[1].addr + b->seg_off,
							   b->len, cs->stream));
	b->moved = b->code ? 0 : b->len;
	copy_stream_add(q, cs, b);
	return 1;
}

int device_prepare(struct queue *q, struct block *b)
{
	struct penstock_copy_stream *cs = NULL;
	int r;

	if (b->mode == BLOCK_COPY)
		return prepare_copy(q, b);
	if (b->started || b->device_ready || (b->mode == BLOCK_CUFILE && !b->op->marker))
		return 0;
	r = add_blocks(q);
	/* Whatever fails does so before anything is read. */
	if (!r)
		r = get_copy_stream(q, b, &cs);
	if (!r && b->mode == BLOCK_CUFILE) {
		if (penstock_stream_marker_reached(b->op->marker))
			return 0;
		copy_stream_add(q, cs, b); /* nothing to copy: behind the stream it waits for */
		return 1;
	}
	if (!r)
		r = pinned_pool_make(q->io, &b->failure);
	if (!r && !b->bounce)
		r = pinned_pool_get(q, piece_len(b), &b->bounce);
	if (r == -EBUSY) {
		starve(q, b);
		return 1;
	}
	if (r < 0 || b->op->opcode == PENSTOCK_READ)
		return r;
	b->data = b->bounce;
	b->code = device_copy(cs, b, b->len);
	copy_stream_add(q, cs, b);
	return 1;
}

bool device_copy_out(struct queue *q, struct block *b)
{
	struct penstock_copy_stream *cs;
	int r;

	if (b->op->opcode != PENSTOCK_READ || !b->moved)
		return false;
	r = get_copy_stream(q, b, &cs);
	if (!r)
		r = device_copy(cs, b, b->moved);
	if (r < 0) {
		b->code = r;
		b->moved = 0;
	}
	/* Without a copy stream nothing is queued, and no event need be waited for. */
	if (!cs)
		return false;
	copy_stream_add(q, cs, b);
	return true;
}

void device_flush(struct queue *q)
{
	for (struct penstock_copy_stream *cs = q->open_copy_streams; cs; cs = cs->next)
		if (cs->open && copy_stream_use(q, cs))
			penstock_copy_stream_mark(cs);
}

/* ------------------------------------------------------------- coming back */

static void copy_ended(struct queue *q, struct block *b,
		       const struct penstock_cuda_failure *failure)
{
	q->nr_copying--;
	q->copy_bytes -= b->len;
	q->polls = 0;
	b->device_ready = true;
	if (!failure->code)
		return;
	if (b->op->opcode != PENSTOCK_WRITE)
		b->moved = 0;
	if (b->code < 0)
		return;
	b->code = penstock_cuda_errno(failure->code);
	b->failure = *failure;
}

struct block *device_done(struct queue *q)
{
	struct block *list = NULL, *b, *next;
	struct penstock_cuda_failure failure;

	device_flush(q);
	for (struct penstock_copy_stream *cs = q->open_copy_streams; cs; cs = cs->next)
		while (cs->first && copy_stream_use(q, cs) &&
		       (b = penstock_copy_stream_reached(cs, &failure)))
			for (; b; b = next) {
				next = (struct block *)b->req.next;
				copy_ended(q, b, &failure);
				b->req.next = (struct penstock_req *)list;
				list = b;
			}
	return list;
}

struct block *device_retry(struct queue *q)
{
	struct block *list = NULL, **tail = &list, *b;

	while ((b = q->starved) &&
	       (q->broken || pinned_pool_get(q, piece_len(b), &b->bounce) == 0)) {
		q->starved = (struct block *)b->req.next;
		q->nr_starved--;
		b->req.next = NULL;
		*tail = b;
		tail = (struct block **)&b->req.next;
		q->polls = 0;
	}
	if (!q->starved) {
		q->starved_tail = &q->starved;
		if (list && q->broken)
			pinned_pool_stop_waiting(q);
	}
	return list;
}

/*
 * Copies are over soon, unless they wait for a stream of the user's.  With I/O in flight there
 * is no hurry: that wakes the thread as well.
 */
int64_t device_poll_ns(struct queue *q)
{
	unsigned polls;

	if (!device_busy(q))
		return -1;
	polls = q->polls++;
	if (polls < SPINS && !q->inflight)
		return 0;
	return (int64_t)min_u64((uint64_t)NAP_NS << min_u64(polls / SPINS, 16), NAP_MAX_NS);
}

void device_close(struct queue *q)
{
	struct penstock_cuda_failure ignored = {0};

	for (struct penstock_copy_stream *cs = q->open_copy_streams; cs; cs = cs->next) {
		set_ctx(q, cs->ctx, &ignored);
		penstock_copy_stream_close(cs);
	}
	if (q->open_copy_streams)
		q->io->gpus.cuda->ctx_set(NULL);
}

void device_free(struct queue *q)
{
	struct penstock_copy_stream *cs;

	while ((cs = q->open_copy_streams)) {
		q->open_copy_streams = cs->next;
		free(cs);
	}
	free(q->copy_streams);
	free(q->device_blocks);
}
