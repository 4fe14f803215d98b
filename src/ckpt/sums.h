/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_SUMS_H
#define PENSTOCK_CKPT_SUMS_H

/*
 * The checksums of a file while it is written, in whatever order: of each stretch that was written
 * in one go within a chunk, joined at the end.
 */
#include <stdbool.h>
#include <stdint.h>

struct sum {
	uint64_t offset;
	uint32_t len;
	uint32_t crc;
};

struct sums {
	struct sum *v;
	uint64_t nr, room;
	bool disorder; /* a stretch begins before the end of the one before */
};

/* Bytes that were written at @offset: 0 or -ENOMEM. */
int sums_add(struct sums *s, uint64_t offset, const void *data, uint64_t len);

/*
 * The checksum of each chunk of a file of @bytes, into @crcs; what was not written is zero.  For
 * chunks in which something was written twice @again reads what is there.  0 or what @again says.
 */
int sums_join(struct sums *s, uint64_t bytes, uint32_t *crcs,
	      int (*again)(void *arg, uint64_t offset, uint64_t len, uint32_t *ret_crc), void *arg);

void sums_free(struct sums *s);

#endif
