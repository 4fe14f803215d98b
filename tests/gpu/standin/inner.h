/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_STANDIN_INNER_H
#define PENSTOCK_TESTS_STANDIN_INNER_H

/* What the files of the stand-in share. */
#include <pthread.h>

#include "tests/gpu/standin/standin.h"

enum {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	INVALID_HANDLE = 400,
	NOT_READY = 600,
	ALREADY_REGISTERED = 712,
	NOT_REGISTERED = 713,
};

struct standin_ctx {
	int device;
	unsigned refs; /* of a primary one */
	bool primary, dead;
	CUstream null_stream;
};

struct alloc {
	struct alloc *next;
	CUdeviceptr ptr;
	size_t len;
	char *hidden;
	int device;
	bool managed;
	unsigned long id;
};

/* One lock for all: a stand-in need not be fast. */
extern pthread_mutex_t standin_lock;
extern struct standin_count standin_counts;

/* The code this call must return, or OK.  Also NOT_INITIALIZED before cuInit(). */
CUresult standin_enter(const char *function);
/* A mistake of the caller's. */
CUresult standin_error(CUresult code);

CUcontext standin_context(void);
/* Under the lock: the allocation that holds all of the range, or NULL. */
struct alloc *standin_find(CUdeviceptr ptr, size_t len);
/* Under the lock: has somebody registered all of it? */
bool standin_pinned(const void *addr, size_t len);

/* Under the lock: is only part of it in what somebody registered at once? */
bool standin_torn(const void *addr, size_t len);

/* The context is going: end its default stream. */
void standin_end_streams(CUcontext ctx);

#define ENTER()                                           \
	do {                                              \
		CUresult fail_ = standin_enter(__func__); \
		if (fail_)                                \
			return fail_;                     \
	} while (0)

#endif
