/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/blocks.h"

void blocks_add(struct blocks *b, uint64_t size, uint64_t block, double times)
{
	uint64_t end = size % block;
	unsigned i = 0;

	b->whole += times * (double)(size / block);
	if (!end)
		return;
	while (i + 1 < BLOCKS_ENDS && 4096ull << i < end)
		i++;
	b->ends[i] += times;
	b->bytes[i] += times * (double)end;
}

double blocks_total(const struct blocks *b)
{
	double sum = b->whole;

	for (unsigned i = 0; i < BLOCKS_ENDS; i++)
		sum += b->ends[i];
	return sum;
}
