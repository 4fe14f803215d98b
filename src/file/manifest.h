/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_MANIFEST_H
#define PENSTOCK_FILE_MANIFEST_H

/* The texts of striped files: the manifest, and the header of a member. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <penstock/stripe.h>

enum {
	MANIFEST_STEP = 4093, /* a manifest's size is a multiple: few other files' is, */
	MANIFEST_MOST = 64,   /* of at most so many of them */
	MEMBER_HEAD = 4096,   /* bytes of a header */
	UNIT_STEP = 4096,
	UNIT_DEFAULT = 2 << 20,
	UNIT_MOST = 1 << 30,
};

#define FOLDER_MARK ".penstock-stripe" /* the manifest of a striped folder */

struct penstock_manifest {
	bool folder; /* of a folder: members are folders, too */
	char id[33];
	uint64_t unit;
	unsigned nr;
	char *members[PENSTOCK_STRIPE_MEMBERS];
};

struct penstock_member_head {
	char id[33];
	unsigned index, nr;
	uint64_t unit;
	uint64_t settled; /* of the whole; counts in the first member */
	char name[3072];  /* of the manifest, when it was made; empty: too long */
};

static inline bool penstock_manifest_may_be(off_t size)
{
	return size > 0 && size % MANIFEST_STEP == 0 && size / MANIFEST_STEP <= MANIFEST_MOST;
}

/* 1 with *@out, 0: the open file is something else, -EBADMSG: a damaged one, or -errno. */
int penstock_manifest_read(struct penstock_manifest **out, int fd);
/* The text of @m, with all that belongs to the file; NULL: no memory, or too long. */
char *penstock_manifest_text(const struct penstock_manifest *m, size_t *len);
void penstock_manifest_free(struct penstock_manifest *m);

/* Into MEMBER_HEAD bytes: 0 or -ENOMEM; and back: 0, or -EBADMSG. */
int penstock_member_head_text(const struct penstock_member_head *h, char *room);
int penstock_member_head_parse(struct penstock_member_head *h, const char *text);

#endif
