/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two steps, each done at most once in a process: finding the functions, and
 * cuInit().  What only looks at addresses needs the first alone, and takes it only
 * where somebody else has loaded the driver.
 */
#include "dl/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "base/util.h"
#include "dl/load.h"

static const char library[] = "libcuda.so.1";

static pthread_once_t load_once = PTHREAD_ONCE_INIT, init_once = PTHREAD_ONCE_INIT;
static struct penstock_cuda cuda;
static char reason[160];
static bool loaded, usable;

static void cuda_load(void)
{
	const struct penstock_dl_symbol symbols[] = {
		{"cuInit", (void **)&cuda.init, 0},
		{"cuDriverGetVersion", (void **)&cuda.driver_version, 0},
		{"cuGetErrorName", (void **)&cuda.error_name, 0},
		{"cuGetErrorString", (void **)&cuda.error_string, 0},
		{"cuDeviceGetCount", (void **)&cuda.device_count, 0},
		{"cuDeviceGet", (void **)&cuda.device_get, 0},
		{"cuDeviceGetName", (void **)&cuda.device_name, 0},
		{"cuDeviceGetAttribute", (void **)&cuda.device_attribute, 0},
		{"cuDeviceTotalMem_v2", (void **)&cuda.device_memory, 0},
		{"cuDeviceGetPCIBusId", (void **)&cuda.device_pci, 0},
		{"cuDevicePrimaryCtxRetain", (void **)&cuda.primary_retain, 0},
		{"cuDevicePrimaryCtxRelease_v2", (void **)&cuda.primary_release, 0},
		{"cuCtxGetCurrent", (void **)&cuda.ctx_current, 0},
		{"cuCtxSetCurrent", (void **)&cuda.ctx_set, 0},
		{"cuCtxPushCurrent_v2", (void **)&cuda.ctx_push, 0},
		{"cuCtxPopCurrent_v2", (void **)&cuda.ctx_pop, 0},
		{"cuPointerGetAttributes", (void **)&cuda.pointer_attributes, 0},
		{"cuMemHostRegister_v2", (void **)&cuda.host_register, 0},
		{"cuMemHostUnregister", (void **)&cuda.host_unregister, 0},
		{"cuMemAlloc_v2", (void **)&cuda.mem_alloc, 0},
		{"cuMemFree_v2", (void **)&cuda.mem_free, 0},
		{"cuMemGetInfo_v2", (void **)&cuda.mem_info, 0},
		{"cuMemcpyHtoDAsync_v2", (void **)&cuda.copy_to_device, 0},
		{"cuMemcpyDtoHAsync_v2", (void **)&cuda.copy_from_device, 0},
		{"cuMemcpyAsync", (void **)&cuda.copy, 0},
		{"cuStreamCreate", (void **)&cuda.stream_create, 0},
		{"cuStreamDestroy_v2", (void **)&cuda.stream_destroy, 0},
		{"cuStreamWaitEvent", (void **)&cuda.stream_wait, 0},
		{"cuStreamSynchronize", (void **)&cuda.stream_sync, 0},
		{"cuStreamQuery", (void **)&cuda.stream_query, 0},
		{"cuStreamGetCtx", (void **)&cuda.stream_ctx, 0},
		{"cuEventCreate", (void **)&cuda.event_create, 0},
		{"cuEventRecord", (void **)&cuda.event_record, 0},
		{"cuEventQuery", (void **)&cuda.event_query, 0},
		{"cuEventSynchronize", (void **)&cuda.event_sync, 0},
		{"cuEventDestroy_v2", (void **)&cuda.event_destroy, 0},
	};

	loaded = penstock_dl_load(library, symbols, ARRAY_SIZE(symbols), reason, sizeof(reason)) ==
		 0;
}

static void cuda_init(void)
{
	const char *text = NULL;
	int r;

	pthread_once(&load_once, cuda_load);
	if (!loaded)
		return;
	r = cuda.init(0);
	usable = r == CUDA_OK;
	if (usable)
		return;
	cuda.error_string(r, &text);
	snprintf(reason, sizeof(reason), "cuInit: %s: %s", penstock_cuda_name(r),
		 text ? text : "unknown");
}

const struct penstock_cuda *penstock_cuda(const char **why)
{
	pthread_once(&init_once, cuda_init);
	if (why)
		*why = reason;
	return usable ? &cuda : NULL;
}

/* How often anything was loaded into this process; one call for the first object is enough. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned long long *adds = arg;

	*adds = size >= offsetof(struct dl_phdr_info, dlpi_subs) ? info->dlpi_adds : 0;
	return 1;
}

/*
 * Every operation asks, and dl_iterate_phdr() takes the loader's lock, which all threads share:
 * once in a few milliseconds is enough.  Between the loading of the driver and the first memory of
 * a device lie its initialisation and a context, which take longer.
 */
static unsigned long long tick(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (unsigned long long)ts.tv_sec * 1000000000u + (unsigned long long)ts.tv_nsec;
}

const struct penstock_cuda *penstock_cuda_present(void)
{
	static atomic_bool found;
	static atomic_ullong looked_at; /* dlpi_adds when it was not there */
	static atomic_ullong asked_at;  /* and the tick of that */
	unsigned long long adds = 0, now;
	void *dl;

	if (!atomic_load_explicit(&found, memory_order_acquire)) {
		now = tick();
		if (now == atomic_load_explicit(&asked_at, memory_order_relaxed))
			return NULL;
		dl_iterate_phdr(count_loads, &adds);
		dl = adds && adds == atomic_load_explicit(&looked_at, memory_order_relaxed)
			     ? NULL
			     : dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
		if (!dl) {
			atomic_store_explicit(&looked_at, adds, memory_order_relaxed);
			atomic_store_explicit(&asked_at, now, memory_order_relaxed);
			return NULL;
		}
		pthread_once(&load_once, cuda_load);
		dlclose(dl); /* cuda_load() holds it, or found it too old */
		atomic_store_explicit(&found, true, memory_order_release);
	}
	return loaded ? &cuda : NULL;
}

int penstock_cuda_errno(int code)
{
	if (code == CUDA_OK)
		return 0;
	return code == CUDA_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

const char *penstock_cuda_name(int code)
{
	const char *name = NULL;

	if (!loaded || cuda.error_name(code, &name) != CUDA_OK || !name)
		return "an unknown CUDA error";
	return name;
}

int penstock_cuda_check(int code, const char *call, struct penstock_err *err)
{
	if (code == CUDA_OK)
		return 0;
	return penstock_fail(err, penstock_cuda_errno(code), "%s: %s", call,
			     penstock_cuda_name(code));
}
