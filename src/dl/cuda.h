/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_DL_CUDA_H
#define SLUICE_DL_CUDA_H

/*
 * The CUDA driver, loaded at run time: no toolkit is needed to build, no GPU to
 * start.  Only what we call is declared, as the driver API of CUDA 11 and later
 * has it; CUresult and CUdevice are int.
 */
struct sluice_cuda {
	int (*init)(unsigned flags);
	int (*driver_version)(int *version);
	int (*device_count)(int *count);
	int (*device_name)(char *name, int len, int device);
	int (*error_string)(int code, const char **text);
};

/*
 * The functions, once cuInit() has succeeded; or NULL, with *@why (may be NULL)
 * pointing to a reason that lives as long as the process.  The first call
 * loads libcuda.so.1 and may take a second; later ones cost nothing.
 */
const struct sluice_cuda *sluice_cuda(const char **why);

#endif
