/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on objects of an object store: put, read by ranges, deleted.
 *
 * Calls of the client block, so a bucket thread runs each operation. There are as many threads as
 * requests may be in flight.  What has no memory of its own moves through a buffer: of these there
 * are three sizes and only so many of each, and whoever finds none waits, in the order of arrival.
 * Those for writing contain the noise from the beginning on.  Large objects are put in parts, and
 * read in stretches of four of them that are in flight together.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/flow_internal.h"

enum {
	BUCKET_THREADS = 64,
	STRETCH = 4,               /* parts */
	UPLOAD_PARTS = 4,          /* in flight, of one object */
	BUFFERS_BYTES = 128 << 20, /* of a kind, unless that would be fewer than two */
	RANGES = 64,               /* pieces of memory that are filled with one call */
};
#define PART (8ull << 20) /* unless the client's options say otherwise */

/* The call of the client for an operation, for a bucket thread. */
struct bucket_call {
	char *buf; /* NULL: it needs none */
	uint8_t kind;
	bool writing;
	char etag[PENSTOCK_S3_ETAG]; /* of what is read in stretches */
	uint64_t moved, verified;
	uint64_t begin_ns, end_ns;
};

/* ------------------------------------------------------------------------ buffers */

/* Bytes of a part: whole periods of the noise. */
static uint64_t part_of(const struct place *p)
{
	uint64_t part = p->o.s3 && p->o.s3->part ? p->o.s3->part : PART;

	return part - part % CONTENT_PERIOD;
}

static uint64_t buffer_bytes(const struct flow *f, unsigned kind)
{
	uint64_t part = 0;

	if (kind == 0)
		return CONTENT_PERIOD;
	for (unsigned i = 0; i < f->o.nr_places; i++)
		if (place_is_bucket(flow_place(f, i)))
			part = max_u64(part, part_of(flow_place(f, i)));
	return kind == 1 ? part : STRETCH * part;
}

/* NULL: others have them, or no memory (*@failed). */
static char *buffer_take(struct flow *f, bool writing, unsigned kind, bool *failed)
{
	struct buffer_pool *h = &f->bucket_pools[writing][kind];
	uint64_t bytes = buffer_bytes(f, kind);
	uint64_t max = kind == 0 ? BUCKET_THREADS : max_u64(2, BUFFERS_BYTES / bytes);

	if (!h->nr_unused && h->nr < max && buffer_pool_grow(f, h, 1, bytes, writing) < 0)
		*failed = h->nr == 0;
	return h->nr_unused ? h->unused[--h->nr_unused] : NULL;
}

static void buffer_return(struct flow *f, struct bucket_call *c)
{
	struct buffer_pool *h = &f->bucket_pools[c->writing][c->kind];

	if (c->buf)
		h->unused[h->nr_unused++] = TAKE_PTR(c->buf);
}

/* ---------------------------------------------------------- in the bucket threads */

static struct place *bucket_of(const struct op *op)
{
	struct place *dst = op_dst(op);

	return dst && place_is_bucket(dst) ? dst : op_src(op);
}

/* Between the buffer and the memory of a place, which may be a device's. */
static int copy_memory(struct op *op, const struct end *memory, uint64_t pos, uint64_t len,
		       bool into_buf, struct penstock_err *err)
{
	for (uint64_t at = 0, n; at < len; at += n) {
		n = len - at;
		char *there = end_addr(memory, pos + at, &n), *here = op->bucket_call->buf + at;
		struct penstock_iov iov[2] = {{into_buf ? here : there, n},
					      {into_buf ? there : here, n}};
		struct penstock_op u = {.opcode = PENSTOCK_COPY, .iov = iov, .nr_iov = 2};
		struct penstock_done done;
		int r;

		if (memory->place->o.kind == PLACE_MEMORY) {
			memcpy(iov[0].addr, iov[1].addr, n);
			continue;
		}
		r = penstock_run(op->flow->io, &u, &done, err);
		if (r < 0 || done.res < 0)
			return r < 0 ? r : penstock_fail(err, (int)done.res, "%s", done.msg);
	}
	return 0;
}

/* Bytes of what is put, in a row: where they are, in the buffer, or NULL with @err. */
static const char *bytes_at(struct op *op, uint64_t pos, uint64_t len, struct penstock_err *err)
{
	const struct flow *f = op->flow;
	struct extent_hint hint = {0};
	char *buf = op->bucket_call->buf;
	struct end src;
	uint64_t n = len;

	if (op->type == FLOW_MOVE && place_is_memory(op_src(op))) {
		src = src_end(op, &hint);
		if (src.place->o.kind == PLACE_MEMORY && len) {
			const char *there = end_addr(&src, pos, &n);

			if (n == len)
				return there;
		}
		return copy_memory(op, &src, pos, len, true, err) < 0 ? NULL : buf;
	}
	if (f->o.fill)
		content_stamp(&f->content, buf, len,
			      op->type == FLOW_WRITE ? op->content : op->object->content, pos);
	return buf;
}

static int put_whole(struct op *op, const struct place *p, const char *uri,
		     struct penstock_err *err)
{
	const char *bytes = bytes_at(op, 0, op->size, err);

	return bytes ? penstock_s3_put(p->bucket.client, uri, bytes, op->size, 0, NULL, NULL, err)
		     : -EIO;
}

static int put_parts(struct op *op, const struct place *p, const char *uri,
		     struct penstock_err *err)
{
	struct penstock_s3_upload_opts o = PENSTOCK_S3_UPLOAD_OPTS_INIT;
	struct penstock_s3_upload *u;
	uint64_t part = part_of(p);
	int r;

	o.in_flight = UPLOAD_PARTS;
	o.part = part;
	o.expected = op->size;
	r = penstock_s3_upload_open(&u, p->bucket.client, uri, &o, err);
	if (r < 0)
		return r;
	for (uint64_t pos = 0, n; r == 0 && pos < op->size; pos += n) {
		const char *bytes;

		n = min_u64(part, op->size - pos);
		bytes = bytes_at(op, pos, n, err);
		r = bytes ? penstock_s3_upload_write(u, bytes, n, err) : -EIO;
	}
	if (r == 0)
		return penstock_s3_upload_commit(u, NULL, err);
	penstock_s3_upload_abort(u);
	return r;
}

/* Ranges of one object; all of them have to come, and of the object that the first came from. */
static int bucket_fetch(struct op *op, const struct place *p, struct penstock_s3_range *v,
			unsigned nr, struct penstock_err *err)
{
	struct bucket_call *c = op->bucket_call;
	int r;

	for (unsigned i = 0; i < nr; i++)
		v[i].etag = c->etag[0] ? c->etag : NULL;
	r = penstock_s3_fetch(p->bucket.client, v, nr, err);
	for (unsigned i = 0; r == 0 && i < nr; i++) {
		if ((uint64_t)v[i].res != v[i].len)
			return penstock_fail(err, -EBADMSG, "it ends at %" PRIu64 " of %" PRIu64,
					     v[i].offset + (uint64_t)v[i].res, op->size);
		if (!c->etag[0])
			memcpy(c->etag, v[i].got, sizeof(c->etag));
		else if (strcmp(c->etag, v[i].got) != 0)
			return penstock_fail(err, -ESTALE, "it was replaced while it was read");
	}
	return r;
}

/* Straight into the memory of a place. */
static int load_memory(struct op *op, const struct place *p, const char *uri,
		       struct penstock_err *err)
{
	struct penstock_s3_range v[RANGES];
	struct extent_hint hint = {0};
	struct end dst = dst_end(op, &hint);
	int r = 0;

	for (uint64_t pos = op->from; r == 0 && pos < op->end;) {
		unsigned nr = 0;

		for (uint64_t n; nr < RANGES && pos < op->end; pos += n, nr++) {
			char *to;

			n = op->end - pos;
			to = end_addr(&dst, pos, &n);
			v[nr] = (struct penstock_s3_range){
				.uri = uri, .buf = to, .len = n, .offset = pos};
		}
		r = bucket_fetch(op, p, v, nr, err);
	}
	return r;
}

static int check_bytes(struct op *op, const char *buf, uint64_t pos, uint64_t len,
		       struct penstock_err *err)
{
	const struct flow *f = op->flow;
	uint64_t good = content_check(&f->content, buf, len, op->object->content, pos);
	char name[NAME_TEXT];

	if (good == len)
		return 0;
	return penstock_fail(
		err, -EBADMSG, "verification failed: %.120s: offset %" PRIu64 " holds 0x%02x",
		attrs_print_name(name, op_attrs(op)), pos + good, (unsigned char)buf[good]);
}

static int read_through_buf(struct op *op, const struct place *p, const char *uri,
			    struct penstock_err *err)
{
	struct bucket_call *c = op->bucket_call;
	uint64_t stretch = buffer_bytes(op->flow, c->kind);
	struct extent_hint hint = {0};
	struct end dst;
	int r = 0;

	if (op->type == FLOW_MOVE)
		dst = dst_end(op, &hint);
	for (uint64_t pos = op->from, n; r == 0 && pos < op->end; pos += n) {
		struct penstock_s3_range v = {.uri = uri, .buf = c->buf, .offset = pos};

		n = v.len = min_u64(stretch, op->end - pos);
		r = bucket_fetch(op, p, &v, 1, err);
		c->end_ns = clock_ns();
		if (r == 0 && op->type == FLOW_MOVE && place_is_memory(dst.place))
			r = copy_memory(op, &dst, pos, n, false, err);
		if (r == 0 && op->type == FLOW_READ && op->flow->o.verify) {
			r = check_bytes(op, c->buf, pos, n, err);
			c->verified += n;
		}
	}
	return r;
}

static int bucket_put(struct op *op, const char *uri, struct penstock_err *err)
{
	const struct place *p = op_dst(op);

	return op->size <= part_of(p) ? put_whole(op, p, uri, err) : put_parts(op, p, uri, err);
}

static int bucket_get(struct op *op, const char *uri, struct penstock_err *err)
{
	const struct place *p = op_src(op);

	return op->bucket_call->buf ? read_through_buf(op, p, uri, err)
				    : load_memory(op, p, uri, err);
}

/* Runs in a bucket thread. */
static void bucket_call_run(struct task *t)
{
	struct op *op = container_of(t, struct op, task);
	struct bucket_call *c = op->bucket_call;
	struct place *p = bucket_of(op);
	const struct attrs *l = op_attrs(op);
	bool puts = op_dst(op) == p, gets = !puts && op->type != FLOW_DELETE;
	CLEANUP_FREE char *uri =
		bucket_uri(p, puts ? op->ref : op->object->ref, l->text, l->name_len);
	struct penstock_err err = {0, ""};
	int r = 0;

	c->begin_ns = clock_ns();
	if (!uri)
		r = penstock_fail(&err, -ENOMEM, "out of memory");
	else if (puts)
		r = bucket_put(op, uri, &err);
	else if (gets && op->from < op->end)
		r = bucket_get(op, uri, &err);
	if (r == 0 && (puts || gets))
		c->moved = op->end - op->from;
	if (!c->end_ns)
		c->end_ns = clock_ns();
	if (r < 0)
		op_fail_named(op, op_attrs(op), r, err.msg);
	if (uri && !puts && op_leaves(op)) {
		r = penstock_s3_delete(p->bucket.client, (const char *const *)&uri, 1, &err);
		if (r < 0 && op->type == FLOW_DELETE)
			op_fail_named(op, op_attrs(op), r, err.msg);
		if (op->type == FLOW_DELETE)
			c->end_ns = clock_ns();
	}
}

/* ---------------------------------------------------------- in the flow's thread */

/* It is over, with what is in op->code. */
static void bucket_call_end(struct flow *f, struct op *op)
{
	buffer_return(f, op->bucket_call);
	free(TAKE_PTR(op->bucket_call));
	op->inflight--;
	if (op_idle(op) && !(op->todo & TODO_TIMER))
		op_moved(f, op);
}

static void bucket_call_done(struct task *t, void *owner)
{
	struct op *op = container_of(t, struct op, task);
	const struct bucket_call *c = op->bucket_call;
	struct flow *f = owner;
	struct place *dst = op_dst(op);
	bool puts = dst && place_is_bucket(dst);

	op_used(op, puts, c->begin_ns, c->end_ns);
	*(puts ? &f->stats.bytes_written : &f->stats.bytes_read) += c->moved;
	f->stats.verified += op->code == 0 ? c->verified : 0;
	bucket_call_end(f, op);
}

/* Does all that is put lie in memory in a row? */
static bool lies_in_a_row(struct op *op)
{
	struct extent_hint hint = {0};
	struct end src;
	uint64_t n = op->size;

	if (op->type != FLOW_MOVE || op_src(op)->o.kind != PLACE_MEMORY || !n)
		return false;
	src = src_end(op, &hint);
	end_addr(&src, 0, &n);
	return n == op->size;
}

/* Whether it needs a buffer, and from which pool; -1: none. */
static int pool_kind(struct op *op)
{
	const struct place *dst = op_dst(op);
	bool puts = dst && place_is_bucket(dst);
	uint64_t bytes = op->end - op->from;

	if (op->type == FLOW_DELETE)
		return -1;
	if (!puts && dst && dst->o.kind == PLACE_MEMORY)
		return -1;
	if (puts && bytes <= part_of(dst) && lies_in_a_row(op))
		return -1;
	if (bytes <= CONTENT_PERIOD)
		return 0;
	return bytes <= part_of(bucket_of(op)) ? 1 : 2;
}

/* Take a buffer if it needs one, and start the call; -EAGAIN: no buffer is free. */
static int bucket_call_start(struct flow *f, struct op *op)
{
	struct bucket_call *c = op->bucket_call;
	int kind = pool_kind(op);
	bool failed = false;

	if (kind >= 0) {
		c->kind = (uint8_t)kind;
		c->buf = buffer_take(f, c->writing, c->kind, &failed);
		if (!c->buf && !failed)
			return -EAGAIN;
	}
	if (failed) {
		op_fail_named(op, op_attrs(op), -ENOMEM, "out of memory");
		bucket_call_end(f, op);
		return 0;
	}
	op->task.run = bucket_call_run;
	op->task.done = bucket_call_done;
	thread_pool_push(&f->bucket_threads, &op->task);
	return 0;
}

void bucket_start_op(struct flow *f, struct op *op)
{
	struct place *dst = op_dst(op);
	int kind;

	op->bucket_call = calloc(1, sizeof(*op->bucket_call));
	op->inflight++;
	if (!op->bucket_call) {
		op->inflight--;
		op_fail_named(op, op_attrs(op), -ENOMEM, "out of memory");
		if (!(op->todo & TODO_TIMER))
			op_moved(f, op);
		return;
	}
	if (op->type == FLOW_DELETE && !op_leaves(op)) {
		bucket_call_end(f, op);
		return;
	}
	op->bucket_call->writing = dst && place_is_bucket(dst);
	if (op->bucket_call->writing && !op->overwrites)
		op->ref = bucket_ref(dst);
	kind = pool_kind(op);
	if (kind < 0)
		bucket_call_start(f, op);
	else
		buffer_pool_start(f, &f->bucket_pools[op->bucket_call->writing][kind], op,
				  bucket_call_start);
}

static struct buffer_pool *bucket_pool_at(struct flow *f, unsigned i)
{
	return &f->bucket_pools[i / BUCKET_POOLS][i % BUCKET_POOLS];
}

void buckets_serve(struct flow *f)
{
	for (unsigned i = 0; i < 2 * BUCKET_POOLS; i++)
		buffer_pool_serve(f, bucket_pool_at(f, i), bucket_call_start);
}

void buckets_cancel(struct flow *f)
{
	for (unsigned i = 0; i < 2 * BUCKET_POOLS; i++)
		buffer_pool_cancel(f, bucket_pool_at(f, i), bucket_call_end);
}

int buckets_init(struct flow *f)
{
	for (unsigned i = 0; i < f->o.nr_places; i++)
		if (place_is_bucket(flow_place(f, i)))
			return thread_pool_start(&f->bucket_threads, BUCKET_THREADS,
						 "penstock-object", &f->inbox);
	return 0;
}

void buckets_fini(struct flow *f)
{
	thread_pool_stop(&f->bucket_threads);
	for (unsigned i = 0; i < 2 * BUCKET_POOLS; i++)
		free(bucket_pool_at(f, i)->unused);
}
