/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CORE_BLOCK_H
#define PENSTOCK_CORE_BLOCK_H

/* Blocks: pieces of operations, as engines take them. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/op.h"
#include "engine/engine.h"
#include "file/backing.h"
#include "mem/device_memory.h"

enum block_mode {
	BLOCK_STRAIGHT, /* file <-> caller's memory */
	BLOCK_LIST,     /* file <-> several segments of it, whole ones */
	BLOCK_BOUNCE,   /* file <-> aligned bounce <-> caller's memory */
	BLOCK_DEVICE, /* file <-> piece of the pinned pool <-> device memory, see device_block.c */
	BLOCK_CUFILE, /* file <-> device memory, by an engine that takes it */
	BLOCK_COPY,   /* device memory <-> memory, without a file */
	BLOCK_SYNC,   /* fsync, fdatasync */
};

struct block {
	struct penstock_req req; /* first: the engine hands it back */
	struct op *op;
	struct file_member *member; /* of the file, that has its bytes, */
	uint64_t at;                /* from here on */
	uint64_t pos;               /* in the operation */
	uint64_t len;               /* bytes of the operation it stands for */
	uint64_t seg_off;
	unsigned seg;  /* where its memory starts */
	unsigned segs; /* of a list: how many */
	enum block_mode mode;

	/* zero when it is planned, up to @data */
	uint64_t moved;           /* of @len, done */
	struct member_load *load; /* where it is counted; NULL: not of a striped file */
	void *bounce;             /* or a piece of the pinned pool */
	uint32_t skip;            /* bounce, pinned pool: bytes before the wanted ones */
	unsigned tries;
	uint32_t flags; /* PENSTOCK_DONE_* */
	int code;       /* 0 or -errno */
	bool buffered;  /* through the page cache, by buffered_fd */
	bool started;   /* block_start() has been here */
	bool inflight;  /* the engine has it */
	bool lost;      /* and may keep it: the engine is broken */
	bool remote;    /* of an object, see remote_block.c */
	bool ranged;    /* @range is on its file's list */
	bool eof;
	bool device_ready; /* device: a write's bytes are there; cuFile: its turn has come */
	struct penstock_cuda_failure failure;

	char *data; /* device: where in the piece the wanted bytes start */
	struct penstock_range range;
};

/* ---- plan.c */
/* Fill @b with the next block of @op and move the cursor; false when there is none left. */
bool plan_block(struct op *op, struct block *b);
uint64_t plan_split(const struct penstock_file *f, bool huge);
bool plan_small_pages(const struct op *op); /* memory on these, on such a disk: is it copied? */
/* The same where it is found out; under no lock.  plan_trial_end() when it is over, or came to
 * nothing. */
void plan_trial_begin(struct penstock_io *io, struct op *op, bool huge);
void plan_trial_end(struct penstock_io *io, struct op *op);

/* ---- block.c */
/* Set up the request of a planned block: descriptor, slots, bounce copy. */
int block_start(struct penstock_io *io, struct queue *q, struct block *b); /* q NULL: inline */
/* The kernel said "later": give it time, a little more after each try. */
bool block_wants_pause(const struct block *b);
void block_pause(const struct block *b);
/* May the block be submitted now?  Not while an overlapping write takes the other way. */
bool block_may_start(struct block *b);
/* Look at a finished request.  True: over, see b->moved and b->code; false: submit it again. */
bool block_finish(struct penstock_io *io, struct block *b, struct counters *count);
/* Account for a finished block in its operation. */
void block_account(struct op *op, struct block *b);

#endif
