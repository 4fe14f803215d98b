/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_CKPT_UPLOAD_H
#define PENSTOCK_CKPT_CKPT_UPLOAD_H

/*
 * Checkpoints in an object store: FILE as an upload that is seen when it is complete, and FILE.crc
 * beside it, an object of the same form as the file of that name.
 *
 * There is no inode.  A set whose object was seen has a hash of its ETag instead (mtime 0); one
 * that is about to come, whose ETag nobody knows yet, has 0 (and when it was begun).  FILE.crc is
 * put before FILE, with the sets of the object that is there and of all that may come, and once
 * more behind it, to say whose is which.  It is put only in place of the one that was read
 * (If-Match), so that of two writers none loses the set of the other.
 */
#include <penstock/ckpt.h>
#include <penstock/s3.h>

#include "ckpt/crcfile.h"

/* FILE.crc of an object, as it was read. */
struct crc_object {
	struct crcfile f;
	bool exists;
	char etag[PENSTOCK_S3_ETAG];
};

/*
 * Read that of @uri.  0, and not ->exists, if there is none; -EBADMSG: another file has that name,
 * as described in @err.  ->f is to be freed after 0.
 */
int crc_object_load(struct crc_object *out, struct penstock_s3 *c, const char *uri,
		    struct penstock_err *err);
/* A set without checksums of an object. */
struct crc_set crc_set_for_object(const struct penstock_s3_info *info);

struct ckpt_upload;

int ckpt_upload_open(struct ckpt_upload **out, struct penstock_s3 *c, const char *uri,
		     const struct penstock_writer_opts *o, struct penstock_err *err);
int ckpt_upload_write(struct ckpt_upload *u, const void *buf, uint64_t len,
		      struct penstock_err *err);
/* Ends it in every case.  @set: its size and checksums, or CRC_SET_UNKNOWN. */
int ckpt_upload_commit(struct ckpt_upload *u, const struct crc_set *set, struct penstock_err *err);
/* As if nothing had been written.  NULL is allowed. */
void ckpt_upload_abort(struct ckpt_upload *u);

#endif
