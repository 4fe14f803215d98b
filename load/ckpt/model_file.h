/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_LOAD_CKPT_MODEL_FILE_H
#define PENSTOCK_LOAD_CKPT_MODEL_FILE_H

/*
 * A file with a model or a checkpoint in it, whoever wrote it: safetensors, the zip of torch.save,
 * or anything else, with its checksums beside it in FILE.crc or without.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/ckpt.h>

enum model_format { MODEL_OTHER, MODEL_SAFETENSORS, MODEL_TORCH };
extern const char *const model_format_words[];

/* A tensor, or a record of a zip, which has neither dtype nor shape. */
struct model_entry {
	const char *name, *dtype;
	const uint64_t *shape;
	uint32_t rank;
	uint64_t offset, bytes;
};

struct model_file {
	enum model_format format;
	uint64_t bytes;
	bool has_crc; /* there is a FILE.crc */
	struct penstock_reader *reader;
	struct penstock_safetensors *tensors; /* has the reader, where it is one */
	struct penstock_archive *zip;
};

/*
 * Open it and read what says what is in it: 0, what a reader says, or -EINVAL where it begins like
 * one of the formats and is none.  model_file_close() is due in every case.
 */
int model_file_open(struct model_file *m, struct penstock_io *io, const char *path,
		    const struct penstock_reader_opts *opts, struct penstock_err *err);
void model_file_close(struct model_file *m);
/* Number @i of its entries: false past the last. */
bool model_file_entry(const struct model_file *m, uint64_t i, struct model_entry *ret);

/* Read all of a file, check it, and copy it where that is asked for. */
struct model_pass {
	struct penstock_io *io;
	const char *path;
	const char *to; /* NULL: only check it */
	bool no_crc;    /* the copy gets no FILE.crc */
	const atomic_int *stop;
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	/* what came of it */
	enum model_format format;
	uint64_t bytes;   /* of the file */
	uint64_t checked; /* bytes that a checksum covers */
	const char *how;  /* "FILE.crc", "CRC-32 of the records", or NULL: there are none */
	double sec;
};
/*
 * 0; -EBADMSG: something is not what was saved, told with the file, its offset and what lies there;
 * or another -errno.  Whatever fails, @to is as it was.
 */
int model_pass_run(struct model_pass *p, struct penstock_err *err);

#endif
