/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_BLOCKS_H
#define PENSTOCK_MEASURE_BLOCKS_H

/*
 * The blocks that storage sees of objects: whole ones of the engine's size, and an end.  Ends are
 * counted by powers of two, with their bytes, so that each class has a mean size.
 */
#include <stdint.h>

enum { BLOCKS_ENDS = 12 }; /* up to 4K, 8K, ... 8M */

struct blocks {
	double whole, ends[BLOCKS_ENDS]; /* how many */
	double bytes[BLOCKS_ENDS];       /* of the ends in each */
};

/* @times an object of @size, moved in blocks of @block. */
void blocks_add(struct blocks *b, uint64_t size, uint64_t block, double times);
double blocks_total(const struct blocks *b);

#endif
