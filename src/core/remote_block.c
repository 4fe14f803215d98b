/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of objects.  They are planned, copied and accounted for like others, but the S3
 * client has them instead of the engine, and they come back from threads of its own: on a stack,
 * which the queue looks at before it sleeps.  The first queue has them all, for it does nothing but
 * pass them on, and what is written has to be handed over in order.
 */
#include <errno.h>
#include <fcntl.h>
#include <penstock/s3.h>
#include <sched.h>
#include <string.h>

#include "base/err.h"
#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "file/object_file.h"

enum { AHEAD = 16 }; /* blocks beyond those the client has in flight */

struct remote_block {
	struct block block; /* first */
	struct penstock_object_file_req req;
	struct penstock_iov piece; /* of the pinned pool */
	struct queue *q;
};

/* ------------------------------------------------------------------------ files */

int remote_open(struct penstock_io *io, struct penstock_file *f, int oflags, bool by_path,
		struct penstock_err *err)
{
	struct penstock_s3 *s3 = atomic_load(&io->s3);
	struct penstock_object_file *remote;
	int r;

	if (!s3)
		return penstock_fail(err, -ENOTSUP,
				     "%s: the handle has no client of object stores (s3 of "
				     "struct penstock_opts)",
				     f->name);
	if (!by_path && queue_current(io))
		return penstock_fail(err, -EDEADLK,
				     "%s: a completion callback must not open objects", f->name);
	r = penstock_object_file_open(&remote, s3, f->name, oflags, by_path, err);
	if (r == 0)
		penstock_backing_open_object(&f->backing, remote, oflags);
	return r;
}

/* Under io->lock; 0 or -ENOMEM. */
int remote_blocks_alloc(struct penstock_io *io)
{
	struct queue *q = &io->queues[0];
	unsigned n = atomic_load(&io->s3)->opts.connections + AHEAD;
	struct remote_block *blocks;

	if (q->remote_blocks)
		return 0;
	blocks = calloc(n, sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		blocks[i].q = q;
		blocks[i].block.req.next = (struct penstock_req *)q->remote_free;
		q->remote_free = &blocks[i].block;
	}
	q->remote_blocks = blocks;
	return 0;
}

int remote_close(struct penstock_file *f, bool commit, struct penstock_err *err)
{
	struct penstock_object_file *remote = TAKE_PTR(f->backing.object);

	if (!remote)
		return 0;
	if (io_check(f->io, NULL) == 0)
		return penstock_object_file_close(remote, commit, err);
	penstock_object_file_free_forked(remote);
	return 0;
}

bool remote_is_stale(const struct penstock_file *f)
{
	return atomic_load(&f->backing.object->stale);
}

uint64_t remote_part(const struct penstock_file *f)
{
	return penstock_object_file_part_bytes(f->backing.object);
}

/* ------------------------------------------------------------------- operations */

int remote_prepare(struct op *op, const struct penstock_op *u, struct penstock_err *err)
{
	struct penstock_file *f = op->file;
	int r;

	/* Keys that have run out are asked for here, where that may take its time. */
	r = queue_current(f->io) ? 0 : object_client_refresh_keys(f->backing.object->c, err);
	if (r < 0)
		return r;
	if (op->opcode == PENSTOCK_SYNC)
		return penstock_fail(err, -ENOTSUP,
				     "sync %s: an object is durable when it is closed, not before",
				     f->name);
	if (op->opcode != PENSTOCK_WRITE)
		return 0;
	if (f->by_path && (op->offset || !(op->flags & PENSTOCK_OP_TRUNCATE)))
		return penstock_fail(
			err, -EINVAL,
			"write %s: by name an object is written as a whole: at offset 0 "
			"and with PENSTOCK_OP_TRUNCATE",
			f->name);
	if (!f->by_path && (u->flags & (PENSTOCK_OP_DATASYNC | PENSTOCK_OP_FULLSYNC)))
		return penstock_fail(err, -ENOTSUP,
				     "write %s: an object is durable when it is closed, not before",
				     f->name);
	r = penstock_object_file_announce_write(f->backing.object, op->offset, op->len, err);
	op->extends = r == 0;
	return r;
}

bool remote_is_next(const struct op *op)
{
	const struct penstock_file *f = op->file;

	return f->issued == op->offset + op->cursor || atomic_load(&f->backing.object->failed);
}

void remote_give_up(struct op *op, int code)
{
	if (op->opcode == PENSTOCK_WRITE)
		penstock_object_file_fail(op->file->backing.object, code,
					  code == -ECANCELED ? "a part of it was cancelled"
							     : "a part of it failed before");
}

/* ----------------------------------------------------------------------- blocks */

struct block *remote_get(struct queue *q)
{
	struct block *b = q->remote_free;

	q->remote_free = (struct block *)b->req.next;
	return b;
}

void remote_put(struct queue *q, struct block *b)
{
	b->req.next = (struct penstock_req *)q->remote_free;
	q->remote_free = b;
}

/* In a thread of the store's.  The queue may be freed when it is not busy here. */
static void block_is_back(struct penstock_object_file_req *r)
{
	struct remote_block *rb = container_of(r, struct remote_block, req);
	struct mpsc_item *item = (struct mpsc_item *)(void *)&rb->block.req;
	struct queue *q = rb->q;

	atomic_fetch_add(&q->remote_busy, 1);
	mpsc_stack_push(&q->remote_back, item, item);
	if (atomic_exchange(&q->remote_sleeps, false))
		queue_wake(q);
	atomic_fetch_sub(&q->remote_busy, 1);
}

static enum object_file_request block_what(const struct block *b)
{
	if (b->mode == BLOCK_SYNC)
		return b->op->code < 0 || b->op->cancelled ? OBJECT_FILE_ABORT : OBJECT_FILE_COMMIT;
	return b->op->opcode == PENSTOCK_READ ? OBJECT_FILE_READ : OBJECT_FILE_WRITE;
}

void remote_start(struct queue *q, struct block *b)
{
	struct remote_block *rb = (struct remote_block *)b;
	struct op *op = b->op;

	b->started = true;
	rb->req = (struct penstock_object_file_req){
		.file = op->file->backing.object,
		.kind = block_what(b),
		.offset = op->offset + b->pos,
		.len = b->len,
		.done = block_is_back,
	};
	if (b->mode == BLOCK_DEVICE) {
		b->data = b->bounce;
		rb->piece = (struct penstock_iov){b->bounce, b->len};
		rb->req.iov = &rb->piece;
		b->flags |= PENSTOCK_DONE_PINNED_POOL;
		COUNT(&q->count, pinned, 1);
	} else if (b->mode != BLOCK_SYNC) {
		rb->req.iov = &op->iov[b->seg];
		rb->req.skip = b->seg_off;
	}
	if (b->mode != BLOCK_SYNC)
		COUNT(&q->count, objects, 1);
	q->nr_remote++;
	penstock_object_file_submit(&rb->req);
}

struct block *remote_done(struct queue *q)
{
	struct mpsc_item *list = mpsc_stack_take(&q->remote_back, false);

	for (struct mpsc_item *item = list; item; item = item->next) {
		struct remote_block *rb = (struct remote_block *)(void *)item;
		struct block *b = &rb->block;

		q->nr_remote--;
		if (rb->req.res < 0) {
			b->code = (int)rb->req.res;
			if (!b->op->why)
				b->op->why = strdup(rb->req.err.msg);
			continue;
		}
		if (b->mode == BLOCK_SYNC)
			continue;
		b->moved = (uint64_t)rb->req.res;
		b->eof = b->moved < b->len;
		count_own(&q->moved, b->moved);
	}
	return (struct block *)(void *)list;
}

bool remote_may_sleep(struct queue *q)
{
	atomic_exchange(&q->remote_sleeps, true); /* see sleep_state.h */
	return !mpsc_stack_any(&q->remote_back);
}

/* No block is out, but who handed the last one back may be about to wake the engine. */
void remote_leave(struct queue *q)
{
	while (atomic_load(&q->remote_busy))
		sched_yield();
}
