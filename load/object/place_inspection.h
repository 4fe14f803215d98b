/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_OBJECT_PLACE_INSPECTION_H
#define PENSTOCK_OBJECT_PLACE_INSPECTION_H

#include "load/object/place.h"
#include "load/object/place_journal.h"

/* A folder being looked at. */
struct inspection {
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
int refuse_striped_file(const char *path, struct penstock_err *err);

/* No slab where files are striped: -EINVAL. @path need not be there. */
int refuse_striped_folder(const char *path, struct penstock_err *err);

/* @path, or the nearest folder above it that is there; NULL: out of memory. */
char *nearest_folder(const char *path);

/* The folder is there: -EEXIST where something in it was not made here. */
int inspection_begin(struct inspection *l, struct penstock_err *err);
void inspection_end(struct inspection *l);

#endif
