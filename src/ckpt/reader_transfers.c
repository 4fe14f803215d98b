/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers of the checkpoint reader, the memory they hold, and what is verified when they are
 * back. */
#include "ckpt/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "base/util.h"

enum {
	PAGE = 4096,
	DIRECT_BYTES_MAX = 256 << 20, /* bytes that go straight into place, at a time */
};

/* ------------------------------------------------------------- verification */

static int bad_chunk(struct penstock_reader *r, uint64_t offset, uint64_t len, uint32_t got,
		     struct penstock_err *err)
{
	struct penstock_short_name short_name;

	r->bad_offset = offset;
	r->bad_len = len;
	return penstock_fail(err, -EBADMSG,
			     "%s: bytes %" PRIu64 " to %" PRIu64
			     " are not what was saved: their CRC-32C is %08x, that in %s.crc %08x",
			     penstock_shorten_name(&short_name, r->path), offset, offset + len - 1,
			     got, strrchr(r->path, '/') ? strrchr(r->path, '/') + 1 : r->path,
			     r->crc.sets[0].crcs[offset / PENSTOCK_CHUNK]);
}

/* Whole chunks, but for the end of the file. */
static int verify_chunks(struct penstock_reader *r, uint64_t offset, const char *data, uint64_t len,
			 struct penstock_err *err)
{
	for (uint64_t n; len; offset += n, data += n, len -= n) {
		uint32_t crc, fits = 0;

		n = min_u64(len, PENSTOCK_CHUNK);
		crc = penstock_crc32c(0, data, n);
		for (unsigned i = 0; i < r->crc.nr; i++)
			if (r->crc.sets[i].crcs[offset / PENSTOCK_CHUNK] == crc)
				fits |= 1u << i;
		if (!(r->matching_sets & fits))
			return bad_chunk(r, offset, n, crc, err);
		r->matching_sets &= fits;
	}
	return 0;
}

/* -------------------------------------------------------------------- transfers */

struct reader_transfer *reader_transfer_at(struct penstock_reader *r, unsigned i)
{
	return &r->transfers[i % READER_TRANSFERS];
}

static void transfer_done(void *arg, const struct penstock_done *done)
{
	struct reader_transfer *t = arg;
	struct penstock_reader *r = t->r;

	pthread_mutex_lock(&r->lock);
	if (done->res < 0 && !t->code)
		t->code = (int)done->res;
	if (t->code && !r->failed) {
		r->failed = t;
		snprintf(r->msg, sizeof(r->msg), "%s", done->msg);
	}
	t->busy--;
	pthread_cond_signal(&r->wakeup);
	pthread_mutex_unlock(&r->lock);
}

void reader_transfer_wait(struct penstock_reader *r, const struct reader_transfer *t)
{
	pthread_mutex_lock(&r->lock);
	while (t->busy)
		pthread_cond_wait(&r->wakeup, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

bool reader_transfer_is_done(struct penstock_reader *r, const struct reader_transfer *t)
{
	bool over;

	pthread_mutex_lock(&r->lock);
	over = !t->busy;
	pthread_mutex_unlock(&r->lock);
	return over;
}

int reader_transfer_result(struct penstock_reader *r, const struct reader_transfer *t,
			   struct penstock_err *err)
{
	int code;

	pthread_mutex_lock(&r->lock);
	code = t->code;
	if (code && r->failed == t)
		penstock_fail(err, code, "%s", r->msg);
	else if (code)
		penstock_fail(err, code, "read %s: offset %" PRIu64 " length %" PRIu64 ": %s",
			      r->path, t->span.offset, t->span.len, strerror(-code));
	pthread_mutex_unlock(&r->lock);
	return code;
}

int reader_transfer_submit(struct reader_transfer *t, struct penstock_op *op,
			   struct penstock_err *err)
{
	int n;

	op->on_done = transfer_done;
	op->arg = t;
	pthread_mutex_lock(&t->r->lock);
	t->busy++;
	pthread_mutex_unlock(&t->r->lock);
	n = penstock_submit(t->r->io, op, 1, NULL, err);
	if (n == 1)
		return 0;
	pthread_mutex_lock(&t->r->lock);
	t->busy--;
	pthread_mutex_unlock(&t->r->lock);
	return n;
}

void reader_transfer_free_oldest(struct penstock_reader *r)
{
	struct reader_transfer *t = reader_transfer_at(r, r->head++);

	if (r->failed == t)
		r->failed = NULL; /* it is over, and so is whoever would set it */
	r->pool_used -= t->pool_bytes;
	if (!t->pool_bytes)
		r->direct_bytes -= t->span.len;
}

void reader_wait_all(struct penstock_reader *r)
{
	while (r->head != r->tail) {
		reader_transfer_wait(r, reader_transfer_at(r, r->head));
		reader_transfer_free_oldest(r);
	}
	r->next_verify = r->head;
	r->pool_at = r->pool_used = 0;
	r->ahead = READER_AHEAD_FIRST;
	r->ahead_next = r->pos;
	r->failed = NULL;
}

/* --------------------------------------------------------------------- pool */

int reader_pool_alloc(struct penstock_reader *r, struct penstock_err *err)
{
	uint64_t len = min_u64(r->o.buffers * r->o.buffer_bytes,
			       align_up(max_u64(r->bytes, 1), PENSTOCK_CHUNK));
	void *pool;
	int e;

	if (r->pool)
		return 0;
	e = penstock_buf_alloc(&pool, r->io, len, 0, NULL, err);
	if (e < 0)
		return e;
	r->pool = pool;
	r->pool_len = len;
	return 0;
}

/* @len bytes in one piece: where, or NULL.  *@ret_bytes: what the holder gives back. */
static char *pool_take(struct penstock_reader *r, uint64_t len, uint64_t *ret_bytes)
{
	uint64_t at, skip = 0;

	if (!r->pool_used) /* else what is longer than the rest of it would never have room */
		r->pool_at = 0;
	at = r->pool_at;
	len = align_up(len, PAGE);
	if (at + len > r->pool_len) {
		skip = r->pool_len - at;
		at = 0;
	}
	if (r->pool_used + skip + len > r->pool_len)
		return NULL;
	r->pool_used += skip + len;
	r->pool_at = at + len;
	*ret_bytes = skip + len;
	return r->pool + at;
}

/* ---------------------------------------------------------------- transfers */

int reader_transfer_start(struct penstock_reader *r, const struct read_span *span, char *mem,
			  struct penstock_err *err)
{
	struct reader_transfer *t = reader_transfer_at(r, r->tail);
	struct penstock_op op = {
		.opcode = PENSTOCK_READ,
		.flags = PENSTOCK_OP_EXACT,
		.file = r->file,
		.len = span->len,
		.offset = span->offset,
		.memory = mem ? PENSTOCK_MEMORY_ANY : PENSTOCK_MEMORY_HOST,
	};
	uint64_t pool_bytes = 0;
	int e;

	if (r->tail - r->head == READER_TRANSFERS || (mem && r->direct_bytes >= DIRECT_BYTES_MAX))
		return 0;
	e = mem ? 0 : reader_pool_alloc(r, err);
	if (e < 0)
		return e;
	op.buf = mem ? mem : pool_take(r, span->len, &pool_bytes);
	if (!op.buf)
		return 0;
	*t = (struct reader_transfer){
		.r = r, .span = *span, .mem = op.buf, .pool_bytes = pool_bytes};
	r->tail++;
	if (!pool_bytes)
		r->direct_bytes += span->len;
	r->read_bytes += span->len;
	e = reader_transfer_submit(t, &op, err);
	return e < 0 ? e : 1;
}

int reader_verify_next(struct penstock_reader *r, struct reader_transfer **ret,
		       struct penstock_err *err)
{
	struct reader_transfer *t = reader_transfer_at(r, r->next_verify++);
	int e;

	reader_transfer_wait(r, t);
	e = reader_transfer_result(r, t, err);
	if (e == 0 && r->crc.nr)
		e = verify_chunks(r, t->span.offset, t->mem, t->span.len, err);
	t->verified = true;
	*ret = t;
	return e;
}
