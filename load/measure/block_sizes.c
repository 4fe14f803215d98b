/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/block_sizes.h"

void block_sizes_add(struct block_sizes *b, uint64_t size, uint64_t block, double times)
{
	uint64_t end = size % block;
	unsigned i = 0;

	b->whole += times * (double)(size / block);
	if (!end)
		return;
	while (i + 1 < BLOCK_SIZES_ENDS && 4096ull << i < end)
		i++;
	b->ends[i] += times;
	b->bytes[i] += times * (double)end;
}

double block_sizes_total(const struct block_sizes *b)
{
	double sum = b->whole;

	for (unsigned i = 0; i < BLOCK_SIZES_ENDS; i++)
		sum += b->ends[i];
	return sum;
}
