/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_PLACE_SLAB_H
#define PENSTOCK_OBJECT_PLACE_SLAB_H

/*
 * A slab on storage: a head of 1 MiB that says whose it is, then the units, then the index of the
 * objects, which is written only when they are kept: while a slab is in use its head says that
 * there is none.  Of the head 4 KiB are used, the rest is zero.
 */
#include "load/object/place.h"

struct slab_head {
	char magic[16];
	uint64_t unused, units;
	uint32_t unit, kept;
	uint64_t index_len, index_id, objects;
	uint64_t check; /* of all the others */
	char zero[4096 - 72];
};

/* ---- place_slab_head.c: whatever is read is checked against the size of the file or device */
int slab_read(int fd, void *buf, uint64_t len, uint64_t at);
static inline uint64_t slab_index_offset(uint64_t units, uint32_t unit)
{
	return SLAB_HEAD + units * unit;
}
/* 1: all of it is as one of ours was written; 0: it is not; or -errno. */
int slab_head_read(struct slab_head *h, int fd);
/* Of one that says that objects were kept: can that be, in so many bytes? */
bool slab_head_fits(const struct slab_head *h, uint64_t bytes);
int slab_head_write(const struct place *p, int fd, uint64_t units, bool kept);
/* The objects that were kept, into the place's list of old ones; the head fits. */
int slab_index_load(struct place *p, const struct slab_head *h, struct penstock_err *err);
int slab_damaged(const struct place *p, struct penstock_err *err); /* says so */

/* ---- place_slab_inspection.c: what is at the path */
struct slab_inspection {
	int fd; /* -1: not there, or a folder */
	bool exists, folder, device, ours;
	uint64_t bytes; /* size of the file or device */
	struct slab_head head;
};
/*
 * @name in the folder @dir; messages call it @path.  Open for writing only if it may be written
 * to: a slab of the user's own, or a device with nothing on it.  @known: a marker says that it is
 * ours, whatever is in it.
 */
int slab_inspect(struct slab_inspection *l, int dir, const char *name, const char *path, bool write,
		 bool known, struct penstock_err *err);

/* ---- place_device.c: block devices */
/* 0, or -EEXIST where something is on it that a slab must not be written over. */
int device_check_empty(int fd, uint64_t bytes, bool ours, const char *path,
		       struct penstock_err *err);
/* As it was found: empty wherever device_check_empty() looks. */
int device_clear(int fd, uint64_t bytes);
/* Units that a device has room for, beside head and index. */
uint64_t device_units(uint64_t bytes, uint32_t unit);

#endif
