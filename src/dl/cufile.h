/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_DL_CUFILE_H
#define PENSTOCK_DL_CUFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct penstock_err;

/*
 * cuFile (GPUDirect Storage), loaded at run time like dl/cuda.h.  Only what we call
 * is declared, as libcufile.so.0 of CUDA 11.4 and later has it.
 */

/* CUfileError_t: two enums, returned by value. */
struct penstock_cufile_error {
	int err;    /* CUfileOpError, 0: success */
	int cu_err; /* CUresult, where err is CUFILE_CUDA_DRIVER_ERROR */
};

/* CUfileDescr_t */
struct penstock_cufile_descr {
	int type; /* CUFILE_TYPE_FD */
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops;
};

/* CUfileDrvProps_t; a newer library may know more fields than we do. */
struct penstock_cufile_props {
	struct {
		unsigned major, minor; /* of the nvidia-fs module; 0 where it is not in use */
		size_t poll_thresh_size;
		size_t max_direct_io_size;
		unsigned status;
		unsigned control;
	} nvfs;
	unsigned features;
	unsigned max_device_cache_size;
	unsigned per_buffer_cache_size;
	unsigned max_device_pinned_mem_size;
	unsigned max_batch_io_size;
	unsigned max_batch_io_timeout_msecs;
	unsigned newer[64];
};

struct penstock_cufile {
	struct penstock_cufile_error (*version)(int *version); /* NULL before cuFile 1.8 */
	struct penstock_cufile_error (*driver_open)(void);
	struct penstock_cufile_error (*properties)(struct penstock_cufile_props *props);
	struct penstock_cufile_error (*handle_register)(void **handle,
							struct penstock_cufile_descr *descr);
	void (*handle_deregister)(void *handle);
	struct penstock_cufile_error (*buf_register)(const void *base, size_t len, int flags);
	struct penstock_cufile_error (*buf_deregister)(const void *base);
	/* Bytes, -1 with errno, or a negative CUfileOpError. */
	ssize_t (*read)(void *handle, void *base, size_t len, off_t file_off, off_t base_off);
	ssize_t (*write)(void *handle, const void *base, size_t len, off_t file_off,
			 off_t base_off);
	/* NULL before cuFile 1.14. */
};

/* Of cufile.h, those we use. */
enum {
	CUFILE_BASE_ERROR = 5000, /* error numbers begin above */
	CUFILE_CUDA_DRIVER_ERROR = 5011,
	CUFILE_MEMORY_ALREADY_REGISTERED = 5023,
	CUFILE_DRIVER_ALREADY_OPEN = 5026,
	CUFILE_HANDLE_NOT_REGISTERED = 5027,

	CUFILE_TYPE_FD = 1,
	CUFILE_FEATURE_P2P = 1 << 4, /* PCI peer-to-peer by the kernel, without nvidia-fs */
};

/* What the driver says once it is open. */
struct penstock_cufile_driver {
	unsigned nvfs_major, nvfs_minor;
	bool direct; /* can bypass the host's memory; else everything is in compatibility mode */
};

/*
 * The functions, or NULL with the reason in *@why.  Loads libcufile.so.0; does
 * not open its driver, which starts threads, pins memory and writes a log file.
 */
const struct penstock_cufile *penstock_cufile(const char **why);

/*
 * Open the driver, once in a process, and ask what it can do.  It is never closed:
 * others in the process may use it, and the library does so at exit.
 */
int penstock_cufile_open(struct penstock_cufile_driver *ret_driver, struct penstock_err *err);

/* "CU_FILE_...", valid for the life of the process. */
const char *penstock_cufile_name(int code);
/* 0, or -errno with @err filled: "@call: CU_FILE_... (5027)". */
int penstock_cufile_check(struct penstock_cufile_error e, const char *call,
			  struct penstock_err *err);

#endif
