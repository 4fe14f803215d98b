/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_READER_H
#define PENSTOCK_CKPT_READER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/ckpt.h>

#include "ckpt/crcfile.h"
#include "ckpt/read_plan.h"

/* The parts of the checkpoint reader: reader_open.c, reader_tasks.c (transfers), reader.c. */

enum {
	READER_TASKS = 512,                  /* transfers at a time */
	READER_AHEAD_FIRST = PENSTOCK_CHUNK, /* read ahead at first, then more and more */
};

/* A transfer, from its submission until nobody needs its memory any more. */
struct reader_task {
	struct penstock_reader *r;
	struct read_span span;
	char *mem;
	uint64_t ring; /* bytes of the pool it holds, those skipped at its end included */
	unsigned busy; /* transfers and copies that are not over: under the lock */
	int code;      /* its first failure: under the lock */
	bool checked;  /* its content was looked at */
};

struct penstock_reader {
	struct penstock_io *io;
	struct penstock_file *file;
	struct penstock_reader_opts o;
	char *path;
	uint64_t bytes;
	struct crcfile crc; /* no set: nothing is verified */
	uint32_t alive;     /* bit i: what was read so far fits set i */
	uint64_t bad_offset, bad_len, read_bytes;

	char *pool;
	uint64_t pool_len, pool_at, pool_used; /* the next free byte, bytes in use before it */
	bool pinned;

	struct reader_task tasks[READER_TASKS];
	unsigned head, mid, tail; /* oldest, first not looked at, next free: they only count up */
	uint64_t flight;          /* bytes of tasks between head and tail that hold no pool */

	uint64_t pos;        /* of sequential reads */
	uint64_t ahead_next; /* where reading ahead goes on */
	uint64_t ahead;      /* bytes to read ahead */

	pthread_mutex_t lock;
	pthread_cond_t back;
	const struct reader_task *failed; /* the first that did, */
	char msg[508];                    /* and its words */
};

struct reader_task *reader_task_at(struct penstock_reader *r, unsigned i);
void reader_task_wait(struct penstock_reader *r, const struct reader_task *t);
bool reader_task_over(struct penstock_reader *r, const struct reader_task *t);
/* Give a task one more thing to wait for; undone where the library does not take it. */
int reader_task_submit(struct reader_task *t, struct penstock_op *op, struct penstock_err *err);
void reader_retire(struct penstock_reader *r);
/* Forget all that was begun. */
void reader_drop(struct penstock_reader *r);
/* Its buffers, once. */
int reader_pool_make(struct penstock_reader *r, struct penstock_err *err);
/* Read a span into @mem or, where that is NULL, into the pool.  Returns 1, or 0: no room now. */
int reader_start(struct penstock_reader *r, const struct read_span *span, char *mem,
		 struct penstock_err *err);
/* Wait for the oldest task nobody has looked at, and verify it. */
int reader_look(struct penstock_reader *r, struct reader_task **ret, struct penstock_err *err);
/* How it ended, when it is over. */
int reader_task_result(struct penstock_reader *r, const struct reader_task *t,
		       struct penstock_err *err);

#endif
