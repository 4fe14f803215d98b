/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CKPT_CRCFILE_H
#define PENSTOCK_CKPT_CRCFILE_H

/*
 * FILE.crc: the checksums of FILE, of one file or, around the step in which a new one takes the
 * place of an old one, of both.  Little endian:
 *
 *	"penstock.crc32c 1\n"
 *	u32 sets, u32 bytes of a chunk (1 MiB)
 *	for each set  u64 bytes of the file, u64 inode, s64 mtime in ns, u32 flags, u32 0,
 *	              u32 CRC-32C of each chunk; none with CRC_SET_UNKNOWN
 *	u32 CRC-32C of all of this
 *
 * Inode and time say which set is that of the file; where they fit none, because the file was
 * copied, every set of the same size may be.
 */
#include <penstock/ckpt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/replace.h"

enum { CRC_SETS_MAX = 8 };

#define CRC_SET_UNKNOWN 0x1u /* there is such a file, and nothing is known of its content */

struct crc_set {
	uint64_t bytes;
	uint64_t inode;
	int64_t mtime_ns;
	uint32_t flags;
	uint64_t nr;    /* chunks */
	uint32_t *crcs; /* of each */
};

struct crcfile {
	unsigned nr;
	struct crc_set sets[CRC_SETS_MAX];
	uint32_t *crcs; /* what the sets point into */
};

static inline uint64_t crc_chunks(uint64_t bytes)
{
	return bytes / PENSTOCK_CHUNK + (bytes % PENSTOCK_CHUNK != 0);
}

/* A set without checksums of this file; @bytes: of a striped one the whole's. */
struct crc_set crc_set_for_stat(const struct stat *st, uint64_t bytes);

/* 0, or -EBADMSG with *@ret_why: what is wrong with it; or -ENOMEM. */
int crcfile_parse(struct crcfile *out, const void *data, size_t len, const char **ret_why);
/* The bytes of such a file, to be freed; NULL: no memory. */
void *crcfile_format(const struct crc_set *sets, unsigned nr, size_t *ret_len);
void crcfile_free(struct crcfile *f);

/*
 * Keep the sets that may be those of this file (crc_set_for_stat()): one that is, then it says
 * true; else all of its size.
 */
bool crcfile_select_sets(struct crcfile *f, const struct crc_set *is);

/* Read @name in folder @dir; -ENOENT where there is none, -EBADMSG with a message. */
int crcfile_load(struct crcfile *out, int dir, const char *name, struct penstock_err *err);

/*
 * FILE.crc on its way: with the sets of the file that was there when it was made, and that of the
 * one that will be.
 */
struct crc_replace {
	struct penstock_replace rep;
	const struct penstock_replace *file; /* the file that is about to be replaced */
	const char *name;
	const struct crc_set *set;
	bool sync;
	bool had_file;         /* the file existed */
	struct stat file_stat; /* what stat(2) said of it */
};

/* Write it, durably with @sync, beside the file of @file, under no name so far.  0 or -errno. */
int crc_replace_open(struct crc_replace *n, const struct penstock_replace *file, const char *name,
		     const struct crc_set *set, bool sync);
/*
 * Give it its name; where another file has come to the name of the one it describes, it is made
 * anew before.  Under the lock of the folder, so that none comes meanwhile.
 */
int crc_replace_publish(struct crc_replace *n);
void crc_replace_close(struct crc_replace *n);

#endif
