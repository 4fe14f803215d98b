/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_MT_H
#define PENSTOCK_MODEL_MT_H

/*
 * The random numbers of Python's `random' module: MT19937 (Matsumoto, Nishimura), seeded and
 * drawn from as CPython does it, so that the same seed gives the same numbers.
 */
#include <stdint.h>

struct mt {
	uint32_t state[624];
	unsigned at;
};

/* random.seed(@seed) */
void mt_seed(struct mt *m, uint64_t seed);
uint32_t mt_next(struct mt *m);
/* random.random(): in [0, 1), 53 bits. */
double mt_random(struct mt *m);
/* random.randrange(@n), and what random.choice() uses; 0 when @n is 0. */
uint64_t mt_below(struct mt *m, uint64_t n);
/* random.randint(@lo, @hi): both ends are included; @lo when @hi is less. */
int64_t mt_int(struct mt *m, int64_t lo, int64_t hi);
/* random.uniform(@lo, @hi) */
double mt_uniform(struct mt *m, double lo, double hi);

#endif
