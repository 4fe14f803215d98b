/* SPDX-License-Identifier: Apache-2.0 */
/* Errors on demand, devices, contexts, memory.  See standin.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/standin/inner.h"

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
struct standin_count standin_counts;

static bool initialised;
static struct {
	const char *function;
	unsigned long nth;
	int code;
	bool for_good;
	const char *hit;
} fail;

static struct standin_ctx primary[STANDIN_DEVICES];
static struct alloc *allocs;
static struct registration {
	struct registration *next;
	char *addr;
	size_t len;
} * registrations;

enum { STACK = 16 };
static __thread CUcontext stack[STACK];
static __thread unsigned depth;

#define LOCKED(...)                                  \
	do {                                         \
		pthread_mutex_lock(&standin_lock);   \
		__VA_ARGS__;                         \
		pthread_mutex_unlock(&standin_lock); \
	} while (0)

/* ------------------------------------------------------------------ errors */

void standin_fail(const char *function, unsigned long nth, int code, bool for_good)
{
	LOCKED(fail.function = function; fail.nth = nth; fail.code = code; fail.for_good = for_good;
	       fail.hit = NULL);
}

const char *standin_failed(void)
{
	const char *hit;

	LOCKED(hit = fail.hit);
	return hit;
}

/* Under the lock. */
static CUresult injected(const char *function)
{
	if (fail.hit && fail.for_good && !strcmp(fail.hit, function))
		return fail.code;
	if (!fail.nth || (fail.function && strcmp(fail.function, function)) || --fail.nth)
		return OK;
	fail.hit = function;
	return fail.code;
}

CUresult standin_enter(const char *function)
{
	CUresult r;

	LOCKED(r = initialised ? injected(function) : NOT_INITIALIZED);
	return r;
}

CUresult standin_error(CUresult code)
{
	LOCKED(standin_counts.errors++);
	return code;
}

CUresult cuInit(unsigned flags)
{
	LOCKED(initialised = true);
	return flags ? INVALID_VALUE : OK;
}

CUresult cuDriverGetVersion(int *version);
CUresult cuDriverGetVersion(int *version)
{
	*version = 13000;
	return OK;
}

CUresult cuGetErrorName(CUresult code, const char **name);
CUresult cuGetErrorName(CUresult code, const char **name)
{
	static const struct {
		CUresult code;
		const char *name;
	} names[] = {
		{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
		{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
		{NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
		{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
		{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
		{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
		{NOT_READY, "CUDA_ERROR_NOT_READY"},
		{700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
		{ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
		{NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].code == code) {
			*name = names[i].name;
			return OK;
		}
	*name = NULL;
	return INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text);
CUresult cuGetErrorString(CUresult code, const char **text)
{
	return cuGetErrorName(code, text);
}

struct standin_count standin_count(void)
{
	struct standin_count c;

	LOCKED(c = standin_counts);
	return c;
}

/* ----------------------------------------------------------------- devices */

CUresult cuDeviceGetCount(int *n);
CUresult cuDeviceGetCount(int *n)
{
	ENTER();
	*n = STANDIN_DEVICES;
	return OK;
}

CUresult cuDeviceGet(int *device, int ordinal);
CUresult cuDeviceGet(int *device, int ordinal)
{
	ENTER();
	if (ordinal < 0 || ordinal >= STANDIN_DEVICES)
		return standin_error(INVALID_DEVICE);
	*device = ordinal;
	return OK;
}

CUresult cuDeviceGetName(char *name, int len, int device);
CUresult cuDeviceGetName(char *name, int len, int device)
{
	ENTER();
	if (device < 0 || device >= STANDIN_DEVICES)
		return standin_error(INVALID_DEVICE);
	snprintf(name, (size_t)len, "Stand-in %d", device);
	return OK;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, int device);
CUresult cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)attribute;
	(void)device;
	ENTER();
	*value = 1;
	return OK;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, int device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	ENTER();
	*bytes = (size_t)8 << 30;
	return OK;
}

CUresult cuMemGetInfo_v2(size_t *unused, size_t *total);
CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
	ENTER();
	*unused = (size_t)7 << 30;
	*total = (size_t)8 << 30;
	return OK;
}

CUresult cuDeviceGetPCIBusId(char *id, int len, int device);
CUresult cuDeviceGetPCIBusId(char *id, int len, int device)
{
	ENTER();
	snprintf(id, (size_t)len, "0000:%02x:00.0", device + 1);
	return OK;
}

/* ---------------------------------------------------------------- contexts */

CUcontext standin_context(void)
{
	CUcontext ctx = depth ? stack[depth - 1] : NULL;
	bool dead = true;

	if (ctx)
		LOCKED(dead = ctx->dead || (ctx->primary && !ctx->refs));
	return dead ? NULL : ctx;
}

int standin_current(void)
{
	CUcontext ctx = standin_context();

	return ctx ? ctx->device : -1;
}

unsigned standin_depth(void)
{
	return depth;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, int device)
{
	ENTER();
	if (device < 0 || device >= STANDIN_DEVICES)
		return standin_error(INVALID_DEVICE);
	LOCKED(primary[device].device = device; primary[device].primary = true;
	       primary[device].refs++; standin_counts.contexts++);
	*ctx = &primary[device];
	return OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(int device)
{
	CUresult r = standin_enter(__func__);
	unsigned refs;

	if (device < 0 || device >= STANDIN_DEVICES)
		return standin_error(INVALID_DEVICE);
	LOCKED(refs = primary[device].refs);
	if (!refs)
		return standin_error(INVALID_CONTEXT);
	if (refs == 1)
		standin_end_streams(&primary[device]);
	LOCKED(primary[device].refs--; standin_counts.contexts--);
	return r;
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, int device)
{
	(void)flags;
	ENTER();
	*ctx = calloc(1, sizeof(**ctx));
	(*ctx)->device = device;
	LOCKED(standin_counts.contexts++);
	return cuCtxPushCurrent_v2(*ctx);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	ENTER();
	if (depth && stack[depth - 1] == ctx)
		depth--;
	standin_end_streams(ctx);
	LOCKED(standin_counts.contexts--);
	free(ctx);
	return OK;
}

CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	ENTER();
	*ctx = depth ? stack[depth - 1] : NULL;
	return OK;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	ENTER();
	depth -= depth > 0;
	if (ctx)
		stack[depth++] = ctx;
	return OK;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	ENTER();
	if (!ctx || depth == STACK)
		return standin_error(INVALID_CONTEXT);
	stack[depth++] = ctx;
	return OK;
}

CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	CUresult r = standin_enter(__func__);

	if (!depth)
		return standin_error(INVALID_CONTEXT);
	depth--;
	if (ctx)
		*ctx = stack[depth];
	return r;
}

/* ------------------------------------------------------------------ memory */

struct alloc *standin_find(CUdeviceptr ptr, size_t len)
{
	struct alloc *a;

	for (a = allocs; a; a = a->next)
		if (ptr >= a->ptr && ptr - a->ptr <= a->len && len <= a->len - (ptr - a->ptr))
			break;
	return a;
}

void *standin_hidden(CUdeviceptr ptr, size_t len)
{
	struct alloc *a;
	void *at;

	LOCKED(a = standin_find(ptr, len); at = a ? a->hidden + (ptr - a->ptr) : NULL);
	return at;
}

int standin_ordinal(CUdeviceptr ptr)
{
	struct alloc *a;
	int device;

	LOCKED(a = standin_find(ptr, 1); device = a ? a->device : -1);
	return device;
}

/* Two mappings of the same pages, of which the first is handed out. */
static CUresult allocate(CUdeviceptr *ptr, size_t len, bool managed)
{
	CUcontext ctx = standin_context();
	struct alloc *a = calloc(1, sizeof(*a));
	int fd = memfd_create("standin", MFD_CLOEXEC);
	void *seen, *hidden;

	if (!ctx || !len || !a || fd < 0 || ftruncate(fd, (off_t)len) < 0) {
		free(a);
		close(fd);
		return standin_error(ctx ? OUT_OF_MEMORY : INVALID_CONTEXT);
	}
	seen = mmap(NULL, len, managed ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0);
	hidden = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (seen == MAP_FAILED || hidden == MAP_FAILED)
		abort();
	*a = (struct alloc){
		.ptr = (uintptr_t)seen, .len = len, .hidden = hidden, .managed = managed};
	LOCKED(static unsigned long ids; a->id = ++ids; a->device = ctx->device; a->next = allocs;
	       allocs = a; standin_counts.allocations++);
	*ptr = a->ptr;
	return OK;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t len)
{
	ENTER();
	return allocate(ptr, len, false);
}

CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t len, unsigned flags)
{
	(void)flags;
	ENTER();
	return allocate(ptr, len, true);
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	struct alloc **at, *a = NULL;

	ENTER();
	pthread_mutex_lock(&standin_lock);
	for (at = &allocs; *at && (*at)->ptr != ptr; at = &(*at)->next)
		;
	if (*at) {
		a = *at;
		*at = a->next;
		standin_counts.allocations--;
	}
	pthread_mutex_unlock(&standin_lock);
	if (!a)
		return standin_error(INVALID_VALUE);
	munmap((void *)(uintptr_t)a->ptr, a->len);
	munmap(a->hidden, a->len);
	free(a);
	return OK;
}

bool standin_pinned(const void *addr, size_t len)
{
	const char *at = addr;

	for (struct registration *r = registrations; r; r = r->next)
		if (at >= r->addr && at + len <= r->addr + r->len)
			return true;
	return false;
}

bool standin_torn(const void *addr, size_t len)
{
	const char *at = addr;

	for (struct registration *r = registrations; r; r = r->next)
		if (at < r->addr + r->len && r->addr < at + len)
			return at < r->addr || at + len > r->addr + r->len;
	return false;
}

CUresult cuMemHostRegister_v2(void *addr, size_t len, unsigned flags)
{
	struct registration *r;

	(void)flags;
	ENTER();
	if (!standin_context())
		return standin_error(INVALID_CONTEXT);
	r = calloc(1, sizeof(*r));
	if (!r)
		return OUT_OF_MEMORY;
	r->addr = addr;
	r->len = len;
	LOCKED(r->next = registrations; registrations = r; standin_counts.registrations++);
	return OK;
}

static void (*_Atomic unregistering)(void);

void standin_on_unregister(void (*call)(void))
{
	unregistering = call;
}

CUresult cuMemHostUnregister(void *addr)
{
	CUresult code = standin_enter(__func__);
	struct registration **at, *r;
	void (*call)(void) = unregistering;

	if (call)
		call();
	if (!standin_context())
		return standin_error(INVALID_CONTEXT);
	pthread_mutex_lock(&standin_lock);
	for (at = &registrations; *at && (*at)->addr != addr; at = &(*at)->next)
		;
	r = *at;
	if (r) {
		*at = r->next;
		standin_counts.registrations--;
	}
	pthread_mutex_unlock(&standin_lock);
	free(r);
	return r ? code : standin_error(NOT_REGISTERED);
}

/* Under the lock.  A plain address of the host's has type 0, as the driver says it. */
static CUresult attribute_of(void *data, int attribute, CUdeviceptr ptr)
{
	struct alloc *a = standin_find(ptr, 1);
	bool pinned = !a && standin_pinned((void *)(uintptr_t)ptr, 1);

	switch (attribute) {
	case 2:
		*(unsigned *)data = a ? 2 : pinned;
		return OK;
	case 7:
		*(unsigned long long *)data = a ? a->id : 0;
		return OK;
	case 8:
		*(unsigned *)data = a && a->managed;
		return OK;
	case 9:
		*(int *)data = a ? a->device : pinned ? 0 : -2;
		return OK;
	default:
		return INVALID_VALUE;
	}
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr)
{
	CUresult r;

	ENTER();
	LOCKED(standin_counts.attributes++; r = attribute_of(data, attribute, ptr);
	       if (!standin_find(ptr, 1) && !standin_pinned((void *)(uintptr_t)ptr, 1)) r =
		       INVALID_VALUE);
	return r;
}

CUresult cuPointerGetAttributes(unsigned n, const int *attributes, void **data, CUdeviceptr ptr)
{
	CUresult r = OK;

	ENTER();
	LOCKED(standin_counts.attributes++);
	for (unsigned i = 0; i < n && !r; i++)
		LOCKED(r = attribute_of(data[i], attributes[i], ptr));
	return r;
}
