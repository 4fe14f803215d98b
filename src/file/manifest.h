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
	MANIFEST_STEP = 4093,       /* a manifest's size is a multiple: few other files' is, */
	MANIFEST_STEPS_MAX = 64,    /* of at most so many of them */
	MEMBER_HEADER_BYTES = 4096, /* bytes of a header */
	UNIT_STEP = 4096,
	UNIT_DEFAULT = 2 << 20,
	UNIT_MAX = 1 << 30,
};

#define FOLDER_MANIFEST_NAME ".penstock-stripe" /* the manifest of a striped folder */

struct penstock_manifest {
	bool folder; /* of a folder: members are folders, too */
	char id[33];
	uint64_t unit;
	unsigned nr;
	char *members[PENSTOCK_STRIPE_MEMBERS];
};

struct penstock_member_header {
	char id[33];
	unsigned index, nr;
	uint64_t unit;
	uint64_t recorded_bytes; /* of the whole; counts in the first member */
	char name[3072];         /* of the manifest, when it was made; empty: too long */
};

static inline bool penstock_manifest_fits_size(off_t size)
{
	return size > 0 && size % MANIFEST_STEP == 0 && size / MANIFEST_STEP <= MANIFEST_STEPS_MAX;
}

/* 1 with *@out, 0: the open file is something else, -EBADMSG: a damaged one, or -errno. */
int penstock_manifest_read(struct penstock_manifest **out, int fd);
/* The text of @m, with all that belongs to the file; NULL: no memory, or too long. */
char *penstock_manifest_format(const struct penstock_manifest *m, size_t *len);
void penstock_manifest_free(struct penstock_manifest *m);

/* Into MEMBER_HEADER_BYTES bytes: 0 or -ENOMEM; and back: 0, or -EBADMSG. */
int penstock_member_header_format(const struct penstock_member_header *h, char *buf);
int penstock_member_header_parse(struct penstock_member_header *h, const char *text);

#endif
