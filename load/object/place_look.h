/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_PLACE_LOOK_H
#define PENSTOCK_OBJECT_PLACE_LOOK_H

#include "load/object/place.h"
#include "load/object/place_journal.h"

/* A folder being looked at. */
struct look {
	const char *path;
	const struct place_opts *o;
	struct journal journal;
	int fd;                               /* of the folder */
	int marker;                           /* its journal, -1: none */
	bool marked;                          /* it was made just now */
	struct penstock_stripe_info *striped; /* what is made in it is */
	uint64_t freed;                       /* bytes that would be free if it were emptied */
};

/* A striped file holds no objects: -EEXIST; its name is not to be removed by others than us. */
int look_no_stripe(const char *path, struct penstock_err *err);

/* No slab where files are striped: -EINVAL. @path need not be there. */
int look_no_slab(const char *path, struct penstock_err *err);

/* @path, or the nearest folder above it that is there; NULL: out of memory. */
char *look_nearest(const char *path);

/* The folder is there: -EEXIST where something in it was not made here. */
int look_begin(struct look *l, struct penstock_err *err);
void look_end(struct look *l);

#endif
