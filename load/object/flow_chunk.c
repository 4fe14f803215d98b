/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: what is done with each, by the library or by copy threads, and what follows. */
#include <errno.h>

#include "base/util.h"
#include "load/object/flow_internal.h"

enum { PAGE_BYTES = 4096 };

/* ------------------------------------------------------------------- the library */

/* Whether its bytes are where they belong when the library is done with it. */
static bool chunk_moved(const struct slot *s)
{
	return s->writing || s->op->mode == MODE_LOAD;
}

/* One less of what the library has of the slot. */
static void piece_over(struct slot *s)
{
	struct op *op = s->op;
	struct flow *f = op->flow;
	bool last;

	if (atomic_fetch_sub(&s->pieces, 1) != 1)
		return;
	s->end_ns = clock_ns();
	last = s->code == 0 && chunk_moved(s) && atomic_fetch_sub(&op->chunks, 1) == 1;
	inbox_push(&f->inbox, &s->task);
	if (last)
		thread_pool_push(&f->file_threads, &op->task);
}

static void piece_done(void *arg, const struct penstock_done *done)
{
	struct slot *s = arg;

	if (done->res < 0)
		slot_fail(s, (int)done->res, done->msg);
	piece_over(s);
}

static void batch_flush(struct flow *f)
{
	uint64_t now = clock_ns();
	struct penstock_err err;
	unsigned i = 0;
	int r;

	for (unsigned k = 0; k < f->nr_batch; k++)
		if (!f->batch_slot[k]->start_ns)
			f->batch_slot[k]->start_ns = now;
	while (i < f->nr_batch) {
		r = penstock_submit(f->io, f->batch + i, f->nr_batch - i, NULL, &err);
		if (r < 0) { /* this one; the others are not to blame */
			slot_fail(f->batch_slot[i], r, err.msg);
			piece_over(f->batch_slot[i]);
			r = 1;
		}
		i += (unsigned)r;
	}
	f->nr_batch = 0;
}

static void chunk_batch_add(struct flow *f, struct slot *s, struct penstock_op u)
{
	if (f->nr_batch == FLOW_BATCH)
		batch_flush(f);
	u.on_done = piece_done;
	u.arg = s;
	f->batch_slot[f->nr_batch] = s;
	f->batch[f->nr_batch++] = u;
	atomic_fetch_add(&s->pieces, 1);
	s->nr_pieces++;
}

/* Between a file and memory. */
static void batch_transfer(struct flow *f, struct slot *s, struct penstock_file *file, char *buf,
			   uint64_t len, uint64_t offset)
{
	chunk_batch_add(f, s,
			(struct penstock_op){.opcode = s->writing ? PENSTOCK_WRITE : PENSTOCK_READ,
					     .flags = s->writing ? 0 : PENSTOCK_OP_EXACT,
					     .file = file,
					     .buf = buf,
					     .len = len,
					     .offset = offset});
	s->bytes += len;
	f->dev_ops++;
	f->dev_bytes += len;
}

static void slot_begin(struct slot *s, bool writing)
{
	s->writing = writing;
	s->nr_pieces = 0;
	s->bytes = 0;
	s->start_ns = 0;
	atomic_store(&s->pieces, 1); /* not over before all have been added */
}

/* Transfers of a slot between storage and its buffer, or the memory of a place. */
static void transfer(struct flow *f, struct slot *s, const struct end *storage,
		     const struct end *memory, bool writing)
{
	uint64_t end = s->len, n;

	/* What is behind an object in a slab or in memory is its own: no ragged end. */
	if (storage->place->o.kind == PLACE_SLAB && s->pos + s->len == s->op->size)
		end = align_up(s->pos + s->len, PAGE_BYTES) - s->pos;
	slot_begin(s, writing);
	for (uint64_t at = 0; at < end; at += n) {
		uint64_t offset;
		char *addr;

		n = end - at;
		offset = end_offset(storage, s->pos + at, &n);
		addr = memory ? end_addr(memory, s->pos + at, &n) : s->data + at;
		batch_transfer(f, s, storage->file, addr, n, offset);
	}
	piece_over(s);
}

/* Copies between the memory of places, one of them a device's, or its buffer (NULL). */
static void copy_pieces(struct flow *f, struct slot *s, const struct end *to,
			const struct end *from)
{
	slot_begin(s, false);
	for (uint64_t at = 0, n; at < s->len; at += n) {
		struct penstock_iov *iov;

		if (f->nr_batch == FLOW_BATCH)
			batch_flush(f);
		n = s->len - at;
		iov = f->batch_iov[f->nr_batch];
		iov[1].addr = from ? end_addr(from, s->pos + at, &n) : s->data + at;
		iov[0].addr = to ? end_addr(to, s->pos + at, &n) : s->data + at;
		iov[0].len = iov[1].len = n;
		chunk_batch_add(
			f, s,
			(struct penstock_op){.opcode = PENSTOCK_COPY, .iov = iov, .nr_iov = 2});
	}
	piece_over(s);
}

/* ------------------------------------------------------------------- completion */

static void account(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	bool writes = s->writing || s->queue == SLOTS_COPY,
	     reads = !s->writing || s->queue == SLOTS_COPY;

	if (op->mode == MODE_COPY_OUT)
		writes = false;
	if (op->mode == MODE_FILL)
		reads = false;
	span_add(&op->device, s->start_ns, s->end_ns);
	if (reads) {
		span_add(&op->read_device, s->start_ns, s->end_ns);
		op->read_end = max_u64(op->read_end, s->end_ns);
	}
	if (writes) {
		span_add(&op->write_device, s->start_ns, s->end_ns);
		if (!op->write_begin)
			op->write_begin = s->start_ns;
		op->write_begin = min_u64(op->write_begin, s->start_ns);
	}
	if (s->queue == SLOTS_COPY)
		return;
	f->dev_ops -= s->nr_pieces;
	f->dev_bytes -= s->bytes;
	if (s->code == 0)
		*(s->writing ? &f->stats.bytes_written : &f->stats.bytes_read) += s->bytes;
}

static void chunk_over(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	char name[NAME_TEXT];

	if (s->code < 0) {
		const struct attrs *l = op_attrs(op);

		if (op->queued != QUEUED_NOT)
			slot_queue_leave(f, op);
		op_fail(op, s->code, s->code == -EBADMSG ? "%.0s%s" : "%s: %s",
			attrs_print_name(name, l), s->msg ? s->msg : "out of memory");
		op->inflight -= op->passed_on;
		op->passed_on = false;
	}
	if (s->header) /* the noise that was there */
		content_noise(&f->content, s->buf, PLACE_HEADER, 0);
	op->inflight--;
	slot_free(f, s);
	if (op_idle(op) && !(op->todo & TODO_TIMER))
		op_moved(f, op);
}

static void check_over(struct task *t, void *owner)
{
	struct flow *f = owner;
	struct slot *s = container_of(t, struct slot, task);

	if (s->code == 0)
		f->stats.verified += s->len;
	chunk_over(f, s);
}

static void slot_over(struct task *t, void *owner)
{
	struct slot *s = container_of(t, struct slot, task);
	struct flow *f = owner;

	account(f, s);
	if (s->code == 0 && f->o.verify && s->op->type == FLOW_READ) {
		s->task.run = copy_task_check;
		s->task.done = check_over;
		thread_pool_push(&f->copy_threads, &s->task);
	} else if (s->code == 0 && s->op->mode == MODE_PASS && !s->writing && !s->header &&
		   s->op->code == 0) {
		s->task.next = f->to_write ? &f->to_write->task : NULL;
		f->to_write = s;
	} else {
		chunk_over(f, s);
	}
}

/* ------------------------------------------------------------------------ issue */

static void issue_header(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	const struct attrs *l = op_attrs(op);
	unsigned element = op->type == FLOW_WRITE ? op->element : op->object->element;

	s->header = true;
	slot_begin(s, true);
	if (place_npy_header(s->buf, attrs_shape(l), element, op->size) < 0)
		slot_fail(s, -EINVAL, "the shape is too long for an NPY header");
	else
		batch_transfer(f, s, op->dst_file, s->buf, PLACE_HEADER, 0);
	if (!s->start_ns && !s->nr_pieces)
		s->start_ns = clock_ns();
	piece_over(s);
}

/* The content for a device is in the buffer. */
static void content_made(struct task *t, void *owner)
{
	struct slot *s = container_of(t, struct slot, task);
	struct end dst = dst_end(s->op, &s->op->dst_hint);

	s->task.done = slot_over;
	copy_pieces(owner, s, &dst, NULL);
}

/* Device memory is the library's to copy, host memory the copy threads'. */
static void issue_copy(struct flow *f, struct slot *s)
{
	static void (*const how[])(struct task * t) = {
		[MODE_COPY_OUT] = copy_task_out,
		[MODE_FILL] = copy_task_fill,
		[MODE_COPY] = copy_task_copy,
	};
	struct op *op = s->op;
	bool gpu = op_on_gpu(op);
	struct end src, dst;

	if (gpu && op->mode != MODE_FILL) {
		src = src_end(op, &op->src_hint);
		if (op->mode == MODE_COPY)
			dst = dst_end(op, &op->dst_hint);
		copy_pieces(f, s, op->mode == MODE_COPY ? &dst : NULL, &src);
		return;
	}
	s->task.run = gpu ? copy_task_make : how[op->mode];
	if (gpu)
		s->task.done = content_made;
	thread_pool_push(&f->copy_threads, &s->task);
}

/* Put the noise that belongs there into the buffer unless it is there, and the stamps. */
static void slot_prepare(struct flow *f, struct slot *s)
{
	const struct op *op = s->op;
	uint64_t at = (uint64_t)(s->data - s->buf);

	if ((s->pos - at) % CONTENT_PERIOD) { /* a range in a small buffer */
		content_noise(&f->content, s->data, s->len, s->pos);
		s->has_noise = false;
	} else if (!s->has_noise) {
		content_noise(&f->content, s->buf, slot_bytes(f, s->queue), 0);
		s->has_noise = true;
	}
	if (f->o.fill)
		content_stamp(&f->content, s->data, s->len,
			      op->type == FLOW_WRITE ? op->content : op->object->content, s->pos);
}

static void issue_write(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	struct end dst = dst_end(op, &op->dst_hint);

	if (op->mode == MODE_WRITE)
		slot_prepare(f, s);
	transfer(f, s, &dst, NULL, true);
}

static void issue_transfer(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	struct end src, dst;

	switch (op->mode) {
	case MODE_READ:
	case MODE_PASS:
		src = src_end(op, &op->src_hint);
		transfer(f, s, &src, NULL, false);
		break;
	case MODE_LOAD:
		src = src_end(op, &op->src_hint);
		dst = dst_end(op, &op->dst_hint);
		transfer(f, s, &src, &dst, false);
		break;
	case MODE_STORE:
		src = src_end(op, &op->src_hint);
		dst = dst_end(op, &op->dst_hint);
		transfer(f, s, &dst, &src, true);
		break;
	default:
		issue_write(f, s);
		break;
	}
}

static void issue(struct flow *f, struct slot *s)
{
	s->task.done = slot_over;
	if (s->header)
		issue_header(f, s);
	else if (s->queue == SLOTS_COPY)
		issue_copy(f, s);
	else
		issue_transfer(f, s);
}

void chunks_issue(struct flow *f)
{
	struct slot *s;

	while (f->to_write && !device_full(f)) {
		s = f->to_write;
		f->to_write = s->task.next ? container_of(s->task.next, struct slot, task) : NULL;
		if (s->op->code < 0)
			chunk_over(f, s);
		else
			issue_write(f, s);
	}
	while ((s = slot_queues_cut(f)))
		issue(f, s);
	if (f->nr_batch)
		batch_flush(f);
}
