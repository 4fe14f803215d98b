/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_DL_CUFILE_H
#define SLUICE_DL_CUFILE_H

/* cuFile (GPUDirect Storage), loaded at run time like dl/cuda.h. */

/* CUfileError_t: two enums, returned by value. */
struct sluice_cufile_error {
	int err;
	int cu_err;
};

struct sluice_cufile {
	struct sluice_cufile_error (*version)(int *version); /* NULL before cuFile 1.8 */
};

/*
 * The functions, or NULL with the reason in *@why.  Loads libcufile.so.0; does
 * not open its driver, which starts threads, pins memory and writes a log file.
 */
const struct sluice_cufile *sluice_cufile(const char **why);

#endif
