/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two steps, each done at most once in a process: finding the functions, and opening the
 * driver, which only transfers of device memory need.
 */
#include "dl/cufile.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "dl/cuda.h"
#include "dl/load.h"

static pthread_once_t once = PTHREAD_ONCE_INIT, open_once = PTHREAD_ONCE_INIT;
static struct penstock_cufile cufile;
static char reason[160];
static bool usable;
static struct penstock_cufile_driver driver;
static struct penstock_err open_err;

static void cufile_load(void)
{
	const struct penstock_dl_symbol symbols[] = {
		{"cuFileGetVersion", (void **)&cufile.version, 1},
		{"cuFileDriverOpen", (void **)&cufile.driver_open, 0},
		{"cuFileDriverGetProperties", (void **)&cufile.properties, 0},
		{"cuFileHandleRegister", (void **)&cufile.handle_register, 0},
		{"cuFileHandleDeregister", (void **)&cufile.handle_deregister, 0},
		{"cuFileBufRegister", (void **)&cufile.buf_register, 0},
		{"cuFileBufDeregister", (void **)&cufile.buf_deregister, 0},
		{"cuFileRead", (void **)&cufile.read, 0},
		{"cuFileWrite", (void **)&cufile.write, 0},
	};

	usable = penstock_dl_load("libcufile.so.0", symbols, ARRAY_SIZE(symbols), reason,
				  sizeof(reason)) == 0;
}

const struct penstock_cufile *penstock_cufile(const char **why)
{
	pthread_once(&once, cufile_load);
	if (why)
		*why = reason;
	return usable ? &cufile : NULL;
}

/*
 * Opening the driver puts a log into the current directory, which is not ours to write to.
 * Its parameters for the log change nothing (1.15); this variable does, and is looked at
 * now only.  A user who wants the log sets it to a name.
 */
static struct penstock_cufile_error open_without_log(void)
{
	static const char name[] = "CUFILE_LOGFILE_PATH";
	bool ours = !getenv(name) && setenv(name, "/dev/null", 0) == 0;
	struct penstock_cufile_error e = cufile.driver_open();

	if (ours)
		unsetenv(name);
	return e;
}

static void open_driver(void)
{
	struct penstock_cufile_props props;
	struct penstock_cufile_error e;
	const char *why;

	if (!penstock_cufile(&why)) {
		penstock_fail(&open_err, -ENOTSUP, "%s", why);
		return;
	}
	e = open_without_log();
	if (e.err != CUFILE_DRIVER_ALREADY_OPEN &&
	    penstock_cufile_check(e, "cuFileDriverOpen", &open_err) < 0)
		return;
	memset(&props, 0, sizeof(props));
	if (cufile.properties(&props).err != 0)
		return; /* nothing is known: everything counts as compatibility mode */
	driver.nvfs_major = props.nvfs.major;
	driver.nvfs_minor = props.nvfs.minor;
	driver.direct = props.nvfs.major || (props.features & CUFILE_FEATURE_P2P);
}

int penstock_cufile_open(struct penstock_cufile_driver *ret_driver, struct penstock_err *err)
{
	pthread_once(&open_once, open_driver);
	if (open_err.code < 0)
		return penstock_fail(err, open_err.code, "%s", open_err.msg);
	*ret_driver = driver;
	return 0;
}

/* From 5001 on; those without a name were never given away. */
static const char *const names[] = {
	"CU_FILE_DRIVER_NOT_INITIALIZED",
	"CU_FILE_DRIVER_INVALID_PROPS",
	"CU_FILE_DRIVER_UNSUPPORTED_LIMIT",
	"CU_FILE_DRIVER_VERSION_MISMATCH",
	"CU_FILE_DRIVER_VERSION_READ_ERROR",
	"CU_FILE_DRIVER_CLOSING",
	"CU_FILE_PLATFORM_NOT_SUPPORTED",
	"CU_FILE_IO_NOT_SUPPORTED",
	"CU_FILE_DEVICE_NOT_SUPPORTED",
	"CU_FILE_NVFS_DRIVER_ERROR",
	"CU_FILE_CUDA_DRIVER_ERROR",
	"CU_FILE_CUDA_POINTER_INVALID",
	"CU_FILE_CUDA_MEMORY_TYPE_INVALID",
	"CU_FILE_CUDA_POINTER_RANGE_ERROR",
	"CU_FILE_CUDA_CONTEXT_MISMATCH",
	"CU_FILE_INVALID_MAPPING_SIZE",
	"CU_FILE_INVALID_MAPPING_RANGE",
	"CU_FILE_INVALID_FILE_TYPE",
	"CU_FILE_INVALID_FILE_OPEN_FLAG",
	"CU_FILE_DIO_NOT_SET",
	NULL,
	"CU_FILE_INVALID_VALUE",
	"CU_FILE_MEMORY_ALREADY_REGISTERED",
	"CU_FILE_MEMORY_NOT_REGISTERED",
	"CU_FILE_PERMISSION_DENIED",
	"CU_FILE_DRIVER_ALREADY_OPEN",
	"CU_FILE_HANDLE_NOT_REGISTERED",
	"CU_FILE_HANDLE_ALREADY_REGISTERED",
	"CU_FILE_DEVICE_NOT_FOUND",
	"CU_FILE_INTERNAL_ERROR",
	"CU_FILE_GETNEWFD_FAILED",
	NULL,
	"CU_FILE_NVFS_SETUP_ERROR",
	"CU_FILE_IO_DISABLED",
	"CU_FILE_BATCH_SUBMIT_FAILED",
	"CU_FILE_GPU_MEMORY_PINNING_FAILED",
	"CU_FILE_BATCH_FULL",
	"CU_FILE_ASYNC_NOT_SUPPORTED",
};

const char *penstock_cufile_name(int code)
{
	unsigned i = (unsigned)(code - CUFILE_BASE_ERROR - 1);

	return code > CUFILE_BASE_ERROR && i < ARRAY_SIZE(names) && names[i]
		       ? names[i]
		       : "an unknown cuFile error";
}

int penstock_cufile_check(struct penstock_cufile_error e, const char *call,
			  struct penstock_err *err)
{
	if (e.err == 0)
		return 0;
	if (e.err == CUFILE_CUDA_DRIVER_ERROR)
		return penstock_fail(err, -EIO, "%s: %s (%d): %s", call,
				     penstock_cufile_name(e.err), e.err,
				     penstock_cuda_name(e.cu_err));
	return penstock_fail(err, -EIO, "%s: %s (%d)", call, penstock_cufile_name(e.err), e.err);
}
