/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_STRIPE_H
#define PENSTOCK_STRIPE_H

/*
 * Striped files: one name, bytes in several folders or block devices, a unit in each by turns.
 *
 * The name is a small file, the manifest, which says where the members are. Whatever opens
 * files with penstock (penstock_file_open(), operations by path) may be given it: blocks of all
 * members are then in flight together. To other programs it is a text of some lines.
 *
 *	const char *in[] = {"/nvme0/t", "/nvme1/t"};
 *
 *	penstock_stripe_create("/data/w.bin", 0, in, 2, 0, &err);
 *	penstock_file_open(&f, io, "/data/w.bin", O_RDWR, 0, &err);
 *
 * Every member begins with a header that says what it belongs to. A member that is missing, of
 * another striped file, in the place of another, or shorter than what was once there makes
 * opening fail with a message that names it.
 */
#include <stdint.h>

#include <penstock/penstock.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_STRIPE_MEMBERS 64 /* at most */

enum penstock_stripe_flags {
	PENSTOCK_STRIPE_FORCE = 1,  /* block devices are taken even if there is something on them */
	PENSTOCK_STRIPE_FOLDER = 2, /* @name is a folder; files that are made in it are striped */
};

/*
 * Make the empty striped file @name, which must not exist, of @nr members: all of them
 * folders, in each of which a file is made, or all of them block devices, which are used from
 * their beginning.  @unit: bytes in a member before the next one's turn, a multiple of 4096 of
 * at most 1 GiB; 0: 2 MiB.  Durable when it returns 0; else -errno, and nothing is left of it.
 * What a creation that was killed has left is removed by the next one of the same name.
 */
PENSTOCK_API int penstock_stripe_create(const char *name, uint64_t unit, const char *const *members,
					unsigned nr, uint32_t flags, struct penstock_err *err);

/*
 * With PENSTOCK_STRIPE_FOLDER @name is a folder, which is made, or empty, and members are folders:
 * an empty file in it, or below, becomes a striped one when it is first opened for writing, unless
 * its name begins with a dot. Who removes such a file without penstock_stripe_unlink() leaves its
 * members, which the next file with its inode number takes over, or penstock_stripe_remove() of the
 * folder removes.
 */

/* As unlinkat(2) with no flags; of a striped file the members, too.  0 or -errno. */
PENSTOCK_API int penstock_stripe_unlink(int dir, const char *name);

/*
 * Remove members that a process which was killed has left, of a file with inode number @ino that
 * was in @folder, a striped one or below one, and is not any more; whatever has this number now
 * keeps its own.
 */
PENSTOCK_API void penstock_stripe_remove_orphans(const char *folder, uint64_t ino);

/*
 * The name first, then the members; of block devices the header.  Of a folder, which must be empty,
 * the folder manifest and what its files have left.  Of a symbolic link what it leads to, and then
 * the link. 0 or -errno.
 */
PENSTOCK_API int penstock_stripe_remove(const char *name, struct penstock_err *err);

/* 1: @name is a striped file, 2: a striped folder; 0: neither, or it cannot be read. */
PENSTOCK_API int penstock_stripe_get_kind(const char *name);

struct penstock_stripe_info;

/*
 * Do files that are made in @folder become striped, by its manifest or that of a folder above it? 1
 * with the folder manifest's info, which is to be freed, in *@out unless that is NULL; 0 or -errno.
 */
PENSTOCK_API int penstock_stripe_load_folder(struct penstock_stripe_info **out, const char *folder,
					     struct penstock_err *err);

/* Bytes of the file @name, of which stat(2) says @size: of a striped one the whole's; or -errno. */
PENSTOCK_API int64_t penstock_stripe_bytes(const char *name, int64_t size);

enum penstock_member_state {
	PENSTOCK_MEMBER_GOOD,
	PENSTOCK_MEMBER_MISSING,   /* it cannot be opened */
	PENSTOCK_MEMBER_FOREIGN,   /* it is no member, or one of another striped file */
	PENSTOCK_MEMBER_EXCHANGED, /* it is another member of this one */
	PENSTOCK_MEMBER_SHORT,     /* it has lost bytes that were once there */
};

struct penstock_member {
	const char *path;
	uint32_t state; /* enum penstock_member_state */
	uint32_t device;
	uint64_t bytes; /* of data; of a block device, that it has room for */
	char why[256];  /* with another state than good: a line that names it */
};

struct penstock_stripe_info {
	char id[33];
	uint32_t nr;
	uint64_t unit;
	uint64_t bytes; /* of the whole, as far as members are good */
	struct penstock_member *members;
};

/* What the manifest says and how its members are; 0 also if these are not good, or -errno. */
PENSTOCK_API int penstock_stripe_load(struct penstock_stripe_info **out, const char *name,
				      struct penstock_err *err);
PENSTOCK_API void penstock_stripe_free(struct penstock_stripe_info *info);

#ifdef __cplusplus
}
#endif

#endif
