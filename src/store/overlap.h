/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_STORE_OVERLAP_H
#define SLUICE_STORE_OVERLAP_H

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
struct sluice_range {
	struct sluice_range *prev, *next;
	uint64_t first, last;
};

/* The writes in flight to one file. */
struct sluice_overlap {
	pthread_mutex_t lock;
	struct sluice_range direct, cached; /* heads of lists */
};

void sluice_overlap_init(struct sluice_overlap *o);
void sluice_overlap_fini(struct sluice_overlap *o);

/* May bytes [off, off + len) be written this way now?  Then @r is on the list until the end. */
bool sluice_overlap_begin(struct sluice_overlap *o, struct sluice_range *r, uint64_t off,
			  uint64_t len, bool cached);
void sluice_overlap_end(struct sluice_overlap *o, struct sluice_range *r);

#endif
