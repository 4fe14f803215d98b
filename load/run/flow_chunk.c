/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks.  Bytes move in chunks through slots; a slot has a buffer, or stands for a transfer
 * that needs none.  Operations with chunks to issue stand in the lane of the slots they need,
 * and the one that has waited longest gets the next free slot: so all share the queues of
 * the device alike, one huge object and thousands of small ones.
 *
 * No more is given to the library than it can give to the device: what waits, waits here, and
 * is not taken for the device's time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/gpu.h>

#include "base/err.h"
#include "base/util.h"
#include "load/run/flow_in.h"

enum {
	PAGE_BYTES = 4096,
	AUTO_BYTES = 32 << 20, /* in flight per I/O thread: more gains nothing, see core.h */
	SMALL_MAX = 512,
};

/* --------------------------------------------------------------------- lanes */

static uint64_t slot_bytes(const struct flow *f, unsigned lane)
{
	if (lane == LANE_DIRECT)
		return 0;
	return lane == LANE_READ_SMALL || lane == LANE_WRITE_SMALL ? FLOW_SMALL : f->o.chunk;
}

static int lane_init(struct flow *f, unsigned lane, unsigned nr, struct sluice_err *err)
{
	struct lane *l = &f->lanes[lane];
	uint64_t bytes = slot_bytes(f, lane);
	void *memory = NULL;
	int r;

	l->slots = calloc(nr, sizeof(*l->slots));
	if (!l->slots)
		return sluice_fail(err, -ENOMEM, "out of memory");
	if (bytes) {
		r = sluice_buf_alloc(&memory, f->io, nr * bytes, 0, &f->stats.buf, err);
		if (r < 0)
			return r;
		f->stats.memory += nr * bytes;
	}
	for (unsigned i = nr; i-- > 0;) {
		struct slot *s = &l->slots[i];

		s->buf = memory ? (char *)memory + i * bytes : NULL;
		s->lane = (uint8_t)lane;
		s->task.next = l->unused ? &l->unused->task : NULL;
		l->unused = s;
		if (lane == LANE_WRITE || lane == LANE_WRITE_SMALL)
			content_noise(&f->content, s->buf, bytes, 0);
	}
	return 0;
}

int lanes_init(struct flow *f, struct sluice_err *err)
{
	struct sluice_stats st = {.size = sizeof(st)};
	unsigned big, copiers = f->o.copiers, ops;
	int r;

	sluice_get_stats(f->io, &st);
	ops = st.depth * st.threads;
	f->max_dev_ops = ops;
	f->max_dev_bytes = f->o.io.depth ? UINT64_MAX : (uint64_t)AUTO_BYTES * st.threads;
	big = (unsigned)min_u64(ops, max_u64(2, f->max_dev_bytes / f->o.chunk));
	if (f->o.buffers)
		big = f->o.buffers;
	r = lane_init(f, LANE_READ, big + 2 * copiers, err);
	if (r == 0)
		r = lane_init(f, LANE_WRITE, big, err);
	if (r == 0)
		r = lane_init(f, LANE_READ_SMALL, (unsigned)min_u64(ops, SMALL_MAX) + 4 * copiers,
			      err);
	if (r == 0)
		r = lane_init(f, LANE_WRITE_SMALL, (unsigned)min_u64(ops, SMALL_MAX), err);
	if (r == 0)
		r = lane_init(f, LANE_DIRECT, ops, err);
	if (r == 0)
		r = lane_init(f, LANE_COPY, 2 * copiers + 2, err);
	return r;
}

void lanes_fini(struct flow *f)
{
	for (unsigned i = 0; i < LANES; i++)
		free(f->lanes[i].slots);
}

static unsigned lane_of(const struct op *op)
{
	bool small = op->size - op->pos <= FLOW_SMALL;

	if (op->header)
		return LANE_WRITE_SMALL;
	switch (op->mode) {
	case MODE_READ:
	case MODE_PASS:
		return small ? LANE_READ_SMALL : LANE_READ;
	case MODE_WRITE:
		return small ? LANE_WRITE_SMALL : LANE_WRITE;
	case MODE_LOAD:
	case MODE_STORE:
		return LANE_DIRECT;
	default:
		return LANE_COPY;
	}
}

void lane_add(struct flow *f, struct op *op)
{
	struct lane *l = &f->lanes[lane_of(op)];

	op->queued = true;
	op->seq = f->seq++;
	op->lnext = NULL;
	op->lprev = l->last;
	*(l->last ? &l->last->lnext : &l->first) = op;
	l->last = op;
}

void lane_remove(struct flow *f, struct op *op)
{
	struct lane *l = &f->lanes[lane_of(op)];

	*(op->lprev ? &op->lprev->lnext : &l->first) = op->lnext;
	*(op->lnext ? &op->lnext->lprev : &l->last) = op->lprev;
	op->queued = false;
}

bool op_idle(const struct op *op)
{
	return !op->queued && !op->inflight;
}

/* --------------------------------------------------------------- where bytes are */

static struct extent units_at(const struct place *p, const struct extents *where, uint64_t pos,
			      struct extent_hint *hint)
{
	return extents_find(where, pos / p->unit, hint);
}

/* Offset in the slab or arena of byte @pos of the object; *@len is cut to what lies there in a row.
 */
static uint64_t place_offset(const struct place *p, const struct extents *where, uint64_t pos,
			     uint64_t *len, struct extent_hint *hint)
{
	struct extent x = units_at(p, where, pos, hint);
	uint64_t into = pos % p->unit;

	*len = min_u64(*len, (uint64_t)x.count * p->unit - into);
	return (uint64_t)x.start * p->unit + into;
}

/* One end of a transfer. */
struct end {
	struct place *place;
	const struct extents *where;
	struct sluice_file *file;
	struct extent_hint *hint;
};

static struct end src_end(struct op *op, struct extent_hint *hint)
{
	struct place *p = op_src(op);

	return (struct end){p, &op->object->where,
			    p->o.kind == PLACE_SLAB ? op->flow->slab[op->place] : op->src_file,
			    hint};
}

static struct end dst_end(struct op *op, struct extent_hint *hint)
{
	unsigned place = op->type == FLOW_WRITE ? op->place : op->to;
	struct place *p = op_dst(op);

	return (struct end){p, &op->where,
			    p->o.kind == PLACE_SLAB ? op->flow->slab[place] : op->dst_file, hint};
}

static char *end_addr(const struct end *e, uint64_t pos, uint64_t *len)
{
	return e->place->base + place_offset(e->place, e->where, pos, len, e->hint);
}

static uint64_t end_offset(const struct end *e, uint64_t pos, uint64_t *len)
{
	if (e->place->o.kind == PLACE_FILES)
		return pos + (e->place->o.layout == PLACE_NPY ? PLACE_HEADER : 0);
	return SLAB_HEAD + place_offset(e->place, e->where, pos, len, e->hint);
}

/* ------------------------------------------------------------------- the library */

static void slot_fail(struct slot *s, int code, const char *msg)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&s->code, &none, code))
		s->msg = strdup(msg);
}

/* One less of what the library has of the slot. */
static void piece_over(struct slot *s)
{
	if (atomic_fetch_sub(&s->pieces, 1) != 1)
		return;
	s->end_ns = clock_ns();
	inbox_push(&s->op->flow->inbox, &s->task);
}

static void piece_done(void *arg, const struct sluice_done *done)
{
	struct slot *s = arg;

	if (done->res < 0)
		slot_fail(s, (int)done->res, done->msg);
	piece_over(s);
}

static void batch_flush(struct flow *f)
{
	uint64_t now = clock_ns();
	struct sluice_err err;
	unsigned i = 0;
	int r;

	for (unsigned k = 0; k < f->nr_batch; k++)
		if (!f->batch_slot[k]->start_ns)
			f->batch_slot[k]->start_ns = now;
	while (i < f->nr_batch) {
		r = sluice_submit(f->io, f->batch + i, f->nr_batch - i, NULL, &err);
		if (r < 0) { /* this one; the others are not to blame */
			slot_fail(f->batch_slot[i], r, err.msg);
			piece_over(f->batch_slot[i]);
			r = 1;
		}
		i += (unsigned)r;
	}
	f->nr_batch = 0;
}

static void batch_add(struct flow *f, struct slot *s, struct sluice_file *file, char *buf,
		      uint64_t len, uint64_t offset)
{
	if (f->nr_batch == FLOW_BATCH)
		batch_flush(f);
	f->batch_slot[f->nr_batch] = s;
	f->batch[f->nr_batch++] = (struct sluice_op){
		.opcode = s->writing ? SLUICE_WRITE : SLUICE_READ,
		.flags = s->writing ? 0 : SLUICE_OP_EXACT,
		.file = file,
		.buf = buf,
		.len = len,
		.offset = offset,
		.on_done = piece_done,
		.arg = s,
	};
	atomic_fetch_add(&s->pieces, 1);
	s->nr_pieces++;
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
	/* What is behind an object in a slab or in memory is its own: no ragged ends. */
	uint64_t end = s->len, n;

	if (storage->place->o.kind == PLACE_SLAB)
		end = align_up(end, PAGE_BYTES);
	slot_begin(s, writing);
	for (uint64_t at = 0; at < end; at += n) {
		uint64_t offset;
		char *addr;

		n = end - at;
		offset = end_offset(storage, s->pos + at, &n);
		addr = memory ? end_addr(memory, s->pos + at, &n) : s->buf + at;
		batch_add(f, s, storage->file, addr, n, offset);
	}
	piece_over(s);
}

static void sync_over(struct task *t, void *owner)
{
	struct op *op = container_of(t, struct op, task);
	uint64_t now = clock_ns();

	op->inflight--;
	span_add(&op->device, op->sync_ns, now);
	span_add(&op->write_device, op->sync_ns, now);
	op_moved(owner, op);
}

static void sync_done(void *arg, const struct sluice_done *done)
{
	struct op *op = arg;

	if (done->res < 0)
		op_fail(op, (int)done->res, "%s", done->msg);
	inbox_push(&op->flow->inbox, &op->task);
}

void chunk_sync(struct flow *f, struct op *op, struct sluice_file *file)
{
	struct sluice_op u = {.opcode = SLUICE_SYNC, .file = file, .on_done = sync_done, .arg = op};
	struct sluice_err err;
	int r;

	op->inflight++;
	op->sync_ns = clock_ns();
	op->task.done = sync_over;
	r = sluice_submit(f->io, &u, 1, NULL, &err);
	if (r < 0) {
		op_fail(op, r, "%s", err.msg);
		inbox_push(&f->inbox, &op->task);
	}
}

/* ------------------------------------------------------------------- the copiers */

static bool is_gpu(const struct end *e)
{
	return e->place->o.kind == PLACE_GPU;
}

static int copy(char *to, const char *from, uint64_t len, bool gpu, struct sluice_err *err)
{
	if (gpu)
		return sluice_gpu_copy(to, from, len, err);
	memcpy(to, from, len);
	return 0;
}

static void check_content(struct slot *s)
{
	const struct op *op = s->op;
	const struct flow *f = op->flow;
	uint64_t good = content_check(&f->content, s->buf, s->len, op->object->content, s->pos);
	char name[LABEL_TEXT], msg[200];

	if (good == s->len)
		return;
	snprintf(msg, sizeof(msg), "verification failed: %s: offset %" PRIu64 " holds 0x%02x%s",
		 label_print(name, op->object->label), s->pos + good, (unsigned char)s->buf[good],
		 good % CONTENT_BLOCK < 16 ? ", a block of another object or place" : "");
	slot_fail(s, -EBADMSG, msg);
}

static void copier_check(struct task *t)
{
	check_content(container_of(t, struct slot, task));
}

static void copier_out(struct task *t)
{
	struct slot *s = container_of(t, struct slot, task);
	struct extent_hint hint = {0};
	struct end src = src_end(s->op, &hint);
	struct sluice_err err;
	int r = 0;

	s->start_ns = clock_ns();
	for (uint64_t at = 0, n; r == 0 && at < s->len; at += n) {
		n = s->len - at;
		const char *from = end_addr(&src, s->pos + at, &n);
		r = copy(s->buf + at, from, n, is_gpu(&src), &err);
	}
	s->end_ns = clock_ns();
	if (r < 0)
		slot_fail(s, r, err.msg);
	else if (s->op->flow->o.verify && s->op->type == FLOW_READ)
		check_content(s);
}

static void make_content(const struct op *op, char *to, uint64_t len, uint64_t pos)
{
	const struct flow *f = op->flow;

	if (f->o.fill)
		content_fill(&f->content, to, len,
			     op->type == FLOW_WRITE ? op->content : op->object->content, pos);
	else
		content_noise(&f->content, to, len, pos);
}

/* Host memory is filled where it is, device memory through the buffer. */
static void copier_fill(struct task *t)
{
	struct slot *s = container_of(t, struct slot, task);
	struct extent_hint hint = {0};
	struct end dst = dst_end(s->op, &hint);
	struct sluice_err err;
	int r = 0;

	if (is_gpu(&dst))
		make_content(s->op, s->buf, s->len, s->pos);
	s->start_ns = clock_ns();
	for (uint64_t at = 0, n; r == 0 && at < s->len; at += n) {
		n = s->len - at;
		char *to = end_addr(&dst, s->pos + at, &n);
		if (is_gpu(&dst))
			r = copy(to, s->buf + at, n, true, &err);
		else
			make_content(s->op, to, n, s->pos + at);
	}
	s->end_ns = clock_ns();
	if (r < 0)
		slot_fail(s, r, err.msg);
}

static void copier_copy(struct task *t)
{
	struct slot *s = container_of(t, struct slot, task);
	struct extent_hint here = {0}, there = {0};
	struct end src = src_end(s->op, &here), dst = dst_end(s->op, &there);
	struct sluice_err err;
	int r = 0;

	s->start_ns = clock_ns();
	for (uint64_t at = 0, n; r == 0 && at < s->len; at += n) {
		n = s->len - at;
		const char *from = end_addr(&src, s->pos + at, &n);
		char *to = end_addr(&dst, s->pos + at, &n);
		r = copy(to, from, n, is_gpu(&src) || is_gpu(&dst), &err);
	}
	s->end_ns = clock_ns();
	if (r < 0)
		slot_fail(s, r, err.msg);
}

/* ------------------------------------------------------------------- completion */

static void account(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	bool writes = s->writing || s->lane == LANE_COPY,
	     reads = !s->writing || s->lane == LANE_COPY;

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
	if (s->lane == LANE_COPY)
		return;
	f->dev_ops -= s->nr_pieces;
	f->dev_bytes -= s->bytes;
	if (s->code == 0)
		*(s->writing ? &f->stats.bytes_written : &f->stats.bytes_read) += s->bytes;
}

static void slot_free(struct flow *f, struct slot *s)
{
	struct lane *l = &f->lanes[s->lane];

	free(s->msg);
	s->msg = NULL;
	s->op = NULL;
	s->task.next = l->unused ? &l->unused->task : NULL;
	l->unused = s;
}

static void chunk_over(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	char name[LABEL_TEXT];

	if (s->code < 0) {
		const struct label *l = op->label ? op->label : op->object->label;

		if (op->queued)
			lane_remove(f, op);
		op_fail(op, s->code, s->code == -EBADMSG ? "%.0s%s" : "%s: %s",
			label_print(name, l), s->msg ? s->msg : "out of memory");
	}
	if (s->header) /* the noise that was there */
		content_noise(&f->content, s->buf, PLACE_HEADER, 0);
	op->inflight--;
	slot_free(f, s);
	if (op_idle(op) && !op->timed)
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
	if (s->code == 0 && s->op->mode == MODE_READ && f->o.verify && s->op->type == FLOW_READ) {
		s->task.run = copier_check;
		s->task.done = check_over;
		crew_push(&f->copiers, &s->task);
	} else if (s->code == 0 && s->op->mode == MODE_PASS && !s->writing && !s->header &&
		   s->op->code == 0) {
		s->task.next = f->again ? &f->again->task : NULL;
		f->again = s;
	} else {
		if (s->code == 0 && s->op->mode == MODE_COPY_OUT && f->o.verify)
			f->stats.verified += s->len;
		chunk_over(f, s);
	}
}

/* ------------------------------------------------------------------------ issue */

static void issue_header(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	const struct label *l = op->label ? op->label : op->object->label;
	unsigned element = op->type == FLOW_WRITE ? op->element : op->object->element;

	s->header = true;
	slot_begin(s, true);
	if (place_npy_header(s->buf, label_shape(l), element, op->size) < 0)
		slot_fail(s, -EINVAL, "the shape is too long for an NPY header");
	else
		batch_add(f, s, op->dst_file, s->buf, PLACE_HEADER, 0);
	if (!s->start_ns && !s->nr_pieces)
		s->start_ns = clock_ns();
	piece_over(s);
}

static void issue_copy(struct flow *f, struct slot *s)
{
	static void (*const how[])(struct task * t) = {
		[MODE_COPY_OUT] = copier_out,
		[MODE_FILL] = copier_fill,
		[MODE_COPY] = copier_copy,
	};

	s->task.run = how[s->op->mode];
	crew_push(&f->copiers, &s->task);
}

static void issue_write(struct flow *f, struct slot *s)
{
	struct op *op = s->op;
	struct end dst = dst_end(op, &op->dst_hint);

	if (f->o.fill && op->mode == MODE_WRITE)
		content_stamp(&f->content, s->buf, s->len,
			      op->type == FLOW_WRITE ? op->content : op->object->content, s->pos);
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

static void issue_chunk(struct flow *f, unsigned lane)
{
	struct lane *l = &f->lanes[lane];
	struct op *op = l->first;
	struct slot *s = l->unused;
	uint64_t most =
		lane == LANE_READ_SMALL || lane == LANE_WRITE_SMALL ? FLOW_SMALL : f->o.chunk;

	l->unused = s->task.next ? container_of(s->task.next, struct slot, task) : NULL;
	lane_remove(f, op);
	s->op = op;
	s->header = op->header;
	s->writing = false;
	s->code = 0;
	s->pos = op->pos;
	s->len = op->header ? PLACE_HEADER : min_u64(most, op->size - op->pos);
	s->task.done = slot_over;
	op->inflight++;
	if (op->header)
		op->header = false;
	else
		op->pos += s->len;
	if (op->pos < op->size)
		lane_add(f, op);
	if (s->header)
		issue_header(f, s);
	else if (lane == LANE_COPY)
		issue_copy(f, s);
	else
		issue_transfer(f, s);
}

static bool device_full(const struct flow *f)
{
	return f->dev_ops >= f->max_dev_ops || f->dev_bytes >= f->max_dev_bytes;
}

/* The lane whose first operation has waited longest, of those that can go on. */
static unsigned pick(const struct flow *f)
{
	bool full = device_full(f);
	unsigned best = LANES;

	for (unsigned i = 0; i < LANES; i++) {
		const struct lane *l = &f->lanes[i];

		if (l->first && l->unused && (i == LANE_COPY || !full) &&
		    (best == LANES || l->first->seq < f->lanes[best].first->seq))
			best = i;
	}
	return best;
}

void chunks_issue(struct flow *f)
{
	unsigned lane;

	while (f->again && !device_full(f)) {
		struct slot *s = f->again;

		f->again = s->task.next ? container_of(s->task.next, struct slot, task) : NULL;
		issue_write(f, s);
	}
	while ((lane = pick(f)) < LANES)
		issue_chunk(f, lane);
	if (f->nr_batch)
		batch_flush(f);
}
