/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_GEN_H
#define SLUICE_GEN_H

#include <sluice/sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Content for tests and benchmarks: made at more than the speed of a drive, and known again
 * wherever it is read.  Byte @offset of object @object is a function of (seed, object, offset)
 * and of the two ratios, alone: any range can be made or checked by itself, in any
 * order, by any number of threads.
 *
 * @dedup says how many blocks of 4 KiB there are for each different one: of the first N blocks of
 * an object N / dedup are different.  Copies are as far apart as they can be.  @compress is
 * the ratio zstd finds in what is left: in every block there are runs of one
 * byte.  Both are kept within 2 %.
 */
struct sluice_gen;

/*
 * A ratio of 1 means none; 0 is taken for 1.  Returns 0, -ENOMEM, or -EINVAL with what is
 * possible: dedup up to 1000, compress up to 16.
 */
SLUICE_API int sluice_gen_open(struct sluice_gen **out, uint64_t seed, double dedup,
			       double compress, struct sluice_err *err);
SLUICE_API void sluice_gen_close(struct sluice_gen *gen); /* NULL is allowed */

/* Bytes [@offset, @offset + @len) of @object. */
SLUICE_API void sluice_gen_fill(const struct sluice_gen *gen, uint64_t object, uint64_t offset,
				void *buf, size_t len);
/* Offset into @buf of the first byte that is not right, or @len when all are. */
SLUICE_API size_t sluice_gen_check(const struct sluice_gen *gen, uint64_t object, uint64_t offset,
				   const void *buf, size_t len);

#ifdef __cplusplus
}
#endif
#endif
