/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BurstGPT: which request comes when.  A long input is not kept: each cursor of an open loop has a
 * reader, which reads the input for itself, so that a level of service may lag behind another as
 * far as it likes.  Requests are kept where there are few of them, where each user of a closed loop
 * has a cursor, and of what comes through a pipe, which can be read only once.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/model/kv_load_internal.h"

#define KEPT (1u << 16) /* few: up to so many */

struct kv_burst_reader {
	struct trace_burst *in;
	uint64_t pass;
	struct kv_burst_clock clock;
	struct trace_request r; /* the last that was read */
	int error;
	struct penstock_err err;
};

/* Gaps between requests, divided; even a flood takes a microsecond per request. */
static void burst_tick(struct kv_burst_clock *c, const struct kv_load *l, double time_sec)
{
	double speed = l->p->trace_speedup, gap = time_sec - c->time_sec;

	if (c->nr && gap > 0 && speed > 0)
		c->sec += gap / speed;
	if (c->nr)
		c->offset_ns =
			min_u64(max_u64(kv_ns(c->sec), c->offset_ns + l->rec.step_ns), KV_NEVER);
	c->time_sec = time_sec;
	c->nr++;
}

/* ------------------------------------------------------------------------ reading */

static void burst_fail(struct kv_burst_reader *w, int code)
{
	w->error = code;
	w->clock.offset_ns = KV_NEVER;
}

static void reader_next(const struct kv_load *l, struct kv_burst_reader *w)
{
	int r = trace_burst_next(w->in, &w->r, &w->err);

	if (r == 1)
		burst_tick(&w->clock, l, w->r.time_sec);
	else
		burst_fail(w, r < 0 ? r
				    : penstock_fail(&w->err, -EIO,
						    "%s: has become shorter while it was read",
						    l->p->burst_path));
}

/* Cursors go forward only. */
static void reader_seek(const struct kv_load *l, struct kv_burst_reader *w,
			const struct kv_cursor *c)
{
	int r = w->in ? 0 : trace_burst_open(&w->in, l->p->burst_path, NULL, &w->err);

	if (r < 0) {
		burst_fail(w, r);
	} else if (w->pass != c->pass) {
		trace_burst_rewind(w->in);
		w->clock = (struct kv_burst_clock){.nr = 0};
		w->pass = c->pass;
	}
	while (!w->error && w->clock.nr <= c->conv)
		reader_next(l, w);
}

const struct trace_request *kv_burst_at(const struct kv_load *l, const struct kv_cursor *c,
					uint64_t *ret_offset_ns)
{
	const struct kv_recorded *v = &l->rec;

	if (v->v) {
		*ret_offset_ns = v->offset[c->conv];
		return &v->v[c->conv];
	}
	reader_seek(l, c->reader, c);
	*ret_offset_ns = c->reader->clock.offset_ns;
	return &c->reader->r;
}

int kv_burst_error(const struct kv_cursor *c, struct penstock_err *err)
{
	if (!c->reader || !c->reader->error)
		return 0;
	if (err)
		*err = c->reader->err;
	return c->reader->error;
}

/* ------------------------------------------------------------------------ loading */

static int burst_keep(struct kv_load *l, struct trace_bad *bad, struct penstock_err *err)
{
	struct kv_recorded *v = &l->rec;
	struct kv_burst_clock clock = {.nr = 0};
	int r = trace_burst_load(&v->v, &v->nr, l->p->burst_path, bad, err);

	if (r < 0 || !v->nr)
		return r;
	v->offset = calloc(v->nr, sizeof(*v->offset));
	if (!v->offset)
		return penstock_fail(err, -ENOMEM, "out of memory for %zu requests", v->nr);
	for (size_t i = 0; i < v->nr; i++) {
		burst_tick(&clock, l, v->v[i].time_sec);
		v->offset[i] = clock.offset_ns;
	}
	v->span_ns = clock.offset_ns + v->step_ns;
	return 0;
}

/* How many there are, and how long they take. */
static int burst_measure(struct kv_load *l, struct trace_burst *in, struct penstock_err *err)
{
	struct kv_burst_clock clock = {.nr = 0};
	struct trace_request t;
	int r;

	while ((r = trace_burst_next(in, &t, err)) == 1)
		burst_tick(&clock, l, t.time_sec);
	l->rec.nr = clock.nr;
	l->rec.span_ns = clock.offset_ns + l->rec.step_ns;
	return r;
}

int kv_burst_init(struct kv_load *l, struct penstock_err *err)
{
	struct kv_recorded *v = &l->rec;
	struct trace_burst *in;
	bool once;
	int r = trace_burst_open(&in, l->p->burst_path, &v->bad, err);

	if (r < 0)
		return r;
	once = l->p->closed_loop || !trace_burst_can_rewind(in);
	if (!once)
		r = burst_measure(l, in, err);
	trace_burst_close(in);
	if (once)
		r = burst_keep(l, &v->bad, err);
	else if (r == 0 && v->nr <= KEPT)
		r = burst_keep(l, NULL, err);
	v->nr_convs = (uint32_t)min_u64(v->nr, UINT32_MAX);
	return r;
}

int kv_burst_open_readers(struct kv_load *l)
{
	struct kv_recorded *v = &l->rec;

	if (v->v)
		return 0;
	v->readers = calloc(v->nr_cursors + 1, sizeof(*v->readers));
	if (!v->readers)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->nr_cursors; i++)
		v->cursor[i].reader = &v->readers[i];
	v->arrived.reader = &v->readers[v->nr_cursors];
	return 0;
}

void kv_burst_fini(struct kv_load *l)
{
	for (uint32_t i = 0; l->rec.readers && i <= l->rec.nr_cursors; i++)
		trace_burst_close(l->rec.readers[i].in);
	free(l->rec.readers);
	free(l->rec.offset);
}
