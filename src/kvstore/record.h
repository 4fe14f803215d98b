/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KVSTORE_RECORD_H
#define PENSTOCK_KVSTORE_RECORD_H

/*
 * Records of the log: what was stored where, and what went.  Each has its length and a CRC-32C
 * that begins with the seed of its log, so that nothing but what was appended to this log is taken
 * for a record of it.
 */
#include <stddef.h>
#include <stdint.h>

#include "kvstore/index.h"

enum store_record_type {
	STORE_RECORD_SET = 1,  /* @key has a value, instead of any of a lower @gen */
	STORE_RECORD_DROP = 2, /* the value of @hash and @gen is gone */
	/* It is in the object store below.  Not known to those that knew no such tier, who take it
	 * for damage; no store without one has it. */
	STORE_RECORD_BELOW = 3,
};

enum {
	STORE_PIECES_MAX = 4096,
	STORE_RECORD_HEAD = 48,
	STORE_RECORD_MAX = STORE_RECORD_HEAD + 8 * STORE_PIECES_MAX + 4096,
	STORE_RECORD_BELOW_SIZE = STORE_RECORD_HEAD + 24,
	STORE_LOG_HEAD = 64,
};

struct store_record {
	uint32_t type;
	uint32_t cost;
	uint64_t gen;
	uint64_t time;             /* second of the store's clock when it was written */
	struct store_hash hash;    /* of a DROP or BELOW */
	uint64_t run;              /* of a BELOW: whose objects it is among */
	uint32_t len, crc, expiry; /* not of a DROP */
	const unsigned char *key;  /* of a SET, as all that follows */
	uint32_t key_len;
	uint32_t nr;                 /* pieces */
	const unsigned char *pieces; /* see store_record_piece() */
};

struct extent store_record_piece(const struct store_record *r, uint32_t i);

/* Bytes of a SET. */
size_t store_record_size(uint32_t key_len, uint32_t nr);

/*
 * Write one to @to, which has room for STORE_RECORD_MAX bytes; the pieces of a SET are those of
 * @space.  Returns its length, a multiple of 8.
 */
size_t store_record_put(unsigned char *to, uint32_t seed, const struct store_record *r,
			const struct extents *space);

/*
 * Read the one at @from.  Returns its length, 0 when more than @avail bytes are needed to tell, or
 * -EBADMSG.  @ret points into @from.
 */
int store_record_get(struct store_record *ret, uint32_t seed, const unsigned char *from,
		     size_t avail);

/*
 * The first STORE_LOG_HEAD bytes of a log.  The epoch is counted up, on all directories that are
 * there, whenever the store is opened or a directory is left out: one that is behind has missed
 * something. Unless it is not behind @since: between the epochs from there to this one nothing was
 * written but heads, one after the other, and a kill between two of them leaves logs of several
 * epochs.  0 is
 * @epoch itself, as it was for those that did not know it.
 * The clock is the store's when the head was written, so that time without records counts; 0 in
 * logs of those that did not know it.
 */
struct store_log_head {
	uint32_t seed;
	uint64_t epoch, clock, since;
};
void store_log_head_put(unsigned char to[STORE_LOG_HEAD], const struct store_log_head *head);
/* 0, -EBADMSG, or -EPROTO for one of another version. */
int store_log_head_get(struct store_log_head *ret, const unsigned char from[STORE_LOG_HEAD]);

#endif
