/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_RANDOM_H
#define PENSTOCK_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* xoshiro256** (Blackman, Vigna): one stream per seed, the same everywhere. */
struct penstock_random {
	uint64_t s[4];
};

/* splitmix64: one stream, of which any state is as good as another. */
static inline uint64_t penstock_random_split(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

void penstock_random_seed(struct penstock_random *r, uint64_t seed);
uint64_t penstock_random_next(struct penstock_random *r);
/* Uniform in [0, n), n > 0. */
uint64_t penstock_random_below(struct penstock_random *r, uint64_t n);

/*
 * Data that says where it belongs: byte i of the stream @seed is a function of
 * (seed, i) alone, so any range can be made or checked on its own, and blocks
 * that changed places do not look right.  Not compressible.
 */
void penstock_pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t offset);
/* Offset into @buf of the first byte that differs, or @len when none does. */
size_t penstock_pattern_check(const void *buf, size_t len, uint64_t seed, uint64_t offset);

#endif
