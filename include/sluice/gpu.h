/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_GPU_H
#define SLUICE_GPU_H

#include <sluice/sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Device memory for programs that have no CUDA of their own, as the command `sluice`.
 * Others use the memory they have: every operation takes it as it is.
 */

/*
 * @len bytes of the memory of CUDA device @device, in its primary context, which is
 * kept alive until sluice_gpu_free().  Returns 0, or
 *   -ENOTSUP	there is no CUDA driver, or it does not work
 *   -ENODEV	there is no such device
 *   -ENOMEM	the device has no more memory
 */
SLUICE_API int sluice_gpu_alloc(void **out, unsigned device, uint64_t len, struct sluice_err *err);

/* Free memory of sluice_gpu_alloc() that no operation uses.  NULL is allowed. */
SLUICE_API int sluice_gpu_free(void *addr);

/*
 * The CUDA device whose memory @addr is in, or -ENOENT: it is host memory.  Costs nothing where
 * no CUDA driver is in use.
 */
SLUICE_API int sluice_gpu_device(const void *addr);

/*
 * Copy @len bytes, at least one side of which is device memory; done on return.  Host
 * memory that is pinned is copied several times as fast.
 */
SLUICE_API int sluice_gpu_copy(void *to, const void *from, uint64_t len, struct sluice_err *err);

/*
 * Pin host memory for copies to and from every device, until sluice_gpu_unpin() of the
 * same address; it must stay mapped until then.  Returns 0, -ENOTSUP or -ENODEV as
 * above, or -ENOMEM where a limit refuses it.
 */
SLUICE_API int sluice_gpu_pin(void *addr, uint64_t len, struct sluice_err *err);
SLUICE_API int sluice_gpu_unpin(void *addr);

#ifdef __cplusplus
}
#endif
#endif
