/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_LOAD_CKPT_ZIP_H
#define SLUICE_LOAD_CKPT_ZIP_H

/*
 * The directory of a zip file, as torch.save writes it: records that are stored, zip64 where they
 * are large.  Only what listing and checking records needs is read; nothing in the file is believed
 * before it was seen to lie within the file.
 */
#include <stdint.h>

#include <sluice/sluice.h>

/* Where bytes come from: exactly @len of them at @offset, which lie within @bytes; 0 or -errno. */
struct zip_source {
	int (*read)(void *arg, void *buf, uint64_t len, uint64_t offset, struct sluice_err *err);
	void *arg;
	uint64_t bytes;
};

struct zip_record {
	char *name;      /* of any bytes but 0 */
	uint64_t bytes;  /* of its content, which is stored as it is */
	uint64_t header; /* where its local header begins ... */
	uint64_t offset; /* ... and its content; 0 until zip_locate() */
	uint32_t crc;    /* CRC-32 of the content */
};

struct zip {
	struct zip_record *records; /* in the order of the directory */
	uint64_t nr;
};

/* Could it be one, by its first four bytes? */
int zip_is(const void *head, uint64_t len);

/*
 * Read the directory: 0, -ENOMEM, what read() says, or -EINVAL with what is wrong with it.
 * zip_fini() is due in every case.
 */
int zip_open(struct zip *z, const struct zip_source *src, struct sluice_err *err);
/* Find the content of every record, and that none overlaps another; they are then in its order. */
int zip_locate(struct zip *z, const struct zip_source *src, struct sluice_err *err);
void zip_fini(struct zip *z);

#endif
