/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_READER_H
#define PENSTOCK_CKPT_READER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/ckpt.h>

#include "ckpt/crcfile.h"
#include "ckpt/read_plan.h"

/* The parts of the checkpoint reader: reader_open.c, reader_transfers.c (transfers), reader.c. */

enum {
	READER_TRANSFERS = 512,              /* transfers at a time */
	READER_AHEAD_FIRST = PENSTOCK_CHUNK, /* read ahead at first, then more and more */
};

/* A transfer, from its submission until nobody needs its memory any more. */
struct reader_transfer {
	struct penstock_reader *r;
	struct read_span span;
	char *mem;
	uint64_t pool_bytes; /* bytes of the pool it holds, those skipped at its end included */
	unsigned busy;       /* transfers and copies that are not over: under the lock */
	int code;            /* its first failure: under the lock */
	bool verified;       /* its content was checked, if there are checksums */
};

struct penstock_reader {
	struct penstock_io *io;
	struct penstock_file *file;
	struct penstock_reader_opts o;
	char *path;
	uint64_t bytes;
	struct crcfile crc;     /* no set: nothing is verified */
	uint32_t matching_sets; /* bit i: what was read so far fits set i */
	uint64_t bad_offset, bad_len, read_bytes;

	char *pool;
	uint64_t pool_len, pool_at, pool_used; /* the next free byte, bytes in use before it */
	bool pinned;

	struct reader_transfer transfers[READER_TRANSFERS];
	unsigned head, next_verify,
		tail;          /* oldest, first not yet verified, first free; they only count up */
	uint64_t direct_bytes; /* bytes of transfers between head and tail that hold no pool */

	uint64_t pos;        /* of sequential reads */
	uint64_t ahead_next; /* where reading ahead goes on */
	uint64_t ahead;      /* bytes to read ahead */

	pthread_mutex_t lock;
	pthread_cond_t wakeup;
	const struct reader_transfer *failed; /* the first that did, */
	char msg[508];                        /* and its words */
};

struct reader_transfer *reader_transfer_at(struct penstock_reader *r, unsigned i);
void reader_transfer_wait(struct penstock_reader *r, const struct reader_transfer *t);
bool reader_transfer_is_done(struct penstock_reader *r, const struct reader_transfer *t);
/* Give a transfer one more thing to wait for; undone where the library does not take it. */
int reader_transfer_submit(struct reader_transfer *t, struct penstock_op *op,
			   struct penstock_err *err);
void reader_transfer_free_oldest(struct penstock_reader *r);
/* Wait for all transfers, and forget what they have read. */
void reader_wait_all(struct penstock_reader *r);
/* Its buffers, once. */
int reader_pool_alloc(struct penstock_reader *r, struct penstock_err *err);
/* Read a span into @mem or, where that is NULL, into the pool.  Returns 1, or 0: no room now. */
int reader_transfer_start(struct penstock_reader *r, const struct read_span *span, char *mem,
			  struct penstock_err *err);
/* Wait for the oldest transfer that is not verified yet, and verify it. */
int reader_verify_next(struct penstock_reader *r, struct reader_transfer **ret,
		       struct penstock_err *err);
/* How it ended, when it is over. */
int reader_transfer_result(struct penstock_reader *r, const struct reader_transfer *t,
			   struct penstock_err *err);

#endif
