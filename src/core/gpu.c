/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for programs without CUDA of their own. */
#include <penstock/gpu.h>

#include <errno.h>

#include "base/err.h"
#include "base/util.h"
#include "core/gpu.h"

int gpu_find(struct gpu *g, unsigned device, struct penstock_err *err)
{
	const char *why;
	int n = 0;

	g->cuda = penstock_cuda(&why);
	if (!g->cuda)
		return penstock_fail(err, -ENOTSUP, "no GPU memory: %s", why);
	if (g->cuda->device_count(&n) != CUDA_OK || device >= (unsigned)n)
		return penstock_fail(err, -ENODEV,
				     "no GPU memory: device %u: there %s %d CUDA device%s", device,
				     n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
	return penstock_cuda_check(g->cuda->device_get(&g->device, (int)device), "cuDeviceGet",
				   err);
}

int gpu_enter(struct gpu *g, unsigned device, struct penstock_err *err)
{
	int r = gpu_find(g, device, err);

	if (r == 0)
		r = penstock_cuda_check(g->cuda->primary_retain(&g->context, g->device),
					"cuDevicePrimaryCtxRetain", err);
	if (r < 0)
		return r;
	r = penstock_cuda_check(g->cuda->ctx_push(g->context), "cuCtxPushCurrent", err);
	if (r < 0)
		g->cuda->primary_release(g->device);
	return r;
}

void gpu_leave(struct gpu *g)
{
	g->cuda->ctx_pop(&g->context);
	g->cuda->primary_release(g->device);
}

/* The device that has this memory, or -errno; CUDA must be there for it to have any. */
static int device_of(const void *addr)
{
	const struct penstock_cuda *cuda = penstock_cuda_present();
	int what[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_ORDINAL};
	unsigned type = 0;
	int ordinal = -1;
	void *data[] = {&type, &ordinal};

	/* Asked in this way, an address that the driver does not know is no error. */
	if (!cuda ||
	    cuda->pointer_attributes(ARRAY_SIZE(what), what, data, (uintptr_t)addr) != CUDA_OK ||
	    type != CUDA_MEMORY_DEVICE || ordinal < 0)
		return -EINVAL;
	return ordinal;
}

int penstock_gpu_device(const void *addr)
{
	int device = device_of(addr);

	return device < 0 ? -ENOENT : device;
}

int penstock_gpu_alloc(void **out, unsigned device, uint64_t len, struct penstock_err *err)
{
	struct gpu g;
	uint64_t ptr;
	int r = gpu_enter(&g, device, err);

	if (r < 0)
		return r;
	r = penstock_cuda_check(g.cuda->mem_alloc(&ptr, max_u64(len, 1)), "cuMemAlloc", err);
	if (r < 0) {
		gpu_leave(&g);
		return r;
	}
	g.cuda->ctx_pop(&g.context); /* it lives as long as the memory */
	*out = (void *)(uintptr_t)ptr;
	return 0;
}

int penstock_gpu_free(void *addr)
{
	struct gpu g;
	int device, r;

	if (!addr)
		return 0;
	device = device_of(addr);
	if (device < 0)
		return device;
	r = gpu_enter(&g, (unsigned)device, NULL);
	if (r < 0)
		return r;
	r = penstock_cuda_errno(g.cuda->mem_free((uint64_t)(uintptr_t)addr));
	if (r == 0)
		g.cuda->primary_release(g.device);
	gpu_leave(&g);
	return r;
}

int penstock_gpu_copy(void *to, const void *from, uint64_t len, struct penstock_err *err)
{
	int device = device_of(to), r;
	struct gpu g;
	void *stream;

	if (!len)
		return 0;
	if (device < 0)
		device = device_of(from);
	if (device < 0)
		return penstock_fail(err, -EINVAL, "to, from: neither is device memory");
	r = gpu_enter(&g, (unsigned)device, err);
	if (r < 0)
		return r;
	r = penstock_cuda_check(g.cuda->stream_create(&stream, CUDA_STREAM_NON_BLOCKING),
				"cuStreamCreate", err);
	if (r == 0) {
		r = penstock_cuda_check(g.cuda->copy((uint64_t)(uintptr_t)to,
						     (uint64_t)(uintptr_t)from, len, stream),
					"cuMemcpyAsync", err);
		if (r == 0)
			r = penstock_cuda_check(g.cuda->stream_sync(stream), "cuStreamSynchronize",
						err);
		g.cuda->stream_destroy(stream);
	}
	gpu_leave(&g);
	return r;
}

/* Pinned memory belongs to the context of the first device, which lives as long as it does. */
int penstock_gpu_pin(void *addr, uint64_t len, struct penstock_err *err)
{
	struct gpu g;
	int r = gpu_enter(&g, 0, err);

	if (r < 0)
		return r;
	r = penstock_cuda_check(g.cuda->host_register(addr, len, CUDA_HOST_PORTABLE),
				"cuMemHostRegister", err);
	if (r < 0)
		gpu_leave(&g);
	else
		g.cuda->ctx_pop(&g.context);
	return r;
}

int penstock_gpu_unpin(void *addr)
{
	struct gpu g;
	int r = gpu_enter(&g, 0, NULL);

	if (r < 0)
		return r;
	r = penstock_cuda_errno(g.cuda->host_unregister(addr));
	if (r == 0)
		g.cuda->primary_release(g.device);
	gpu_leave(&g);
	return r;
}
