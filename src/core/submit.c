/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in: submission for later, and the blocking calls.  A blocking transfer
 * of one block is done by the caller's own thread with pread(2) or pwrite(2),
 * through the same planning and judging as all others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "core/core.h"
#include "dl/cuda.h"

/* ----------------------------------------------------------- asynchronous */

/* One whole block that goes straight: a callback's thread can do it on its own queue. */
static bool fits_local(const struct op *op)
{
	const struct sluice_backing *s;
	uint64_t align;

	if (op->places || !op->on_done || op->nr_iov != 1 || !op->len || op->len > op->block ||
	    op->small_pages || (op->flags & (SLUICE_OP_DATASYNC | SLUICE_OP_FULLSYNC)))
		return false;
	s = &op->file->store;
	align = op->opcode == SLUICE_READ ? s->off_align : s->edge_align;
	return !s->direct || (is_aligned(op->offset, align) && is_aligned(op->len, align) &&
			      is_aligned((uint64_t)(uintptr_t)op->one.addr, s->mem_align));
}

static struct op *op_get(struct sluice_io *io, struct queue *q)
{
	struct op *op;

	if (q)
		return queue_spare(q);
	pthread_mutex_lock(&io->lock);
	op = op_alloc(io);
	pthread_mutex_unlock(&io->lock);
	return op;
}

static void op_put(struct sluice_io *io, struct op *op)
{
	pthread_mutex_lock(&io->lock);
	op_free(io, op);
	pthread_mutex_unlock(&io->lock);
}

/* Operations that are ready to become pending, so that the list is locked once for many. */
struct batch {
	struct op *ops[PULL_MAX];
	unsigned n;
	const struct sluice_cuda *cuda;
	struct sluice_order *order; /* of the last one that asked for one */
};

static void batch_submit(struct sluice_io *io, struct batch *b)
{
	if (!b->n)
		return;
	pthread_mutex_lock(&io->lock);
	for (unsigned i = 0; i < b->n; i++)
		pend_add(io, b->ops[i]);
	queue_wake(io);
	pthread_mutex_unlock(&io->lock);
	b->n = 0;
}

static int submit_one(struct sluice_io *io, const struct sluice_op *u, struct batch *b,
		      uint64_t *ticket, struct sluice_err *err)
{
	struct queue *q = u->on_done ? queue_current(io) : NULL;
	struct op *op = op_get(io, q);
	int r;

	if (!op)
		return sluice_fail(err, -ENOMEM, "out of memory");
	r = op_prepare(io, b->cuda, op, u, err);
	if (!r && op->places && (u->flags & SLUICE_OP_STREAM)) {
		r = device_order(io, op, u->stream, &b->order, err);
		if (r < 0)
			op_drop(op);
	}
	if (r < 0) {
		op_put(io, op);
		return r;
	}
	io->active++;
	if (ticket)
		*ticket = u->on_done ? 0 : op_ticket(op);
	if (q && fits_local(op) && queue_add_local(q, op))
		return 0;
	b->ops[b->n++] = op;
	if (b->n == PULL_MAX)
		batch_submit(io, b);
	return 0;
}

int sluice_submit(struct sluice_io *io, const struct sluice_op *ops, unsigned n, uint64_t *tickets,
		  struct sluice_err *err)
{
	NO_CANCEL;
	struct batch b;
	unsigned i;
	int r;

	r = io_check(io, err);
	if (r < 0)
		return r;
	if (!ops && n)
		return sluice_fail(err, -EINVAL, "ops: is NULL");
	if (n > INT32_MAX)
		return sluice_fail(err, -EINVAL, "n: %u is outside 0..2147483647", n);
	b.n = 0;
	b.order = NULL;
	b.cuda = sluice_cuda_present();
	for (i = 0; i < n; i++) {
		r = submit_one(io, &ops[i], &b, tickets ? &tickets[i] : NULL, err);
		if (r < 0)
			break;
	}
	batch_submit(io, &b);
	sluice_order_put(b.order);
	return i || !n ? (int)i : r;
}

/* --------------------------------------------------------------- blocking */

static int inline_block(struct sluice_io *io, struct block *b)
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
			b->req.res = sluice_req_run(&b->req);
		} while (!block_finish(io, b, &io->count));
	}
	COUNT(io->count.inlined, 1);
	free(b->bounce);
	return b->code;
}

static void run_inline(struct sluice_io *io, struct op *op)
{
	struct block b;

	op->state = OP_ISSUED;
	op->done_flags = SLUICE_DONE_INLINE;
	while (plan_block(op, &b)) {
		op->inflight++;
		inline_block(io, &b);
		block_account(op, &b);
	}
	op_conclude(io, op);
	if (op->file)
		file_put(op->file);
}

static int run_queued(struct sluice_io *io, const struct sluice_op *u, struct sluice_done *done,
		      struct sluice_err *err)
{
	struct sluice_op plain = *u;
	uint64_t ticket;
	int r;

	plain.on_done = NULL;
	r = sluice_submit(io, &plain, 1, &ticket, err);
	return r < 0 ? r : sluice_wait(io, ticket, -1, done);
}

/* Whether the caller's thread does it: one block, or nothing to hand over. */
static bool inline_fits(const struct sluice_io *io, const struct sluice_cuda *cuda,
			const struct sluice_op *u)
{
	uint64_t len = u->nr_iov ? 0 : u->len;

	if (!io->engine->bypass)
		return false;
	if (u->opcode == SLUICE_SYNC)
		return true;
	for (unsigned i = 0; u->iov && i < u->nr_iov; i++)
		len += u->iov[i].len;
	return len <= io_inline_bytes(io) &&
	       !(cuda && u->memory != SLUICE_MEMORY_HOST && device_any(cuda, u));
}

int sluice_run(struct sluice_io *io, const struct sluice_op *u, struct sluice_done *done,
	       struct sluice_err *err)
{
	NO_CANCEL;
	const struct sluice_cuda *cuda;
	struct op op = {0};
	int r = io_check(io, err);

	if (r < 0)
		return r;
	if (!u || !done)
		return sluice_fail(err, -EINVAL, "op, done: one of them is NULL");
	cuda = sluice_cuda_present();
	if (!inline_fits(io, cuda, u)) {
		if (queue_current(io))
			return sluice_fail(err, -EDEADLK,
					   "a completion callback must not wait for I/O");
		return run_queued(io, u, done, err);
	}
	r = op_prepare(io, cuda, &op, u, err);
	if (r < 0)
		return r;
	run_inline(io, &op);
	op_result(&op, done);
	done->ticket = 0;
	free(op.msg);
	return 0;
}

static int64_t run_simple(struct sluice_file *f, const struct sluice_op *u, struct sluice_err *err)
{
	struct sluice_done done;
	int r;

	if (!f)
		return sluice_fail(err, -EINVAL, "file: is NULL");
	r = sluice_run(f->io, u, &done, err);
	if (r < 0)
		return r;
	if (done.res < 0)
		sluice_fail(err, (int)done.res, "%s", done.msg);
	return done.res;
}

int64_t sluice_pread(struct sluice_file *file, void *buf, uint64_t len, uint64_t offset,
		     struct sluice_err *err)
{
	struct sluice_op u = {
		.opcode = SLUICE_READ, .file = file, .buf = buf, .len = len, .offset = offset};

	return run_simple(file, &u, err);
}

int64_t sluice_pwrite(struct sluice_file *file, const void *buf, uint64_t len, uint64_t offset,
		      struct sluice_err *err)
{
	struct sluice_op u = {.opcode = SLUICE_WRITE,
			      .file = file,
			      .buf = (void *)(uintptr_t)buf,
			      .len = len,
			      .offset = offset};

	return run_simple(file, &u, err);
}
