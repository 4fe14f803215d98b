/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_ZIP_H
#define PENSTOCK_CKPT_ZIP_H

/*
 * The directory of a zip file, as torch.save writes it: records that are stored, zip64 where they
 * are large.  Only what listing and checking records needs is read; nothing in the file is believed
 * before it was seen to lie within the file.
 */
#include <stdint.h>

#include <penstock/ckpt.h>

/* Where bytes come from: exactly @len of them at @offset, which lie within @bytes; 0 or -errno. */
struct zip_source {
	int (*read)(void *arg, void *buf, uint64_t len, uint64_t offset, struct penstock_err *err);
	void *arg;
	uint64_t bytes;
};

struct zip {
	struct penstock_record *records; /* in the order of their content */
	uint64_t nr;
};

/*
 * Read the directory, and find the content of every record; none overlaps another.  0, -ENOMEM,
 * what read() says, or -EINVAL with what is wrong.  zip_fini() is due in every case.
 */
int zip_open(struct zip *z, const struct zip_source *src, struct penstock_err *err);
void zip_fini(struct zip *z);

#endif
