/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_DL_CUDA_H
#define PENSTOCK_DL_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct penstock_err;

/*
 * The CUDA driver, loaded at run time: no toolkit is needed to build, no GPU to
 * start.  Only what we call is declared, as the driver API of CUDA 11 and later
 * has it; CUresult, CUdevice and the enums are int, CUdeviceptr is uint64_t,
 * CUcontext, CUstream and CUevent are pointers to what we never look into.
 */
struct penstock_cuda {
	int (*init)(unsigned flags);
	int (*driver_version)(int *version);
	int (*error_name)(int code, const char **name);
	int (*error_string)(int code, const char **text);

	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int len, int device);
	int (*device_attribute)(int *value, int attribute, int device);
	int (*device_memory)(size_t *bytes, int device);
	int (*device_pci)(char *id, int len, int device);

	int (*primary_retain)(void **ctx, int device);
	int (*primary_release)(int device);
	int (*ctx_current)(void **ctx);
	int (*ctx_set)(void *ctx);
	int (*ctx_push)(void *ctx);
	int (*ctx_pop)(void **ctx);

	int (*pointer_attributes)(unsigned n, int *attributes, void **data, uint64_t ptr);
	int (*host_register)(void *addr, size_t len, unsigned flags);
	int (*host_unregister)(void *addr);
	int (*mem_alloc)(uint64_t *ptr, size_t len);
	int (*mem_free)(uint64_t ptr);
	int (*mem_info)(size_t *free, size_t *total);

	int (*copy_to_device)(uint64_t to, const void *from, size_t len, void *stream);
	int (*copy_from_device)(void *to, uint64_t from, size_t len, void *stream);
	int (*copy)(uint64_t to, uint64_t from, size_t len, void *stream);

	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*stream_wait)(void *stream, void *event, unsigned flags);
	int (*stream_sync)(void *stream);
	int (*stream_query)(void *stream);
	int (*stream_ctx)(void *stream, void **ctx);
	int (*event_create)(void **event, unsigned flags);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_sync)(void *event);
	int (*event_destroy)(void *event);
};

/* Of cuda.h, those we use. */
enum {
	CUDA_OK = 0,
	CUDA_INVALID_VALUE = 1,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_NOT_INITIALIZED = 3,
	CUDA_DEINITIALIZED = 4,
	CUDA_NO_DEVICE = 100,
	CUDA_INVALID_DEVICE = 101,
	CUDA_INVALID_CONTEXT = 201,
	CUDA_ALREADY_REGISTERED = 712,
	CUDA_NOT_READY = 600,

	CUDA_STREAM_NON_BLOCKING = 1,
	CUDA_EVENT_BLOCKING_SYNC = 1,
	CUDA_EVENT_NO_TIMING = 2,
	CUDA_HOST_PORTABLE = 1,

	CUDA_POINTER_MEMORY_TYPE = 2,
	CUDA_POINTER_BUFFER_ID = 7,
	CUDA_POINTER_IS_MANAGED = 8,
	CUDA_POINTER_ORDINAL = 9,

	CUDA_MEMORY_HOST = 1,
	CUDA_MEMORY_DEVICE = 2,
};

/*
 * The functions, once cuInit() has succeeded; or NULL, with *@why (may be NULL)
 * pointing to a reason that lives as long as the process.  The first call
 * loads libcuda.so.1 and may take a second; later ones cost nothing.
 */
const struct penstock_cuda *penstock_cuda(const char **why);

/*
 * The functions if the process has libcuda.so.1 loaded already, whoever did it,
 * else NULL.  Loads and initialises nothing: there can be no device memory in a
 * process that has not, and transfers of host memory must not pay for CUDA.
 */
const struct penstock_cuda *penstock_cuda_present(void);

/* -ENOMEM or -EIO for a CUresult, 0 for success. */
int penstock_cuda_errno(int code);
/* "CUDA_ERROR_...", valid for the life of the process. */
const char *penstock_cuda_name(int code);
/* The two together: 0, or @err filled with "@call: CUDA_ERROR_...". */
int penstock_cuda_check(int code, const char *call, struct penstock_err *err);

#endif
