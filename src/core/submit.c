/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in: submission for later, and the blocking calls.  A blocking transfer
 * of one block is done by the caller's own thread with pread(2) or pwrite(2),
 * through the same planning and judging as all others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/s3.h>

#include "base/err.h"
#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "core/submitter.h"
#include "dl/cuda.h"

/* ----------------------------------------------------------- asynchronous */

enum {
	FIRST_BATCH = 16, /* handed over while the others of a call are prepared, if that pays */
	MISSED_MOST = 4,  /* where it did not so many times in a row, */
	WHOLE_TIMES = 64, /* it is not tried for a while */
};

/* Operations that are prepared, so that they are handed over together. */
struct batch {
	struct penstock_io *io;
	struct op_common common;
	struct queue *current;       /* of the calling I/O thread, if it is one */
	struct queue *queue;         /* the submitter's, the same for the whole call */
	struct op *spare;            /* free operations */
	struct op *newest, *oldest;  /* for the submitter's queue */
	struct op *shared[PULL_MAX]; /* for all */
	unsigned nr_single, nr_shared;
	bool shares;   /* some of this call went on the list for all */
	unsigned most; /* to be handed over together */
	struct prefetch_hints hints;
	struct penstock_stream_marker *marker; /* of the last one that asked for one */
};

/*
 * One block or not much more that one queue does best: nobody else need know of it.  Where the
 * queue's thread waits for each, the next one is for a thread that does not.
 */
static bool fits_one_queue(const struct penstock_io *io, const struct op *op)
{
	return op->file && !op->remote && op->len && op->len <= op->block &&
	       (io->nr_active == 1 || (op->len < SHARE_MIN_BYTES && !op_may_block(op)));
}

/*
 * Part of a batch goes ahead so that both threads work at the same time.  One of I/O that is behind
 * anyway, or sleeps in its engine with what it got first, had better get all at once.
 */
static void batch_push(struct batch *b)
{
	struct thread_cache *cache = b->common.cache;

	if (queue_push_ops(b->queue, cache, b->newest, b->oldest)) {
		cache->missed = 0;
	} else if (b->most && ++cache->missed == MISSED_MOST) {
		cache->missed = 0;
		cache->whole = WHOLE_TIMES;
	}
}

static void batch_submit(struct batch *b)
{
	struct penstock_io *io = b->io;
	struct submitter *submitter = b->common.cache->submitter;

	if (!b->nr_single && !b->nr_shared)
		return;
	atomic_fetch_add(&submitter->submitted, b->nr_single + b->nr_shared);
	if (b->nr_single)
		batch_push(b);
	if (b->nr_shared) {
		pthread_mutex_lock(&io->lock);
		for (unsigned i = 0; i < b->nr_shared; i++)
			pending_add(io, b->shared[i]);
		queues_wake(io);
		pthread_mutex_unlock(&io->lock);
	}
	b->newest = b->oldest = NULL;
	b->nr_single = b->nr_shared = 0;
	b->hints = (struct prefetch_hints){0};
}

/*
 * Nothing overtakes a large operation of the same call, and no write one that still waits: it may
 * be about the same bytes.
 */
static bool has_to_queue(const struct batch *b, const struct op *op)
{
	return b->nr_shared || ((b->shares || op->opcode == PENSTOCK_WRITE) && pending_seen(b->io));
}

static void submit_batch_add(struct batch *b, struct op *op)
{
	if (!fits_one_queue(b->io, op) || has_to_queue(b, op)) {
		b->shared[b->nr_shared++] = op;
		b->shares = true;
	} else {
		op->queue = b->queue;
		atomic_store_explicit(&op->state, OP_PENDING, memory_order_relaxed);
		prefetch_hints_add(&b->hints, &op->item);
		op->next = b->newest;
		b->newest = op;
		if (!b->oldest)
			b->oldest = op;
		b->nr_single++;
	}
	if (b->nr_single + b->nr_shared == (b->most && !b->nr_shared ? b->most : PULL_MAX)) {
		batch_submit(b);
		b->most = (unsigned)min_u64(2 * b->most, PULL_MAX);
	}
}

/* Of this thread's submitter, several at a time. */
static struct op *batch_op(struct batch *b)
{
	struct op *op;

	if (!b->spare)
		b->spare = submitter_take_ops(b->common.cache->submitter, b->common.refs.ahead);
	op = b->spare;
	if (op)
		b->spare = op->next;
	return op;
}

static int submit_one(struct batch *b, const struct penstock_op *u, uint64_t *ticket,
		      struct penstock_err *err)
{
	struct penstock_io *io = b->io;
	struct queue *q = u->on_done ? b->current : NULL;
	struct op *op = q ? queue_get_free_op(q) : batch_op(b);
	int r;

	if (!op)
		return penstock_fail(err, -ENOMEM, "out of memory");
	op->next = NULL;
	r = op_prepare(io, &b->common, op, u, err);
	if (!r && op->locations && (u->flags & PENSTOCK_OP_STREAM)) {
		r = device_set_marker(io, op, u->stream, &b->marker, err);
		if (r < 0)
			op_drop(op);
	}
	if (r < 0) {
		submitter_put_ops(op);
		return r;
	}
	if (ticket)
		*ticket = u->on_done ? 0 : op_ticket(op);
	/* Some must be able to leave the queue again: see local_pass(). */
	if (q && !op->locations && !op->striped && fits_one_queue(io, op) && queue_add_local(q, op))
		atomic_fetch_add(&b->common.cache->submitter->submitted, 1);
	else
		submit_batch_add(b, op);
	return 0;
}

int penstock_submit(struct penstock_io *io, const struct penstock_op *ops, unsigned n,
		    uint64_t *tickets, struct penstock_err *err)
{
	NO_CANCEL;
	struct batch b;
	unsigned i;
	int r;

	r = io_check(io, err);
	if (r < 0)
		return r;
	if (!ops && n)
		return penstock_fail(err, -EINVAL, "ops: is NULL");
	if (n > INT32_MAX)
		return penstock_fail(err, -EINVAL, "n: %u is outside 0..2147483647", n);
	b.io = io;
	b.common = (struct op_common){.cache = thread_cache_get(io)};
	if (!b.common.cache)
		return penstock_fail(err, -ENOMEM, "out of memory");
	b.current = queue_current(io);
	b.queue = atomic_load(&b.common.cache->submitter->queue);
	b.spare = b.newest = b.oldest = NULL;
	b.nr_single = b.nr_shared = 0;
	b.shares = false;
	b.most = n > FIRST_BATCH && !b.common.cache->whole ? FIRST_BATCH : 0;
	b.common.cache->whole -= b.common.cache->whole > 0;
	b.hints = (struct prefetch_hints){0};
	b.marker = NULL;
	b.common.cuda = penstock_cuda_present();
	for (i = 0; i < n; i++) {
		b.common.refs.ahead = (unsigned)min_u64(n - i, PULL_MAX);
		r = submit_one(&b, &ops[i], tickets ? &tickets[i] : NULL, err);
		if (r < 0)
			break;
	}
	batch_submit(&b);
	submitter_put_ops(b.spare);
	file_put_many(b.common.refs.file, b.common.refs.left);
	penstock_stream_marker_put(b.marker);
	return i || !n ? (int)i : r;
}

/* --------------------------------------------------------------- blocking */

static int inline_block(struct penstock_io *io, struct block *b)
{
	int r = 0;

	while (!block_may_start(b)) {
		if (queue_current(io)) { /* what it waits for may be this thread's to finish */
			b->code = -EDEADLK;
			return b->code;
		}
		block_pause(b);
	}
	if (b->mode == BLOCK_BOUNCE) {
		b->bounce = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), BOUNCE_BYTES);
		r = b->bounce ? 0 : -ENOMEM;
	}
	if (!r)
		r = block_start(io, NULL, b);
	if (r < 0) {
		b->code = r;
	} else {
		do {
			if (block_wants_pause(b))
				block_pause(b);
			b->req.res = penstock_req_run(&b->req);
		} while (!block_finish(io, b, &b->op->submitter->count));
	}
	COUNT(&b->op->submitter->count, inlined, 1);
	free(b->bounce);
	return b->code;
}

static void run_inline(struct penstock_io *io, struct op *op)
{
	struct block b;

	atomic_store_explicit(&op->state, OP_ISSUED, memory_order_relaxed);
	op->done_flags = PENSTOCK_DONE_INLINE;
	while (plan_block(op, &b)) {
		op->inflight++;
		inline_block(io, &b);
		block_account(op, &b);
	}
	op_conclude(io, op, &op->submitter->count);
	if (op->file)
		file_put(op->file);
}

static int run_queued(struct penstock_io *io, const struct penstock_op *u,
		      struct penstock_done *done, struct penstock_err *err)
{
	struct penstock_op plain = *u;
	uint64_t ticket;
	int r;

	plain.on_done = NULL;
	r = penstock_submit(io, &plain, 1, &ticket, err);
	return r < 0 ? r : penstock_wait(io, ticket, -1, done);
}

/* Whether the caller's thread does it: one block, or nothing to hand over. */
static bool inline_fits(const struct penstock_io *io, const struct penstock_cuda *cuda,
			const struct penstock_op *u)
{
	uint64_t len = u->nr_iov ? 0 : u->len;

	if (!io->engine->bypass)
		return false;
	if (u->file ? u->file->backing.object != NULL
		    : u->path && penstock_s3_is_uri(u->path, NULL))
		return false;
	if (u->opcode == PENSTOCK_SYNC)
		return true;
	for (unsigned i = 0; u->iov && i < u->nr_iov; i++)
		len += u->iov[i].len;
	/* Members of a striped file are to work at the same time. */
	if (u->file && u->file->backing.stripe && len > u->file->backing.stripe->unit)
		return false;
	return len <= io_inline_bytes(io) &&
	       !(cuda && u->memory != PENSTOCK_MEMORY_HOST && device_any(cuda, u));
}

int penstock_run(struct penstock_io *io, const struct penstock_op *u, struct penstock_done *done,
		 struct penstock_err *err)
{
	NO_CANCEL;
	struct op_common common = {.refs = {.ahead = 1}};
	struct op op = {0};
	int r = io_check(io, err);

	if (r < 0)
		return r;
	if (!u || !done)
		return penstock_fail(err, -EINVAL, "op, done: one of them is NULL");
	common.cuda = penstock_cuda_present();
	if (!inline_fits(io, common.cuda, u)) {
		if (queue_current(io))
			return penstock_fail(err, -EDEADLK,
					     "a completion callback must not wait for I/O");
		return run_queued(io, u, done, err);
	}
	common.cache = thread_cache_get(io);
	if (!common.cache)
		return penstock_fail(err, -ENOMEM, "out of memory");
	op.submitter = common.cache->submitter;
	r = op_prepare(io, &common, &op, u, err);
	if (r < 0)
		return r;
	run_inline(io, &op);
	op_result(&op, done);
	done->ticket = 0;
	free(op.msg);
	return 0;
}

static int64_t run_simple(struct penstock_file *f, const struct penstock_op *u,
			  struct penstock_err *err)
{
	struct penstock_done done;
	int r;

	if (!f)
		return penstock_fail(err, -EINVAL, "file: is NULL");
	r = penstock_run(f->io, u, &done, err);
	if (r < 0)
		return r;
	if (done.res < 0)
		penstock_fail(err, (int)done.res, "%s", done.msg);
	return done.res;
}

int64_t penstock_pread(struct penstock_file *file, void *buf, uint64_t len, uint64_t offset,
		       struct penstock_err *err)
{
	struct penstock_op u = {
		.opcode = PENSTOCK_READ, .file = file, .buf = buf, .len = len, .offset = offset};

	return run_simple(file, &u, err);
}

int64_t penstock_pwrite(struct penstock_file *file, const void *buf, uint64_t len, uint64_t offset,
			struct penstock_err *err)
{
	struct penstock_op u = {.opcode = PENSTOCK_WRITE,
				.file = file,
				.buf = (void *)(uintptr_t)buf,
				.len = len,
				.offset = offset};

	return run_simple(file, &u, err);
}
