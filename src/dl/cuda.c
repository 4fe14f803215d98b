/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/cuda.h"

#include <pthread.h>
#include <stdio.h>

#include "base/util.h"
#include "dl/load.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sluice_cuda cuda;
static char reason[160];
static bool usable;

static void load(void)
{
	const struct sluice_dl_symbol symbols[] = {
		{"cuInit", (void **)&cuda.init, 0},
		{"cuDriverGetVersion", (void **)&cuda.driver_version, 0},
		{"cuDeviceGetCount", (void **)&cuda.device_count, 0},
		{"cuDeviceGetName", (void **)&cuda.device_name, 0},
		{"cuGetErrorString", (void **)&cuda.error_string, 0},
	};
	const char *text = NULL;
	int r;

	if (sluice_dl_load("libcuda.so.1", symbols, ARRAY_SIZE(symbols), reason, sizeof(reason)) <
	    0)
		return;
	r = cuda.init(0);
	if (r != 0) {
		cuda.error_string(r, &text);
		snprintf(reason, sizeof(reason), "cuInit: error %d: %s", r,
			 text ? text : "unknown");
		return;
	}
	usable = true;
}

const struct sluice_cuda *sluice_cuda(const char **why)
{
	pthread_once(&once, load);
	if (why)
		*why = reason;
	return usable ? &cuda : NULL;
}
