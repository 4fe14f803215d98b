/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_WRITER_H
#define PENSTOCK_CKPT_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <penstock/ckpt.h>

#include "base/replace.h"
#include "ckpt/crc_pieces.h"

/* The parts of the checkpoint writer: writer.c, writer_slots.c (buffers), writer_commit.c. */

struct writer_slot {
	struct penstock_writer *w;
	char *buf;
	uint64_t capacity;   /* of @buf, bytes */
	uint64_t base;       /* offset in the file of its first byte, a multiple of a page */
	uint64_t begin, end; /* the bytes of the file that are in it */
	uint64_t flush_at;   /* offset in the file at which it is sent off */
	bool busy;           /* on its way: under the lock */
	bool pinned;
};

struct penstock_writer {
	struct penstock_io *io;
	struct penstock_file *file;
	struct penstock_writer_opts o;
	struct penstock_replace rep;
	bool striped;           /* the new file is a manifest, the bytes are in its members */
	struct ckpt_upload *up; /* instead of a file: an object */
	char *path;             /* as the caller calls it */
	char *crcname;          /* FILE.crc, in the same folder */
	pid_t pid;
	uint64_t pos, end; /* where the next byte goes, how long the file is */
	struct crc_pieces pieces;
	struct writer_slot *slots;
	struct writer_slot *filling;
	uint64_t nr_slots_taken;

	pthread_mutex_t lock;
	pthread_cond_t wakeup; /* a slot is no longer busy */
	int code;              /* the first failure, */
	char msg[508];         /* and its words */
};

/* Keep the first error; returns it. */
int writer_record_error(struct penstock_writer *w, int code, const char *msg);
int writer_record_errno(struct penstock_writer *w, const char *what, int code);
/* The first error so far, with its message; 0: none. */
int writer_get_error(struct penstock_writer *w, struct penstock_err *err);
/* The same, and whether it is a writer of this process. */
int writer_check(struct penstock_writer *w, struct penstock_err *err);
void writer_free(struct penstock_writer *w);

/* A slot for what is written at the position. */
int writer_slot_take(struct penstock_writer *w);
/* Memory of it, as large as it will be needed. */
int writer_slot_alloc(struct penstock_writer *w, struct writer_slot *s);
void writer_slot_free(struct writer_slot *s);
/* Submit the write of the slot that is being filled. */
int writer_slot_flush(struct penstock_writer *w);
/* A transfer of a slot is over. */
void writer_slot_done(void *arg, const struct penstock_done *done);
/* Until no slot is on its way. */
void writer_wait_all(struct penstock_writer *w);

#endif
