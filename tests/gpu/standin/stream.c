/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, which are threads, and events.  See standin.h. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/standin/inner.h"

struct standin_event {
	CUcontext ctx;
	unsigned long recorded, done; /* how often */
	unsigned refs;
};

enum what { COPY, FILL, RECORD, WAIT, HOLD };

struct task {
	struct task *next;
	enum what what;
	char *to;
	const char *from;
	size_t len;
	int byte;
	CUevent event;
	unsigned long turn; /* of the event */
};

struct standin_stream {
	CUcontext ctx;
	pthread_t thread;
	struct task *tasks, **tail;
	unsigned long queued, done;
	bool ends;
	unsigned random;
};

/* Something happened on some stream. */
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static unsigned delay_us = 100;
static bool held;

void standin_delay_us(unsigned us)
{
	pthread_mutex_lock(&standin_lock);
	delay_us = us;
	pthread_mutex_unlock(&standin_lock);
}

/* ------------------------------------------------------------------ worker */

static void event_put(CUevent e)
{
	if (!--e->refs)
		free(e);
}

static void dawdle(struct standin_stream *s)
{
	unsigned us;

	pthread_mutex_lock(&standin_lock);
	s->random = s->random * 1103515245u + 12345u;
	us = delay_us ? (s->random >> 16) % delay_us : 0;
	pthread_mutex_unlock(&standin_lock);
	if (us)
		usleep(us);
	else
		sched_yield();
}

/* In two pieces, so that who looks in between sees half of it. */
static void move(struct standin_stream *s, const struct task *t)
{
	size_t half = t->len / 2;

	for (unsigned i = 0; i < 2; i++) {
		size_t from = i ? half : 0, n = i ? t->len - half : half;

		dawdle(s);
		if (t->what == COPY)
			memcpy(t->to + from, t->from + from, n);
		else
			memset(t->to + from, t->byte, n);
	}
}

/* Under the lock, which is given up meanwhile. */
static void carry_out(struct standin_stream *s, struct task *t)
{
	switch (t->what) {
	case COPY:
	case FILL:
		pthread_mutex_unlock(&standin_lock);
		move(s, t);
		pthread_mutex_lock(&standin_lock);
		break;
	case RECORD:
		t->event->done = t->turn;
		event_put(t->event);
		break;
	case WAIT:
		while (t->event->done < t->turn)
			pthread_cond_wait(&moved, &standin_lock);
		event_put(t->event);
		break;
	case HOLD:
		while (held)
			pthread_cond_wait(&moved, &standin_lock);
		break;
	}
	s->done++;
	pthread_cond_broadcast(&moved);
}

static void *stream_main(void *arg)
{
	struct standin_stream *s = arg;
	struct task *t;

	pthread_mutex_lock(&standin_lock);
	for (;;) {
		while (!s->tasks && !s->ends)
			pthread_cond_wait(&moved, &standin_lock);
		t = s->tasks;
		if (!t)
			break;
		carry_out(s, t);
		s->tasks = t->next;
		if (!s->tasks)
			s->tail = &s->tasks;
		free(t);
	}
	pthread_mutex_unlock(&standin_lock);
	return NULL;
}

static CUstream stream_new(CUcontext ctx)
{
	static atomic_uint nr;
	CUstream s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	s->ctx = ctx;
	s->tail = &s->tasks;
	s->random = ++nr;
	if (pthread_create(&s->thread, NULL, stream_main, s))
		abort();
	return s;
}

static void stream_end(CUstream s)
{
	pthread_mutex_lock(&standin_lock);
	s->ends = true;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&standin_lock);
	pthread_join(s->thread, NULL);
	free(s);
}

void standin_end_streams(CUcontext ctx)
{
	if (ctx->null_stream)
		stream_end(ctx->null_stream);
	ctx->null_stream = NULL;
}

/* A stream of the current context, NULL being its default one; NULL: not one of these. */
static CUstream resolve(CUstream s)
{
	CUcontext ctx = standin_context();

	if (!ctx || (s && s->ctx != ctx))
		return NULL;
	if (s)
		return s;
	pthread_mutex_lock(&standin_lock);
	if (!ctx->null_stream)
		ctx->null_stream = stream_new(ctx);
	s = ctx->null_stream;
	pthread_mutex_unlock(&standin_lock);
	return s;
}

/* Under the lock. */
static void push(CUstream s, struct task task)
{
	struct task *t = malloc(sizeof(*t));

	if (!t)
		abort();
	*t = task;
	t->next = NULL;
	*s->tail = t;
	s->tail = &t->next;
	s->queued++;
	if (t->event)
		t->event->refs++;
	pthread_cond_broadcast(&moved);
}

/* ----------------------------------------------------------------- streams */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	CUcontext ctx = standin_context();

	ENTER();
	if (!ctx)
		return standin_error(INVALID_CONTEXT);
	*stream = stream_new(ctx);
	pthread_mutex_lock(&standin_lock);
	standin_counts.streams++;
	standin_counts.blocking_streams += flags != 1;
	pthread_mutex_unlock(&standin_lock);
	return OK;
}

CUresult cuStreamDestroy_v2(CUstream s)
{
	CUresult r = standin_enter(__func__);

	if (!s)
		return standin_error(INVALID_HANDLE);
	stream_end(s);
	pthread_mutex_lock(&standin_lock);
	standin_counts.streams--;
	pthread_mutex_unlock(&standin_lock);
	return r;
}

CUresult cuStreamGetCtx(CUstream s, CUcontext *ctx)
{
	ENTER();
	*ctx = s ? s->ctx : standin_context();
	return *ctx ? OK : standin_error(INVALID_CONTEXT);
}

CUresult cuStreamQuery(CUstream stream)
{
	CUstream s;
	bool done;

	ENTER();
	s = resolve(stream);
	if (!s)
		return standin_error(INVALID_HANDLE);
	pthread_mutex_lock(&standin_lock);
	done = s->done == s->queued;
	pthread_mutex_unlock(&standin_lock);
	return done ? OK : NOT_READY;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	CUresult r = standin_enter(__func__);
	CUstream s = resolve(stream);
	unsigned long turn;

	if (!s)
		return standin_error(INVALID_HANDLE);
	pthread_mutex_lock(&standin_lock);
	turn = s->queued;
	while (s->done < turn)
		pthread_cond_wait(&moved, &standin_lock);
	pthread_mutex_unlock(&standin_lock);
	return r;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent e, unsigned flags)
{
	CUstream s = resolve(stream);

	(void)flags;
	ENTER();
	if (!s || !e)
		return standin_error(INVALID_HANDLE);
	pthread_mutex_lock(&standin_lock);
	push(s, (struct task){.what = WAIT, .event = e, .turn = e->recorded});
	pthread_mutex_unlock(&standin_lock);
	return OK;
}

/* ------------------------------------------------------------------ events */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
	CUcontext ctx = standin_context();

	(void)flags;
	ENTER();
	if (!ctx)
		return standin_error(INVALID_CONTEXT);
	*event = calloc(1, sizeof(**event));
	if (!*event)
		return OUT_OF_MEMORY;
	(*event)->ctx = ctx;
	(*event)->refs = 1;
	pthread_mutex_lock(&standin_lock);
	standin_counts.events++;
	pthread_mutex_unlock(&standin_lock);
	return OK;
}

CUresult cuEventDestroy_v2(CUevent e)
{
	CUresult r = standin_enter(__func__);

	if (!e)
		return standin_error(INVALID_HANDLE);
	pthread_mutex_lock(&standin_lock);
	standin_counts.events--;
	event_put(e);
	pthread_mutex_unlock(&standin_lock);
	return r;
}

CUresult cuEventRecord(CUevent e, CUstream stream)
{
	CUstream s = resolve(stream);

	ENTER();
	if (!s || !e || e->ctx != s->ctx)
		return standin_error(INVALID_HANDLE);
	pthread_mutex_lock(&standin_lock);
	e->recorded++;
	standin_counts.records++;
	push(s, (struct task){.what = RECORD, .event = e, .turn = e->recorded});
	pthread_mutex_unlock(&standin_lock);
	return OK;
}

CUresult cuEventQuery(CUevent e)
{
	bool done;

	ENTER();
	if (!e)
		return standin_error(INVALID_HANDLE);
	pthread_mutex_lock(&standin_lock);
	done = e->done == e->recorded;
	pthread_mutex_unlock(&standin_lock);
	return done ? OK : NOT_READY;
}

CUresult cuEventSynchronize(CUevent e)
{
	CUresult r = standin_enter(__func__);

	if (!e)
		return standin_error(INVALID_HANDLE);
	pthread_mutex_lock(&standin_lock);
	while (e->done != e->recorded)
		pthread_cond_wait(&moved, &standin_lock);
	pthread_mutex_unlock(&standin_lock);
	return r;
}

/* -------------------------------------------------------------------- work */

/* @inside: @host is the inside of a device, too. */
static CUresult queue_copy(CUstream stream, CUdeviceptr device, const void *host, bool inside,
			   bool to_device, size_t len)
{
	CUstream s = resolve(stream);
	struct task t = {.what = COPY, .len = len};
	struct alloc *a;

	if (!s)
		return standin_error(INVALID_HANDLE);
	pthread_mutex_lock(&standin_lock);
	a = standin_find(device, len);
	if (!a || a->device != s->ctx->device || standin_torn(host, len)) {
		pthread_mutex_unlock(&standin_lock);
		return standin_error(INVALID_VALUE);
	}
	standin_counts.copies++;
	standin_counts.unpinned += !inside && !standin_pinned(host, len);
	t.to = to_device ? a->hidden + (device - a->ptr) : (char *)(uintptr_t)host;
	t.from = to_device ? host : a->hidden + (device - a->ptr);
	if (!to_device)
		memset(t.to, 0xdb, len);
	push(s, t);
	pthread_mutex_unlock(&standin_lock);
	return OK;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t len, CUstream stream)
{
	ENTER();
	return queue_copy(stream, to, from, false, true, len);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t len, CUstream stream)
{
	ENTER();
	return queue_copy(stream, from, to, false, false, len);
}

/* What it is the addresses tell; from device to device, too. */
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t len, CUstream stream)
{
	void *inside = standin_hidden(from, len);

	ENTER();
	if (standin_hidden(to, len))
		return queue_copy(stream, to, inside ? inside : (void *)(uintptr_t)from, inside,
				  true, len);
	return queue_copy(stream, from, (void *)(uintptr_t)to, false, false, len);
}

CUresult standin_fill(CUdeviceptr to, int byte, size_t len, CUstream stream)
{
	CUstream s = resolve(stream);
	struct alloc *a;

	if (!s)
		return INVALID_HANDLE;
	pthread_mutex_lock(&standin_lock);
	a = standin_find(to, len);
	if (a)
		push(s, (struct task){.what = FILL,
				      .to = a->hidden + (to - a->ptr),
				      .byte = byte,
				      .len = len});
	pthread_mutex_unlock(&standin_lock);
	return a ? OK : INVALID_VALUE;
}

CUresult standin_hold(CUstream stream)
{
	CUstream s = resolve(stream);

	if (!s)
		return INVALID_HANDLE;
	pthread_mutex_lock(&standin_lock);
	held = true;
	push(s, (struct task){.what = HOLD});
	pthread_mutex_unlock(&standin_lock);
	return OK;
}

void standin_release(void)
{
	pthread_mutex_lock(&standin_lock);
	held = false;
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&standin_lock);
}
