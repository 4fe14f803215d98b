/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_GEN_H
#define PENSTOCK_GEN_H

#include <penstock/penstock.h>

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
struct penstock_gen;

/*
 * A ratio of 1 means none; 0 is taken for 1.  Returns 0, -ENOMEM, or -EINVAL with what is
 * possible: dedup up to 1000, compress up to 16.
 */
PENSTOCK_API int penstock_gen_open(struct penstock_gen **out, uint64_t seed, double dedup,
				   double compress, struct penstock_err *err);
PENSTOCK_API void penstock_gen_close(struct penstock_gen *gen); /* NULL is allowed */

/* Bytes [@offset, @offset + @len) of @object. */
PENSTOCK_API void penstock_gen_fill(const struct penstock_gen *gen, uint64_t object,
				    uint64_t offset, void *buf, size_t len);
/* Offset into @buf of the first byte that is not right, or @len when all are. */
PENSTOCK_API size_t penstock_gen_check(const struct penstock_gen *gen, uint64_t object,
				       uint64_t offset, const void *buf, size_t len);

#ifdef __cplusplus
}
#endif
#endif
