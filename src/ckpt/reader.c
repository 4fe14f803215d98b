/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint reader.  Transfers are submitted in the order of the file and looked at in the
 * same order: while the caller's thread sums and copies what has come, the next ones are on their
 * way. Buffers are stretches of one piece of memory that is used round and round.
 */
#include "ckpt/reader.h"

#include <penstock/gpu.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

/* ------------------------------------------------------------------- ranges */

static int reader_copy_out(struct reader_transfer *t, const struct read_part *w,
			   struct penstock_err *err)
{
	char *from = t->mem + (w->offset - t->span.offset);
	struct penstock_iov iov[2] = {{w->buf, w->len}, {from, w->len}};
	struct penstock_op op = {.opcode = PENSTOCK_COPY, .nr_iov = 2, .iov = iov};

	if (w->device)
		return reader_transfer_submit(t, &op, err);
	memcpy(w->buf, from, w->len);
	return 0;
}

static int copy_parts(struct reader_transfer *t, const struct read_plan *w,
		      struct penstock_err *err)
{
	int e = 0;

	if (!t->pool_bytes)
		return 0;
	for (uint64_t i = 0; i < t->span.nr && e == 0; i++)
		if (w->v[t->span.first + i].buf)
			e = reader_copy_out(t, &w->v[t->span.first + i], err);
	return e;
}

/* Submit what there is room for, from part *@next on. */
static int submit_some(struct penstock_reader *r, const struct read_plan *w, uint64_t *next,
		       struct penstock_err *err)
{
	while (*next < w->nr) {
		struct read_span s = read_plan_span(w, *next);
		int e = reader_transfer_start(r, &s, w->v[*next].direct ? w->v[*next].buf : NULL,
					      err);

		if (e <= 0)
			return e;
		*next += s.nr;
	}
	return 0;
}

/* The oldest is over, with all its copies. */
static int free_oldest_checked(struct penstock_reader *r, struct penstock_err *err)
{
	int e = reader_transfer_result(r, reader_transfer_at(r, r->head), err);

	reader_transfer_free_oldest(r);
	return e;
}

static int fetch_parts(struct penstock_reader *r, const struct read_plan *w,
		       struct penstock_err *err)
{
	uint64_t next = 0;
	struct reader_transfer *t;
	int e = 0;

	while (e == 0 && (next < w->nr || r->next_verify != r->tail)) {
		e = submit_some(r, w, &next, err);
		if (e == 0 && r->next_verify != r->tail) {
			e = reader_verify_next(r, &t, err);
			if (e == 0)
				e = copy_parts(t, w, err);
		} else if (e == 0) {
			/* all looked at, and copies to a device hold the pool */
			reader_transfer_wait(r, reader_transfer_at(r, r->head));
		}
		while (e == 0 && r->head != r->next_verify &&
		       reader_transfer_is_done(r, reader_transfer_at(r, r->head)))
			e = free_oldest_checked(r, err);
	}
	while (e == 0 && r->head != r->tail) {
		reader_transfer_wait(r, reader_transfer_at(r, r->head));
		e = free_oldest_checked(r, err);
	}
	reader_wait_all(r);
	return e;
}

static int make_plan(struct penstock_reader *r, struct read_plan *w,
		     const struct penstock_piece *pieces, uint64_t n, struct penstock_err *err)
{
	for (uint64_t i = 0; i < n; i++) {
		const struct penstock_piece *p = &pieces[i];
		bool device;

		if (p->len > r->bytes || p->offset > r->bytes - p->len)
			return penstock_fail(err, -EINVAL,
					     "%s: offset %" PRIu64 " length %" PRIu64
					     " is not within the file of %" PRIu64 " bytes",
					     r->path, p->offset, p->len, r->bytes);
		device = p->buf && p->len && penstock_gpu_device(p->buf) >= 0;
		if (device && !r->pinned && reader_pool_alloc(r, err) == 0)
			r->pinned = penstock_gpu_pin(r->pool, r->pool_len, NULL) == 0;
		if (read_plan_add(w, p, device) < 0)
			return penstock_fail(err, -ENOMEM, "%s: out of memory", r->path);
	}
	read_plan_sort(w);
	return 0;
}

int penstock_reader_fetch(struct penstock_reader *r, const struct penstock_piece *pieces,
			  uint64_t n, struct penstock_err *err)
{
	struct read_plan w = {
		.bytes = r->bytes,
		.window = r->o.buffer_bytes,
		.verify = r->crc.nr > 0,
	};
	int e;

	reader_wait_all(r);
	e = make_plan(r, &w, pieces, n, err);
	if (e == 0)
		e = fetch_parts(r, &w, err);
	read_plan_free(&w);
	return e;
}

int64_t penstock_reader_pread(struct penstock_reader *r, void *buf, uint64_t len, uint64_t offset,
			      struct penstock_err *err)
{
	struct penstock_piece p = {offset, 0, buf};
	int e;

	p.len = offset < r->bytes ? min_u64(len, r->bytes - offset) : 0;
	if (!p.len)
		return 0;
	if (!buf)
		return penstock_fail(err, -EFAULT, "buf: is NULL but len is %" PRIu64, len);
	e = penstock_reader_fetch(r, &p, 1, err);
	return e < 0 ? e : (int64_t)p.len;
}

/* --------------------------------------------------------------- sequential */

/* Keep as much on its way as sequential reading has earned so far. */
static int read_ahead(struct penstock_reader *r, struct penstock_err *err)
{
	while (r->ahead_next < r->bytes && r->ahead_next < r->pos + r->ahead) {
		struct read_span s = {.offset = align_down(r->ahead_next, PENSTOCK_CHUNK)};
		int e;

		s.len = min_u64(r->bytes - s.offset, min_u64(r->ahead, r->o.buffer_bytes));
		e = reader_transfer_start(r, &s, NULL, err);
		if (e <= 0)
			return e;
		r->ahead_next = s.offset + s.len;
	}
	return 0;
}

/* The transfer that has the byte at the position, looked at; there is one, or all have been
 * dropped. */
static int stream_transfer(struct penstock_reader *r, struct reader_transfer **ret,
			   struct penstock_err *err)
{
	struct reader_transfer *t = NULL;
	int e = 0;

	while (r->head != r->tail) {
		t = reader_transfer_at(r, r->head);
		if (r->pos < t->span.offset + t->span.len)
			break;
		if (!t->verified) /* passed over by a seek */
			r->next_verify = r->head + 1;
		reader_transfer_wait(r, t);
		reader_transfer_free_oldest(r);
		r->ahead = min_u64(r->ahead * 4, r->o.buffers * r->o.buffer_bytes);
	}
	if (r->head == r->tail || r->pos < t->span.offset)
		reader_wait_all(r);
	e = read_ahead(r, err);
	if (e < 0)
		return e;
	*ret = reader_transfer_at(r, r->head);
	return (*ret)->verified ? 0 : reader_verify_next(r, ret, err);
}

/* What of the next @len bytes is in one transfer; returns how much, or what failed. */
static int64_t stream_some(struct penstock_reader *r, char *to, uint64_t len, bool device,
			   struct penstock_err *err)
{
	struct reader_transfer *t;
	const char *from;
	int e = stream_transfer(r, &t, err);

	if (e < 0)
		return e;
	from = t->mem + (r->pos - t->span.offset);
	len = min_u64(len, t->span.offset + t->span.len - r->pos);
	if (device)
		e = penstock_gpu_copy(to, from, len, err);
	else
		memcpy(to, from, len);
	return e < 0 ? e : (int64_t)len;
}

int64_t penstock_reader_read(struct penstock_reader *r, void *buf, uint64_t len,
			     struct penstock_err *err)
{
	uint64_t done = 0;
	bool device;

	len = r->pos < r->bytes ? min_u64(len, r->bytes - r->pos) : 0;
	if (len && !buf)
		return penstock_fail(err, -EFAULT, "buf: is NULL but len is %" PRIu64, len);
	device = len && penstock_gpu_device(buf) >= 0;
	while (done < len) {
		int64_t n = stream_some(r, (char *)buf + done, len - done, device, err);

		if (n < 0) {
			reader_wait_all(r);
			return n;
		}
		r->pos += (uint64_t)n;
		done += (uint64_t)n;
	}
	return (int64_t)done;
}

int penstock_reader_seek(struct penstock_reader *r, uint64_t offset, struct penstock_err *err)
{
	if (offset > INT64_MAX)
		return penstock_fail(err, -EINVAL, "%s: offset %" PRIu64 " is beyond 2^63", r->path,
				     offset);
	r->pos = offset;
	return 0;
}

uint64_t penstock_reader_tell(const struct penstock_reader *r)
{
	return r->pos;
}

int penstock_reader_stat(const struct penstock_reader *r, struct penstock_reader_info *info)
{
	struct penstock_reader_info full = {
		.size = info->size,
		.verify = r->crc.nr > 0,
		.bytes = r->bytes,
		.bad_offset = r->bad_offset,
		.bad_len = r->bad_len,
		.read_bytes = r->read_bytes,
	};

	memcpy(info, &full, min_u64(info->size, sizeof(full)));
	return 0;
}
