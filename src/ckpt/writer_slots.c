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
	FIRST = 1 << 20, /* the first buffer, as long as nobody knows how much comes */
	SOON = 4 << 20,  /* the first buffer is sent off at this, the next at twice as much, ... */
};

/* ----------------------------------------------------------------- failures */

int writer_note(struct penstock_writer *w, int code, const char *msg)
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

int writer_note_errno(struct penstock_writer *w, const char *what, int code)
{
	struct penstock_short_name short_name;
	struct penstock_err err;

	penstock_fail(&err, code, "%s %s: %s", what, penstock_shorten_name(&short_name, w->path),
		      strerror(-code));
	return writer_note(w, code, err.msg);
}

int writer_failed(struct penstock_writer *w, struct penstock_err *err)
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
	return writer_failed(w, err);
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
static uint64_t slot_want(const struct penstock_writer *w)
{
	uint64_t full = w->o.buffer_bytes;

	if (w->o.expected)
		return min_u64(full, align_up(w->o.expected, FIRST));
	return w->end ? full : min_u64(full, FIRST);
}

int writer_slot_alloc(struct penstock_writer *w, struct writer_slot *s)
{
	struct penstock_err err;
	uint64_t want = slot_want(w);
	void *buf;
	int r;

	if (s->buf && s->room >= want)
		return 0;
	writer_slot_free(s);
	r = penstock_buf_alloc(&buf, w->io, want, 0, NULL, &err);
	if (r < 0)
		return writer_note(w, r, err.msg);
	s->buf = buf;
	s->room = want;
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
	s->lo = s->hi = w->pos;
	s->stop = s->base + min_u64(s->room, (uint64_t)SOON << min_u64(w->nr_taken++, 16));
	w->cur = s;
	return 0;
}

void writer_slot_done(void *arg, const struct penstock_done *done)
{
	struct writer_slot *s = arg;
	struct penstock_writer *w = s->w;

	if (done->res < 0)
		writer_note(w, (int)done->res, done->msg);
	pthread_mutex_lock(&w->lock);
	s->busy = false;
	pthread_cond_broadcast(&w->wakeup);
	pthread_mutex_unlock(&w->lock);
}

/* Is some of it on its way already?  Two transfers of one byte must not race.  Under the lock. */
static bool is_under_way(const struct penstock_writer *w, const struct writer_slot *s)
{
	bool any = false;

	for (unsigned i = 0; i < w->o.buffers; i++) {
		const struct writer_slot *o = &w->slots[i];

		/* by whole pages: parts of one may take different ways */
		any |= o->busy && align_down(s->lo, PAGE) < o->hi &&
		       align_down(o->lo, PAGE) < s->hi;
	}
	return any;
}

int writer_slot_flush(struct penstock_writer *w)
{
	struct writer_slot *s = TAKE_PTR(w->cur);
	struct penstock_err err;
	struct penstock_op op = {
		.opcode = PENSTOCK_WRITE,
		.file = w->file,
		.on_done = writer_slot_done,
		.arg = s,
		.memory = PENSTOCK_MEMORY_HOST,
	};
	int r;

	if (!s || s->lo == s->hi)
		return 0;
	op.buf = s->buf + (s->lo - s->base);
	op.len = s->hi - s->lo;
	op.offset = s->lo;
	pthread_mutex_lock(&w->lock);
	while (is_under_way(w, s))
		pthread_cond_wait(&w->wakeup, &w->lock);
	s->busy = true;
	pthread_mutex_unlock(&w->lock);
	r = penstock_submit(w->io, &op, 1, NULL, &err);
	if (r == 1)
		return 0;
	s->busy = false; /* nobody else has seen it */
	return writer_note(w, r, err.msg);
}

void writer_drain(struct penstock_writer *w)
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
