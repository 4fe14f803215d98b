/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_STRIPE_H
#define SLUICE_STRIPE_H

/*
 * Striped files: one name, bytes in several folders or block devices, a unit in each by turns.
 *
 * The name is a small file, the manifest, which says where the members are. Whatever opens
 * files with sluice (sluice_file_open(), operations by path) may be given it: blocks of all
 * members are then in flight together. To other programs it is a text of some lines.
 *
 *	const char *in[] = {"/nvme0/t", "/nvme1/t"};
 *
 *	sluice_stripe_create("/data/w.bin", 0, in, 2, 0, &err);
 *	sluice_file_open(&f, io, "/data/w.bin", O_RDWR, 0, &err);
 *
 * Every member begins with a header that says what it belongs to. A member that is missing, of
 * another striped file, in the place of another, or shorter than what was once there makes
 * opening fail with a message that names it.
 */
#include <stdint.h>

#include <sluice/sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_STRIPE_MEMBERS 64 /* at most */

enum sluice_stripe_flags {
	SLUICE_STRIPE_FORCE = 1,  /* block devices are taken even if there is something on them */
	SLUICE_STRIPE_FOLDER = 2, /* @name is a folder; files that are made in it are striped */
};

/*
 * Make the empty striped file @name, which must not exist, of @nr members: all of them
 * folders, in each of which a file is made, or all of them block devices, which are used from
 * their beginning.  @unit: bytes in a member before the next one's turn, a multiple of 4096 of
 * at most 1 GiB; 0: 2 MiB.  Durable when it returns 0; else -errno, and nothing is left of it.
 * What a creation that was killed has left is removed by the next one of the same name.
 */
SLUICE_API int sluice_stripe_create(const char *name, uint64_t unit, const char *const *members,
				    unsigned nr, uint32_t flags, struct sluice_err *err);

/*
 * With SLUICE_STRIPE_FOLDER @name is a folder, which is made, or empty, and members are folders:
 * an empty file in it, or below, becomes a striped one when it is first opened for writing, unless
 * its name begins with a dot. Who removes such a file without sluice_stripe_unlink() leaves its
 * members, which the next file with its inode number takes over, or sluice_stripe_remove() of the
 * folder removes.
 */

/* As unlinkat(2) with no flags; of a striped file the members, too.  0 or -errno. */
SLUICE_API int sluice_stripe_unlink(int dir, const char *name);

/*
 * Remove members that a process which was killed has left, of a file with inode number @ino that
 * was in @folder, a striped one or below one, and is not any more; whatever has this number now
 * keeps its own.
 */
SLUICE_API void sluice_stripe_sweep(const char *folder, uint64_t ino);

/*
 * The name first, then the members; of block devices the header.  Of a folder, which must be empty,
 * the mark and what its files have left.  Of a symbolic link what it leads to, and then the link.
 * 0 or -errno.
 */
SLUICE_API int sluice_stripe_remove(const char *name, struct sluice_err *err);

/* 1: @name is a striped file, 2: a striped folder; 0: neither, or it cannot be read. */
SLUICE_API int sluice_stripe_is(const char *name);

struct sluice_stripe_info;

/*
 * Do files that are made in @folder become striped, by its mark or that of a folder above it?  1
 * with the mark's info, which is to be freed, in *@out unless that is NULL; 0 or -errno.
 */
SLUICE_API int sluice_stripe_find(struct sluice_stripe_info **out, const char *folder,
				  struct sluice_err *err);

/* Bytes of the file @name, of which stat(2) says @size: of a striped one the whole's; or -errno. */
SLUICE_API int64_t sluice_stripe_bytes(const char *name, int64_t size);

enum sluice_member_state {
	SLUICE_MEMBER_GOOD,
	SLUICE_MEMBER_MISSING,   /* it cannot be opened */
	SLUICE_MEMBER_FOREIGN,   /* it is no member, or one of another striped file */
	SLUICE_MEMBER_EXCHANGED, /* it is another member of this one */
	SLUICE_MEMBER_SHORT,     /* it has lost bytes that were once there */
};

struct sluice_member {
	const char *path;
	uint32_t state; /* enum sluice_member_state */
	uint32_t device;
	uint64_t bytes; /* of data; of a block device, that it has room for */
	char why[256];  /* with another state than good: a line that names it */
};

struct sluice_stripe_info {
	char id[33];
	uint32_t nr;
	uint64_t unit;
	uint64_t bytes; /* of the whole, as far as members are good */
	struct sluice_member *members;
};

/* What the manifest says and how its members are; 0 also if these are not good, or -errno. */
SLUICE_API int sluice_stripe_load(struct sluice_stripe_info **out, const char *name,
				  struct sluice_err *err);
SLUICE_API void sluice_stripe_free(struct sluice_stripe_info *info);

#ifdef __cplusplus
}
#endif

#endif
