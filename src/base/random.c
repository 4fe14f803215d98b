/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, and the data pattern: content of the generator without ratios. */
#include "base/random.h"

#include "base/gen.h"

static inline uint64_t rotl(uint64_t v, unsigned n)
{
	return (v << n) | (v >> (64 - n));
}

void penstock_random_seed(struct penstock_random *r, uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++)
		r->s[i] = penstock_random_split(&seed);
}

uint64_t penstock_random_next(struct penstock_random *r)
{
	uint64_t *s = r->s;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

/* Lemire's multiplication method; the loop runs once but for a chance of n / 2^64. */
uint64_t penstock_random_below(struct penstock_random *r, uint64_t n)
{
	unsigned __int128 m = (unsigned __int128)penstock_random_next(r) * n;

	if ((uint64_t)m < n) {
		uint64_t floor = -n % n;

		while ((uint64_t)m < floor)
			m = (unsigned __int128)penstock_random_next(r) * n;
	}
	return (uint64_t)(m >> 64);
}

void penstock_pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t offset)
{
	struct penstock_gen g;

	penstock_gen_init_random(&g, seed);
	penstock_gen_fill(&g, 0, offset, buf, len);
}

size_t penstock_pattern_check(const void *buf, size_t len, uint64_t seed, uint64_t offset)
{
	struct penstock_gen g;

	penstock_gen_init_random(&g, seed);
	return penstock_gen_check(&g, 0, offset, buf, len);
}
