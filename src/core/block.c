/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One block: setting up its request, and judging what came back.  This is where
 * short transfers are finished, interrupted ones repeated, refused O_DIRECT is
 * replaced by the page cache, and errors get their place.
 */
#include <errno.h>
#include <string.h>

#include "core/block.h"
#include "core/core.h"
#include "core/queue.h"
#include "core/submitter.h"
#include "mem/copy.h"

enum { COPY_SMALL = 16 << 10 }; /* bytes that are copied before another thread has begun */

/* Between a block's place in the caller's segments and contiguous memory. */
static void block_copy(const struct op *op, const struct block *b, void *mem, bool to_mem)
{
	uint64_t seg_off = b->seg_off, len = b->len, step;
	unsigned seg = b->seg;
	char *m = mem, *user;

	for (; len; seg++, seg_off = 0) {
		step = min_u64(len, op->iov[seg].len - seg_off);
		user = (char *)op->iov[seg].addr + seg_off;
		if (step)
			penstock_copy_nontemporal(to_mem ? m : user, to_mem ? user : m, step);
		m += step;
		len -= step;
	}
}

/* Only what has been moved, which may end early. */
static void block_copy_out(const struct op *op, const struct block *b, const void *mem,
			   uint64_t done, uint64_t got)
{
	struct block part = *b;
	uint64_t step = done;

	while (step) {
		uint64_t bytes = min_u64(step, op->iov[part.seg].len - part.seg_off);

		part.seg_off += bytes;
		step -= bytes;
		if (part.seg_off == op->iov[part.seg].len && (step || got)) {
			part.seg++;
			part.seg_off = 0;
		}
	}
	part.len = got;
	block_copy(op, &part, (void *)(uintptr_t)mem, false);
}

static int use_plain(struct penstock_io *io, struct block *b)
{
	struct penstock_file *f = b->op->file;
	bool direct = f->backing.direct;
	int fd = penstock_backing_buffered_fd(b->member->backing);

	if (fd < 0)
		return fd;
	if (f->backing.stripe && !b->member->backing->direct)
		penstock_stripe_drop_direct(&f->backing);
	if (direct && !f->backing.direct)
		report_fallback(io, PENSTOCK_FALLBACK_BUFFERED, f->name,
				"it cannot be opened a second time");
	b->buffered = true;
	b->req.fd = fd;
	b->req.file_slot = -1;
	return 0;
}

_Static_assert(sizeof(struct penstock_iov) == sizeof(struct iovec) &&
		       offsetof(struct penstock_iov, len) == offsetof(struct iovec, iov_len),
	       "lists are handed on as they are");

/* What is left of a list; after a segment that was moved in part, the rest of that one alone. */
static void set_list(struct block *b)
{
	const struct penstock_iov *v = &b->op->iov[b->seg];
	uint64_t done = b->moved;
	unsigned n = b->segs;
	struct penstock_req *r = &b->req;

	for (; done && done >= v->len; v++, n--)
		done -= v->len;
	r->buf = (char *)v->addr + done;
	r->len = (uint32_t)(done ? v->len - done : b->len - b->moved);
	r->iov = (const struct iovec *)(const void *)v;
	r->nr_iov = done ? 1 : n;
}

/*
 * FUSE: see docs/architecture.md.  On tmpfs there is nothing to wait for, and the kernel hands to
 * threads of its own what it does not finish at once: of small ones that costs more than the copy.
 */
static inline bool is_blocking(const struct block *b)
{
	const struct penstock_backing *s = b->member->backing;

	return s->fuse || (s->tmpfs && b->len <= COPY_SMALL);
}

static void set_request(struct block *b)
{
	const struct op *op = b->op;
	const struct penstock_backing *s = b->member->backing;
	struct penstock_req *r = &b->req;

	r->code = op->opcode == PENSTOCK_READ ? PENSTOCK_REQ_READ : PENSTOCK_REQ_WRITE;
	r->off = b->at;
	r->len = (uint32_t)b->len;
	r->fd = s->fd;
	r->file_slot = -1;
	r->buf_slot = -1;
	r->blocking = is_blocking(b);
	r->context = NULL;
	r->nr_iov = 1;
	if (b->mode == BLOCK_LIST) {
		set_list(b);
		return;
	}
	if (b->mode == BLOCK_STRAIGHT || b->mode == BLOCK_CUFILE) {
		r->buf = (char *)op->iov[b->seg].addr + b->seg_off;
		return;
	}
	r->buf = b->bounce;
	b->data = (char *)b->bounce + b->skip;
	if (!b->buffered) {
		r->off -= b->skip;
		r->len = (uint32_t)align_up(b->skip + b->len, op->file->backing.off_align);
	}
}

/* The slot of registered memory that holds the whole block, which goes straight, or -1. */
static int find_buf_slot(const struct queue *q, const struct block *b)
{
	uint64_t at = b->op->region_at + b->seg_off, piece = at / REGION_PIECE;

	if (b->op->nr_iov > 1)
		return q->index < b->op->region_queues && (b->mode != BLOCK_LIST || q->fixed_lists)
			       ? b->op->region_slot
			       : -1;
	if (q->index >= b->op->region_queues || (at + b->len - 1) / REGION_PIECE != piece)
		return -1;
	return (int)(b->op->region_slot + piece);
}

static int __attribute__((noinline)) add_file_slot(struct queue *q, struct file_member *p)
{
	if (!q->io->engine->set_file ||
	    q->io->engine->set_file(q->engine, (unsigned)p->slot, p->backing->fd) < 0)
		return -1;
	q->files[p->slot] = p;
	return p->slot;
}

/* Files opened by the user are made known to this queue's engine when first met. */
static inline int find_file_slot(struct queue *q, struct file_member *p)
{
	return p->slot < 0 || q->files[p->slot] == p ? p->slot : add_file_slot(q, p);
}

/* What an engine that takes device memory has to know besides. */
static int set_device(struct penstock_io *io, struct block *b)
{
	const struct penstock_attached *a = &b->member->attached;

	b->req.handle = a->handle;
	b->flags |= a->direct ? PENSTOCK_DONE_CUFILE : PENSTOCK_DONE_CUFILE_COMPAT;
	return penstock_gpus_ctx(&io->gpus, b->op->locations[b->seg].device, &b->req.context,
				 &b->failure);
}

void block_pause(const struct block *b)
{
	struct timespec ts = {0, 20000L << (b->tries < RETRIES_MAX ? b->tries / 5 : 10)};

	nanosleep(&ts, NULL);
}

bool block_wants_pause(const struct block *b)
{
	return b->tries > 1 && b->req.res == -EAGAIN;
}

bool block_may_start(struct block *b)
{
	const struct op *op = b->op;
	struct penstock_backing *s;

	if (b->mode == BLOCK_SYNC || op->opcode != PENSTOCK_WRITE)
		return true;
	s = &op->file->backing;
	if (!s->growth || !s->direct)
		return true;
	b->ranged = penstock_overlap_begin(&s->growth->overlap, &b->range, op->offset + b->pos,
					   b->len, b->buffered);
	return b->ranged;
}

static void start_sync(struct block *b)
{
	b->req.fd = b->member->backing->fd;
	b->req.len = 0;
	b->req.off = 0;
	b->req.file_slot = b->req.buf_slot = -1;
	b->req.blocking = false;
	b->req.nr_iov = 1;
}

/* What does not go straight between file and memory of the host's. */
static int start_other(struct penstock_io *io, struct queue *q, struct block *b, struct counters *c)
{
	if (b->mode == BLOCK_BOUNCE) {
		if (b->op->opcode == PENSTOCK_WRITE)
			block_copy(b->op, b, b->bounce, true);
		b->flags |= PENSTOCK_DONE_BOUNCED;
		COUNT(c, bounced, 1);
	} else if (b->mode == BLOCK_DEVICE) {
		b->flags |= PENSTOCK_DONE_PINNED_POOL;
		COUNT(c, pinned, 1);
		b->req.buf_slot = pinned_pool_slot(q);
	} else if (b->mode == BLOCK_CUFILE) {
		COUNT(c, cufile, 1);
		b->req.buf_slot = find_buf_slot(q, b);
		return set_device(io, b);
	}
	return 0;
}

/* As most blocks go: by O_DIRECT, as they are. */
static void start_direct(struct queue *q, struct block *b)
{
	const struct op *op = b->op;
	const struct penstock_backing *s = b->member->backing;
	struct penstock_req *r = &b->req;

	r->code = op->opcode == PENSTOCK_READ ? PENSTOCK_REQ_READ : PENSTOCK_REQ_WRITE;
	r->buf = (char *)op->iov[b->seg].addr + b->seg_off;
	r->off = b->at;
	r->len = (uint32_t)b->len;
	r->fd = s->fd;
	r->blocking = is_blocking(b);
	r->context = NULL;
	r->nr_iov = 1;
	r->buf_slot = find_buf_slot(q, b);
	if (r->buf_slot >= 0)
		count_own(&q->count.fixed, 1);
	count_own(&q->count.direct, 1);
	r->file_slot = find_file_slot(q, b->member);
}

int block_start(struct penstock_io *io, struct queue *q, struct block *b)
{
	struct counters *c = q ? &q->count : &b->op->submitter->count;
	int r = 0;

	b->started = true;
	if (q && b->mode == BLOCK_STRAIGHT && !b->buffered) {
		start_direct(q, b);
		return 0;
	}
	if (b->mode == BLOCK_SYNC) {
		start_sync(b);
		return 0;
	}
	set_request(b);
	if (b->mode > BLOCK_LIST)
		r = start_other(io, q, b, c);
	else if (q)
		b->req.buf_slot = find_buf_slot(q, b);
	if (b->req.buf_slot >= 0)
		COUNT(c, fixed, 1);
	if (b->buffered)
		COUNT(c, buffered, 1);
	else
		COUNT(c, direct, 1);
	if (b->mode == BLOCK_CUFILE)
		return r;
	if (b->buffered)
		return use_plain(io, b);
	if (q)
		b->req.file_slot = find_file_slot(q, b->member);
	return 0;
}

/* The kernel said EINVAL to an aligned direct request: this file does not do O_DIRECT after all. */
static bool fall_back(struct penstock_io *io, struct block *b)
{
	struct penstock_file *f = b->op->file;
	const char *why = b->req.code == PENSTOCK_REQ_READ
				  ? "O_DIRECT was accepted at open and refused by a read"
				  : "O_DIRECT was accepted at open and refused by a write";

	if (b->buffered || b->mode == BLOCK_CUFILE || io->opts.direct == PENSTOCK_DIRECT_ALWAYS)
		return false;
	if (penstock_backing_give_up_direct(b->member->backing, why) < 0 || use_plain(io, b) < 0)
		return false;
	report_fallback(io, PENSTOCK_FALLBACK_BUFFERED, f->name, why);
	b->req.off += b->skip;
	if (b->mode != BLOCK_LIST)
		b->req.len = (uint32_t)(b->len - b->moved);
	b->skip = 0;
	if (b->mode == BLOCK_DEVICE)
		b->req.buf = b->data + b->moved;
	return true;
}

/* True: it is over, failed.  False: worth another try. */
static bool judge_error(struct penstock_io *io, struct block *b, int res)
{
	bool later = res == -EAGAIN || res == -ECANCELED;

	b->tries++;
	if ((later && b->tries < RETRIES_MAX) || (res == -EINTR && b->tries < INTERRUPTS_MAX))
		return false;
	if ((res == -EINVAL || res == -EOPNOTSUPP) && b->mode != BLOCK_SYNC && fall_back(io, b))
		return false;
	b->code = res;
	if (b->mode == BLOCK_CUFILE && b->req.detail)
		b->failure = (struct penstock_cuda_failure){b->req.call, b->req.detail};
	return true;
}

/* What is left of a short block; where it is not aligned any more the page cache takes it. */
static bool block_set_rest(struct penstock_io *io, struct block *b, uint64_t step)
{
	const struct op *op = b->op;
	const struct penstock_backing *s = &op->file->backing;
	uint32_t align = op->opcode == PENSTOCK_READ ? s->off_align : s->write_align;
	struct penstock_req *r = &b->req;
	bool read_bounce = b->mode == BLOCK_BOUNCE && op->opcode == PENSTOCK_READ;

	r->off = b->at + b->moved;
	r->len = (uint32_t)(b->len - b->moved);
	if (b->mode == BLOCK_DEVICE)
		r->buf = b->data + b->moved;
	else if (b->mode == BLOCK_LIST)
		set_list(b);
	else
		r->buf = read_bounce ? b->bounce : (char *)r->buf + step;
	b->skip = 0;
	if (b->buffered || b->mode == BLOCK_CUFILE ||
	    (is_aligned(r->off, align) && is_aligned(r->len, align) &&
	     is_aligned((uint64_t)(uintptr_t)r->buf, s->mem_align)))
		return false;
	b->code = use_plain(io, b);
	return b->code < 0;
}

bool block_finish(struct penstock_io *io, struct block *b, struct counters *count)
{
	struct op *op = b->op;
	uint64_t n, got;

	if (b->req.res < 0 || b->mode == BLOCK_SYNC) {
		if (b->req.res < 0 && !judge_error(io, b, b->req.res))
			goto again;
		return true;
	}
	n = (uint64_t)b->req.res;
	got = n > b->skip ? min_u64(n - b->skip, b->len - b->moved) : 0;
	if (b->mode == BLOCK_BOUNCE && op->opcode == PENSTOCK_READ && got)
		block_copy_out(op, b, (char *)b->req.buf + b->skip, b->moved, got);
	b->moved += got;
	b->flags |= b->buffered ? PENSTOCK_DONE_BUFFERED : PENSTOCK_DONE_DIRECT;
	if (b->moved == b->len)
		return true;
	if (op->opcode == PENSTOCK_READ) {
		int64_t size = n ? penstock_backing_size(b->member->backing) : 0;

		b->eof = !n || (size >= 0 && b->req.off + n >= (uint64_t)size);
		if (b->eof)
			return true;
	} else if (!n) {
		b->code = -EIO; /* the file system took nothing and said nothing */
		return true;
	}
	b->tries = 0;
	if (block_set_rest(io, b, got))
		return true;
again:
	COUNT(count, resubmissions, 1);
	b->flags |= PENSTOCK_DONE_RETRIED;
	io_trace(io, PENSTOCK_TRACE_RETRY, b->req.res < 0 ? b->req.res : 0, op->file->name,
		 b->req.off, b->req.len, "block submitted again");
	return false;
}

void block_account(struct op *op, struct block *b)
{
	uint64_t end = b->pos + b->moved;

	if (b->ranged)
		penstock_overlap_end(&op->file->backing.growth->overlap, &b->range);
	b->ranged = false;

	op->inflight--;
	op->done_flags |= b->flags | (b->eof ? PENSTOCK_DONE_EOF : 0u);
	if (b->code < 0 && (!op->code || op->offset + end < op->fail_off)) {
		op->code = b->code;
		op->failure = b->failure;
		op->fail_off = op->offset + end;
		op->fail_len = b->len - b->moved;
	}
	if (b->mode != BLOCK_SYNC && b->moved < b->len)
		op->stop = min_u64(op->stop, end);
	/* What lies behind a failure or the end of the file is not asked for any more. */
	if (b->code < 0 || b->eof)
		op->cursor = op->len;
}
