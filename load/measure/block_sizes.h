/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MEASURE_BLOCK_SIZES_H
#define PENSTOCK_MEASURE_BLOCK_SIZES_H

/*
 * The blocks that storage sees of objects: whole ones of the engine's size, and an end.  Ends are
 * counted by powers of two, with their bytes, so that each class has a mean size.
 */
#include <stdint.h>

enum { BLOCK_SIZES_ENDS = 12 }; /* up to 4K, 8K, ... 8M */

struct block_sizes {
	double whole, ends[BLOCK_SIZES_ENDS]; /* how many */
	double bytes[BLOCK_SIZES_ENDS];       /* of the ends in each */
};

/* @times an object of @size, moved in blocks of @block. */
void block_sizes_add(struct block_sizes *b, uint64_t size, uint64_t block, double times);
double block_sizes_total(const struct block_sizes *b);

#endif
