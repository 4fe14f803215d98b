/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_GPU_H
#define PENSTOCK_GPU_H

#include <penstock/penstock.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Device memory for programs that have no CUDA of their own, as the command `penstock`.
 * Others use the memory they have: every operation takes it as it is.
 */

/*
 * @len bytes of the memory of CUDA device @device, in its primary context, which is
 * kept alive until penstock_gpu_free().  Returns 0, or
 *   -ENOTSUP	there is no CUDA driver, or it does not work
 *   -ENODEV	there is no such device
 *   -ENOMEM	the device has no more memory
 */
PENSTOCK_API int penstock_gpu_alloc(void **out, unsigned device, uint64_t len,
				    struct penstock_err *err);

/* Free memory of penstock_gpu_alloc() that no operation uses.  NULL is allowed. */
PENSTOCK_API int penstock_gpu_free(void *addr);

/*
 * The CUDA device whose memory @addr is in, or -ENOENT: it is host memory.  Costs nothing where
 * no CUDA driver is in use.
 */
PENSTOCK_API int penstock_gpu_device(const void *addr);

/*
 * Copy @len bytes, at least one side of which is device memory; done on return.  Host
 * memory that is pinned is copied several times as fast.
 */
PENSTOCK_API int penstock_gpu_copy(void *to, const void *from, uint64_t len,
				   struct penstock_err *err);

/*
 * Pin host memory for copies to and from every device, until penstock_gpu_unpin() of the
 * same address; it must stay mapped until then.  Returns 0, -ENOTSUP or -ENODEV as
 * above, or -ENOMEM where a limit refuses it.
 */
PENSTOCK_API int penstock_gpu_pin(void *addr, uint64_t len, struct penstock_err *err);
PENSTOCK_API int penstock_gpu_unpin(void *addr);

#ifdef __cplusplus
}
#endif
#endif
