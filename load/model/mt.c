/* SPDX-License-Identifier: Apache-2.0 */
/* MT19937 as CPython's `random' uses it. */
#include "load/model/mt.h"

enum { N = 624, M = 397 };

static void init(struct mt *m, uint32_t seed)
{
	m->state[0] = seed;
	for (uint32_t i = 1; i < N; i++) {
		uint32_t last = m->state[i - 1];

		m->state[i] = 1812433253u * (last ^ last >> 30) + i;
	}
}

/* init_by_array() of the authors, with the 32-bit digits of the seed as the key. */
void mt_seed(struct mt *m, uint64_t seed)
{
	uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, *s = m->state;
	unsigned len = key[1] ? 2 : 1, i = 1;

	init(m, 19650218u);
	for (unsigned k = 0; k < N; k++) {
		s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1664525u) + key[k % len] + k % len;
		if (++i == N) {
			s[0] = s[N - 1];
			i = 1;
		}
	}
	for (unsigned k = 0; k < N - 1; k++) {
		s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1566083941u) - i;
		if (++i == N) {
			s[0] = s[N - 1];
			i = 1;
		}
	}
	s[0] = 0x80000000u;
	m->at = N;
}

static void twist(struct mt *m)
{
	uint32_t *s = m->state;

	for (unsigned i = 0; i < N; i++) {
		uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % N] & 0x7fffffffu);

		s[i] = s[(i + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
	}
	m->at = 0;
}

uint32_t mt_next(struct mt *m)
{
	uint32_t y;

	if (m->at >= N)
		twist(m);
	y = m->state[m->at++];
	y ^= y >> 11;
	y ^= y << 7 & 0x9d2c5680u;
	y ^= y << 15 & 0xefc60000u;
	return y ^ y >> 18;
}

double mt_random(struct mt *m)
{
	uint32_t a = mt_next(m) >> 5, b = mt_next(m) >> 6;

	return (a * 67108864.0 + b) / 9007199254740992.0;
}

/* random.getrandbits(@k), 1 <= @k <= 64: the low word comes first. */
static uint64_t bits(struct mt *m, unsigned k)
{
	uint64_t low;

	if (k <= 32)
		return mt_next(m) >> (32 - k);
	low = mt_next(m);
	return (uint64_t)(mt_next(m) >> (64 - k)) << 32 | low;
}

uint64_t mt_below(struct mt *m, uint64_t n)
{
	unsigned k;
	uint64_t v;

	if (!n)
		return 0;
	k = 64 - (unsigned)__builtin_clzll(n);
	do
		v = bits(m, k);
	while (v >= n);
	return v;
}

int64_t mt_int(struct mt *m, int64_t lo, int64_t hi)
{
	if (hi < lo)
		return lo;
	return (int64_t)((uint64_t)lo + mt_below(m, (uint64_t)hi - (uint64_t)lo + 1));
}

double mt_uniform(struct mt *m, double lo, double hi)
{
	return lo + (hi - lo) * mt_random(m);
}
