/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BED_BED_PREFIX_H
#define PENSTOCK_BED_BED_PREFIX_H

/*
 * A folder of ours in an object store: a prefix with a mark in it, an object that says which
 * process made it.  What a process of this machine that is gone has left beside a new one goes:
 * the objects right below such a prefix, and uploads that were begun there.
 */
#include <penstock/s3.h>

/* Put the mark into @folder, which nothing is in; what was left below @parent goes first. */
int bed_prefix_make(struct penstock_s3 *c, const char *parent, const char *folder,
		    struct penstock_err *err);
/* Remove the mark, and uploads that were begun and not ended. */
void bed_prefix_close(struct penstock_s3 *c, const char *folder);

#endif
