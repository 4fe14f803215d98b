/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_STANDIN_H
#define PENSTOCK_TESTS_STANDIN_H

/*
 * A CUDA driver without a GPU, for tests: libcuda.so.1 with the functions the
 * library uses, written to catch what a real driver would let pass.
 *
 *  - Device memory is a mapping nobody may touch; behind it lies a second one of
 *    the same pages that only the copy functions use.  The CPU gets SIGSEGV there and
 *    the kernel EFAULT.
 *  - Each stream is a thread.  What is queued happens late, in pieces, and each
 *    stream at its own pace; the target of a copy to the host is spoiled until then.
 *  - A copy whose host memory is pinned only in part, or in two pieces, is refused.
 *  - A copy, a stream and an event must fit the current context, and the device of
 *    the memory; contexts are per thread, as with CUDA.
 *  - Any call can be made to fail; what is left undestroyed is counted.
 *
 * The declarations below are the driver's own where the name starts with cu.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STANDIN_DEVICES = 2 };

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef struct standin_ctx *CUcontext;
typedef struct standin_stream *CUstream;
typedef struct standin_event *CUevent;

CUresult cuInit(unsigned flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, int device);
CUresult cuDevicePrimaryCtxRelease_v2(int device);
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, int device);
CUresult cuCtxDestroy_v2(CUcontext ctx);
CUresult cuCtxGetCurrent(CUcontext *ctx);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuCtxPushCurrent_v2(CUcontext ctx);
CUresult cuCtxPopCurrent_v2(CUcontext *ctx);
CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t len);
CUresult cuMemFree_v2(CUdeviceptr ptr);
CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t len, unsigned flags);
CUresult cuMemHostRegister_v2(void *addr, size_t len, unsigned flags);
CUresult cuMemHostUnregister(void *addr);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr);
CUresult cuPointerGetAttributes(unsigned n, const int *attributes, void **data, CUdeviceptr ptr);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t len, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t len, CUstream stream);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t len, CUstream stream);

/* ----------------------------------------------------------------- control */

/*
 * The @nth call from now (1 is the next) of @function, or of any that can fail when
 * that is NULL, returns @code; with @for_good all later ones too.  Functions that
 * end something do so all the same.  nth 0 disarms.
 */
void standin_fail(const char *function, unsigned long nth, int code, bool for_good);
/* The function that was made to fail, NULL: none was. */
const char *standin_failed(void);

/* What there is now; the caller compares before and after. */
struct standin_count {
	unsigned streams, events, registrations, allocations, contexts; /* contexts: retained */
	unsigned long copies;           /* asynchronous ones, ever */
	unsigned long unpinned;         /* of these, with host memory nobody registered */
	unsigned long blocking_streams; /* created without CU_STREAM_NON_BLOCKING, ever */
	unsigned long records;          /* of events, ever */
	unsigned long attributes;       /* questions about addresses, ever */
	unsigned long errors;           /* calls that failed unasked, ever */
};
struct standin_count standin_count(void);

/* Called by who unregisters memory, before that is done; NULL: nothing is. */
void standin_on_unregister(void (*call)(void));

/* Device of the context that is current in the calling thread, -1: none is. */
int standin_current(void);
/* Contexts on the calling thread's stack. */
unsigned standin_depth(void);

/* The memory behind a device address, NULL unless all of it is one live allocation. */
void *standin_hidden(CUdeviceptr ptr, size_t len);
/* Its device, -1: none. */
int standin_ordinal(CUdeviceptr ptr);

/* Work on a stream: bytes are set when its turn comes. */
CUresult standin_fill(CUdeviceptr to, int byte, size_t len, CUstream stream);
/* Nothing behind this happens before standin_release(). */
CUresult standin_hold(CUstream stream);
void standin_release(void);
/* How long each step takes at most; 0: as fast as can be. */
void standin_delay_us(unsigned us);

#endif
