/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_FILE_OVERLAP_H
#define PENSTOCK_FILE_OVERLAP_H

/*
 * Pages of a file that are being written: by O_DIRECT, or in part through the page
 * cache.  The two must not meet on one page: the page cache would write back what
 * the direct write has just replaced.  They can meet only where writes of one
 * program overlap; then one waits for the other.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A write of pages first..last that is in flight. */
struct penstock_range {
	struct penstock_range *prev, *next;
	uint64_t first, last;
};

/* The writes in flight to one file. */
struct penstock_overlap {
	pthread_mutex_t lock;
	struct penstock_range direct, cached; /* heads of lists */
};

void penstock_overlap_init(struct penstock_overlap *o);
void penstock_overlap_fini(struct penstock_overlap *o);

/* May bytes [off, off + len) be written this way now?  Then @r is on the list until the end. */
bool penstock_overlap_begin(struct penstock_overlap *o, struct penstock_range *r, uint64_t off,
			    uint64_t len, bool cached);
void penstock_overlap_end(struct penstock_overlap *o, struct penstock_range *r);

#endif
