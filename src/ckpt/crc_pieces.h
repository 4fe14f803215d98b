/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_CRC_PIECES_H
#define PENSTOCK_CKPT_CRC_PIECES_H

/*
 * The checksums of a file that is written in any order: one of each piece, which is what was
 * written in one go within a chunk.  At the end they are combined to those of whole chunks.
 */
#include <stdbool.h>
#include <stdint.h>

struct crc_piece {
	uint64_t offset;
	uint32_t len;
	uint32_t crc;
};

struct crc_pieces {
	struct crc_piece *v;
	uint64_t nr, capacity;
	bool unsorted; /* a stretch begins before the end of the one before */
};

/* Bytes that were written at @offset: 0 or -ENOMEM. */
int crc_pieces_add(struct crc_pieces *s, uint64_t offset, const void *data, uint64_t len);

/*
 * The checksum of each chunk of a file of @bytes, into @crcs; what was not written is zero.  For
 * chunks in which something was written twice @reread reads what is there.  0 or what @reread says.
 */
int crc_pieces_combine(struct crc_pieces *s, uint64_t bytes, uint32_t *crcs,
		       int (*reread)(void *arg, uint64_t offset, uint64_t len, uint32_t *ret_crc),
		       void *arg);

void crc_pieces_free(struct crc_pieces *s);

#endif
