/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_JOBS_GENERATED_FILE_H
#define PENSTOCK_JOBS_GENERATED_FILE_H

/*
 * A file of generated content, by the writer and the reader (penstock/ckpt.h): saved
 * whole and in one step, loaded with its checksums verified, compared with what the generator says.
 * Making content and moving it are timed apart.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/ckpt.h>
#include <penstock/gen.h>

struct generated_file {
	struct penstock_io *io;
	const struct penstock_gen *gen;
	const char *path;
	uint64_t object, offset; /* where its content begins */
	uint64_t len;
	void *buf; /* of all of it or a piece; */
	uint64_t buf_len;
	bool ready; /* it holds the content already: generated_file_fill() */
	struct penstock_writer_opts writer;
	struct penstock_reader_opts reader;
	const atomic_int *stop;
	/* Optional: so much was moved. */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
	/* What the last call took: of all, and of it making content and the end (commit). */
	uint64_t total_ns, made_ns, close_ns;
};

/* Make all of the content, for which the memory must have room, before anything is written. */
void generated_file_fill(struct generated_file *p);
/* How the library moves it, once it is there. */
void generated_file_get_info(const struct generated_file *p, struct penstock_stats *stats,
			     struct penstock_file_info *info);
/* 0, -ECANCELED, or what the writer says; then the file that was there is there. */
int generated_file_save(struct generated_file *p, struct penstock_err *err);
/* What is read goes into the memory and is not looked at, but for checksums. */
int generated_file_load(struct generated_file *p, struct penstock_err *err);
/* Read it and compare: -EBADMSG with the file and the first wrong offset. */
int generated_file_compare(struct generated_file *p, struct penstock_err *err);

#endif
