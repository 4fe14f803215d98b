/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_GPU_H
#define PENSTOCK_CORE_GPU_H

#include "dl/cuda.h"

/* The calling thread in a device's primary context, for a while. */
struct gpu {
	const struct penstock_cuda *cuda;
	int device;
	void *context;
};

/* The driver and a device of it; the one place that says why there is no GPU memory. */
int gpu_find(struct gpu *g, unsigned device, struct penstock_err *err);
/* Retain the context and make it current; what was current before is so again after leaving. */
int gpu_enter(struct gpu *g, unsigned device, struct penstock_err *err);
void gpu_leave(struct gpu *g);

#endif
