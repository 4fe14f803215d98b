/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory, as far as it does not concern blocks: questions to the driver, contexts
 * retained and given back, streams, and the events behind what is queued in them.  A call
 * that fails is kept by name and code; what must not be lost for it (an event that cannot be
 * recorded, a stream that cannot be asked) is replaced by waiting.
 */
#include "mem/device_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "dl/cuda.h"

int penstock_cuda_failure_set(struct penstock_cuda_failure *failure, const char *call, int code)
{
	if (code != CUDA_OK && failure && !failure->code)
		*failure = (struct penstock_cuda_failure){call, code};
	return penstock_cuda_errno(code);
}

/* ---------------------------------------------------------------- locations */

/* An address the driver does not know is the host's; so are all before cuInit(). */
static bool is_ignorance(int code)
{
	return code == CUDA_INVALID_VALUE || code == CUDA_NOT_INITIALIZED ||
	       code == CUDA_DEINITIALIZED || code == CUDA_NO_DEVICE ||
	       code == CUDA_INVALID_DEVICE || code == CUDA_INVALID_CONTEXT;
}

/*
 * After a fault in a kernel the driver may answer everything with that.  What the process
 * has in host memory can be saved all the same.
 */
static bool cpu_can_read(const void *addr)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)addr, 1};

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

/*
 * Asked for each transfer: memory is freed and addresses come back as something
 * else, and the answer takes about as long as looking it up in a cache would.
 */
struct penstock_mem_location penstock_mem_locate(const struct penstock_cuda *cuda, const void *addr,
						 struct penstock_cuda_failure *failure)
{
	int what[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED, CUDA_POINTER_ORDINAL};
	unsigned type = 0, managed = 0;
	int ordinal = -1;
	void *data[] = {&type, &managed, &ordinal};
	struct penstock_mem_location location = {-1, false};
	int r;

	r = cuda->pointer_attributes(ARRAY_SIZE(what), what, data, (uintptr_t)addr);
	if (r != CUDA_OK) {
		if (!is_ignorance(r) && !cpu_can_read(addr))
			penstock_cuda_failure_set(failure, "cuPointerGetAttributes", r);
		return location;
	}
	if (type != CUDA_MEMORY_DEVICE && !managed)
		return location;
	location.managed = managed;
	location.device = ordinal >= 0 && ordinal < PENSTOCK_GPUS_MAX ? (int16_t)ordinal : 0;
	return location;
}

/* ---------------------------------------------------------------- contexts */

void penstock_gpus_init(struct penstock_gpus *g)
{
	pthread_mutex_init(&g->lock, NULL);
}

void penstock_gpus_fini(struct penstock_gpus *g)
{
	for (int i = 0; i < PENSTOCK_GPUS_MAX; i++)
		if (g->ctx[i])
			g->cuda->primary_release(i);
	pthread_mutex_destroy(&g->lock);
}

int penstock_gpus_ctx(struct penstock_gpus *g, int device, void **ret_ctx,
		      struct penstock_cuda_failure *failure)
{
	int r = 0;

	pthread_mutex_lock(&g->lock);
	if (!g->cuda)
		g->cuda = penstock_cuda_present();
	if (!g->ctx[device])
		r = penstock_cuda_failure_set(failure, "cuDevicePrimaryCtxRetain",
					      g->cuda->primary_retain(&g->ctx[device], device));
	if (r < 0)
		g->ctx[device] = NULL;
	*ret_ctx = g->ctx[device];
	pthread_mutex_unlock(&g->lock);
	return r;
}

bool penstock_gpus_enter(struct penstock_gpus *g)
{
	for (int i = 0; i < PENSTOCK_GPUS_MAX; i++)
		if (g->ctx[i])
			return g->cuda->ctx_push(g->ctx[i]) == CUDA_OK;
	return false;
}

void penstock_gpus_leave(struct penstock_gpus *g)
{
	void *ctx;

	g->cuda->ctx_pop(&ctx);
}

/* ---------------------------------------------------------------- stream markers */

/* The context a stream belongs to; the default streams, 0 to 2, are of the current one. */
static int stream_ctx(struct penstock_gpus *g, const struct penstock_cuda *cuda, int device,
		      void *stream, void **ret_ctx, struct penstock_cuda_failure *failure)
{
	int r;

	if ((uintptr_t)stream > 2)
		return penstock_cuda_failure_set(failure, "cuStreamGetCtx",
						 cuda->stream_ctx(stream, ret_ctx));
	*ret_ctx = NULL;
	r = penstock_cuda_failure_set(failure, "cuCtxGetCurrent", cuda->ctx_current(ret_ctx));
	return r < 0 || *ret_ctx ? r : penstock_gpus_ctx(g, device, ret_ctx, failure);
}

static int record(struct penstock_stream_marker *o, void *ctx,
		  struct penstock_cuda_failure *failure)
{
	const struct penstock_cuda *cuda = o->cuda;
	int r;

	r = penstock_cuda_failure_set(failure, "cuCtxPushCurrent", cuda->ctx_push(ctx));
	if (r < 0)
		return r;
	/* Mostly nothing is queued, and to ask is cheaper than an event. */
	o->reached = cuda->stream_query(o->stream) == CUDA_OK;
	if (!o->reached)
		r = penstock_cuda_failure_set(failure, "cuEventCreate",
					      cuda->event_create(&o->event, CUDA_EVENT_NO_TIMING));
	if (!r && !o->reached) {
		r = penstock_cuda_failure_set(failure, "cuEventRecord",
					      cuda->event_record(o->event, o->stream));
		if (r < 0)
			cuda->event_destroy(o->event);
	}
	cuda->ctx_pop(&ctx);
	return r;
}

int penstock_stream_marker_new(struct penstock_stream_marker **out, struct penstock_gpus *g,
			       int device, void *stream, struct penstock_cuda_failure *failure)
{
	CLEANUP_FREE struct penstock_stream_marker *o = calloc(1, sizeof(*o));
	void *ctx;
	int r;

	if (!o)
		return -ENOMEM;
	o->cuda = penstock_cuda_present();
	o->refs = 1;
	o->id = atomic_fetch_add(&g->markers, 1) + 1;
	o->stream = stream;
	r = stream_ctx(g, o->cuda, device, stream, &ctx, failure);
	if (!r)
		r = record(o, ctx, failure);
	if (!r)
		*out = TAKE_PTR(o);
	return r;
}

void penstock_stream_marker_put(struct penstock_stream_marker *o)
{
	if (!o || atomic_fetch_sub(&o->refs, 1) > 1)
		return;
	if (o->event)
		o->cuda->event_destroy(o->event);
	free(o);
}

bool penstock_stream_marker_reached(struct penstock_stream_marker *o)
{
	if (!atomic_load(&o->reached) && o->cuda->event_query(o->event) == CUDA_OK)
		atomic_store(&o->reached, true);
	return atomic_load(&o->reached);
}

/* ---------------------------------------------------------------- copy streams */

int penstock_copy_stream_open(struct penstock_copy_stream *cs,
			      struct penstock_cuda_failure *failure)
{
	cs->tail = &cs->first;
	return penstock_cuda_failure_set(
		failure, "cuStreamCreate",
		cs->cuda->stream_create(&cs->stream, CUDA_STREAM_NON_BLOCKING));
}

static void free_marks(struct penstock_copy_stream *cs, struct penstock_copy_mark *m)
{
	struct penstock_copy_mark *next;

	for (; m; m = next) {
		next = m->next;
		if (m->event)
			cs->cuda->event_destroy(m->event);
		free(m);
	}
}

void penstock_copy_stream_close(struct penstock_copy_stream *cs)
{
	free_marks(cs, cs->first);
	free_marks(cs, cs->spare);
	cs->cuda->stream_destroy(cs->stream);
}

int penstock_copy_stream_wait(struct penstock_copy_stream *cs,
			      const struct penstock_stream_marker *o,
			      struct penstock_cuda_failure *failure)
{
	int r;

	if (cs->waited == o->id)
		return 0;
	r = penstock_cuda_failure_set(failure, "cuStreamWaitEvent",
				      cs->cuda->stream_wait(cs->stream, o->event, 0));
	if (!r)
		cs->waited = o->id;
	return r;
}

void penstock_copy_stream_drain(struct penstock_copy_stream *cs)
{
	/* It fails only with the context, and then nothing moves any more. */
	cs->cuda->stream_sync(cs->stream);
}

static struct penstock_copy_mark *mark_get(struct penstock_copy_stream *cs)
{
	struct penstock_copy_mark *m = cs->spare;

	if (!m)
		return calloc(1, sizeof(*m));
	cs->spare = m->next;
	m->failure = (struct penstock_cuda_failure){0};
	return m;
}

int penstock_copy_stream_mark(struct penstock_copy_stream *cs)
{
	const struct penstock_cuda *cuda = cs->cuda;
	struct penstock_copy_mark *m = mark_get(cs);
	int r = 0;

	if (!m)
		return -ENOMEM;
	if (!m->event)
		r = penstock_cuda_failure_set(&m->failure, "cuEventCreate",
					      cuda->event_create(&m->event, CUDA_EVENT_NO_TIMING));
	if (r < 0)
		m->event = NULL;
	else
		r = penstock_cuda_failure_set(&m->failure, "cuEventRecord",
					      cuda->event_record(m->event, cs->stream));
	if (r < 0)
		penstock_copy_stream_drain(cs);
	m->items = cs->open;
	cs->open = NULL;
	m->next = NULL;
	*cs->tail = m;
	cs->tail = &m->next;
	return 0;
}

void *penstock_copy_stream_reached(struct penstock_copy_stream *cs,
				   struct penstock_cuda_failure *failure)
{
	struct penstock_copy_mark *m = cs->first;
	int r;

	if (!m)
		return NULL;
	r = m->failure.code ? CUDA_OK : cs->cuda->event_query(m->event);
	if (r == CUDA_NOT_READY)
		return NULL;
	if (penstock_cuda_failure_set(&m->failure, "cuEventQuery", r) < 0)
		penstock_copy_stream_drain(cs);
	*failure = m->failure;
	cs->first = m->next;
	if (!cs->first)
		cs->tail = &cs->first;
	m->next = cs->spare;
	cs->spare = m;
	return m->items;
}
