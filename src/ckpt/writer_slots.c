/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of the checkpoint writer, each a stretch of the file, and what fails on their way. */
#include "ckpt/writer.h"

#include <penstock/gpu.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"

enum {
	PAGE = 4096,
	FIRST_BYTES = 1 << 20, /* the first buffer, as long as nobody knows how much comes */
	FLUSH_FIRST =
		4 << 20, /* the first buffer is sent off at this, the next at twice as much, ... */
};

/* ----------------------------------------------------------------- failures */

int writer_record_error(struct penstock_writer *w, int code, const char *msg)
{
	pthread_mutex_lock(&w->lock);
	if (!w->code) {
		w->code = code;
		snprintf(w->msg, sizeof(w->msg), "%s", msg);
	}
	code = w->code;
	pthread_mutex_unlock(&w->lock);
	return code;
}

int writer_record_errno(struct penstock_writer *w, const char *what, int code)
{
	struct penstock_short_name short_name;
	struct penstock_err err;

	penstock_fail(&err, code, "%s %s: %s", what, penstock_shorten_name(&short_name, w->path),
		      strerror(-code));
	return writer_record_error(w, code, err.msg);
}

int writer_get_error(struct penstock_writer *w, struct penstock_err *err)
{
	int code;

	pthread_mutex_lock(&w->lock);
	code = w->code;
	if (code)
		penstock_fail(err, code, "%s", w->msg);
	pthread_mutex_unlock(&w->lock);
	return code;
}

int writer_check(struct penstock_writer *w, struct penstock_err *err)
{
	if (w->pid != getpid())
		return penstock_fail(err, -ECHILD, "%s: the writer belongs to the parent process",
				     w->path);
	return writer_get_error(w, err);
}

/* ------------------------------------------------------------------ buffers */

void writer_slot_free(struct writer_slot *s)
{
	if (!s->buf)
		return;
	if (s->pinned)
		penstock_gpu_unpin(s->buf);
	penstock_buf_free(s->w->io, s->buf);
	s->buf = NULL;
	s->pinned = false;
}

/* As large as it will be needed, as far as that is known. */
static uint64_t slot_bytes(const struct penstock_writer *w)
{
	uint64_t full = w->o.buffer_bytes;

	if (w->o.expected)
		return min_u64(full, align_up(w->o.expected, FIRST_BYTES));
	return w->end ? full : min_u64(full, FIRST_BYTES);
}

int writer_slot_alloc(struct penstock_writer *w, struct writer_slot *s)
{
	struct penstock_err err;
	uint64_t bytes = slot_bytes(w);
	void *buf;
	int r;

	if (s->buf && s->capacity >= bytes)
		return 0;
	writer_slot_free(s);
	r = penstock_buf_alloc(&buf, w->io, bytes, 0, NULL, &err);
	if (r < 0)
		return writer_record_error(w, r, err.msg);
	s->buf = buf;
	s->capacity = bytes;
	return 0;
}

static struct writer_slot *idle_slot(struct penstock_writer *w)
{
	for (unsigned i = 0; i < w->o.buffers; i++)
		if (!w->slots[i].busy)
			return &w->slots[i];
	return NULL;
}

int writer_slot_take(struct penstock_writer *w)
{
	struct writer_slot *s;
	int r;

	pthread_mutex_lock(&w->lock);
	while (!(s = idle_slot(w)))
		pthread_cond_wait(&w->wakeup, &w->lock);
	pthread_mutex_unlock(&w->lock);
	r = writer_slot_alloc(w, s);
	if (r < 0)
		return r;
	s->base = align_down(w->pos, PAGE);
	s->begin = s->end = w->pos;
	s->flush_at = s->base + min_u64(s->capacity,
					(uint64_t)FLUSH_FIRST << min_u64(w->nr_slots_taken++, 16));
	w->filling = s;
	return 0;
}

void writer_slot_done(void *arg, const struct penstock_done *done)
{
	struct writer_slot *s = arg;
	struct penstock_writer *w = s->w;

	if (done->res < 0)
		writer_record_error(w, (int)done->res, done->msg);
	pthread_mutex_lock(&w->lock);
	s->busy = false;
	pthread_cond_broadcast(&w->wakeup);
	pthread_mutex_unlock(&w->lock);
}

/* Is some of it on its way already?  Two transfers of one byte must not race.  Under the lock. */
static bool overlaps_in_flight(const struct penstock_writer *w, const struct writer_slot *s)
{
	bool any = false;

	for (unsigned i = 0; i < w->o.buffers; i++) {
		const struct writer_slot *o = &w->slots[i];

		/* by whole pages: parts of one may take different ways */
		any |= o->busy && align_down(s->begin, PAGE) < o->end &&
		       align_down(o->begin, PAGE) < s->end;
	}
	return any;
}

int writer_slot_flush(struct penstock_writer *w)
{
	struct writer_slot *s = TAKE_PTR(w->filling);
	struct penstock_err err;
	struct penstock_op op = {
		.opcode = PENSTOCK_WRITE,
		.file = w->file,
		.on_done = writer_slot_done,
		.arg = s,
		.memory = PENSTOCK_MEMORY_HOST,
	};
	int r;

	if (!s || s->begin == s->end)
		return 0;
	op.buf = s->buf + (s->begin - s->base);
	op.len = s->end - s->begin;
	op.offset = s->begin;
	pthread_mutex_lock(&w->lock);
	while (overlaps_in_flight(w, s))
		pthread_cond_wait(&w->wakeup, &w->lock);
	s->busy = true;
	pthread_mutex_unlock(&w->lock);
	r = penstock_submit(w->io, &op, 1, NULL, &err);
	if (r == 1)
		return 0;
	s->busy = false; /* nobody else has seen it */
	return writer_record_error(w, r, err.msg);
}

void writer_wait_all(struct penstock_writer *w)
{
	bool any;

	pthread_mutex_lock(&w->lock);
	do {
		any = false;
		for (unsigned i = 0; i < w->o.buffers; i++)
			any |= w->slots[i].busy;
		if (any)
			pthread_cond_wait(&w->wakeup, &w->lock);
	} while (any);
	pthread_mutex_unlock(&w->lock);
}
