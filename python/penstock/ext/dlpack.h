/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_PYTHON_DLPACK_H
#define PENSTOCK_PYTHON_DLPACK_H

/*
 * Our own prototypes of DLPack, the common description of arrays: what a capsule named
 * "dltensor" or, from version 1.0 on, "dltensor_versioned" points to.
 * https://dmlc.github.io/dlpack/latest/c_api.html
 */
#include <stdint.h>

enum dl_device_type {
	DL_CPU = 1,
	DL_CUDA = 2,
	DL_CUDA_HOST = 3, /* pinned, but the host's */
	DL_ROCM_HOST = 11,
	DL_CUDA_MANAGED = 13,
};

enum dl_type_code {
	DL_OPAQUE_HANDLE = 3, /* pointers to something */
};

enum { DL_MAJOR = 1 }; /* of dl_managed_versioned; another one has another layout */

#define DL_FLAG_READ_ONLY 0x1u
#define DL_FLAG_IS_COPIED 0x2u

struct dl_tensor {
	void *data;
	struct {
		int32_t type;
		int32_t id;
	} device;
	int32_t ndim;
	struct {
		uint8_t code;
		uint8_t bits;
		uint16_t lanes;
	} dtype;
	int64_t *shape;
	int64_t *strides; /* in elements; NULL: C order without gaps */
	uint64_t byte_offset;
};

struct dl_managed {
	struct dl_tensor tensor;
	void *manager_ctx;
	void (*deleter)(struct dl_managed *self);
};

struct dl_managed_versioned {
	struct {
		uint32_t major;
		uint32_t minor;
	} version;
	void *manager_ctx;
	void (*deleter)(struct dl_managed_versioned *self);
	uint64_t flags;
	struct dl_tensor tensor;
};

#endif
