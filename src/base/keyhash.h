/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_KEYHASH_H
#define PENSTOCK_BASE_KEYHASH_H

/* A hash of keys, the same everywhere and always: samples of a trace depend on it. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t penstock_hash_mix(uint64_t a, uint64_t b)
{
	__uint128_t m = (__uint128_t)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Eight bytes at a time, the number of bytes and @seed included. */
static inline uint64_t penstock_key_hash(const char *key, size_t len, uint64_t seed)
{
	uint64_t h = penstock_hash_mix(seed ^ 0x9e3779b97f4a7c15ull, len ^ 0xe7037ed1a0b428dbull);

	for (; len; key += 8) {
		size_t n = len < 8 ? len : 8;
		uint64_t w = 0;

		memcpy(&w, key, n);
		h = penstock_hash_mix(h ^ w, 0xa0761d6478bd642full) + w;
		len -= n;
	}
	return penstock_hash_mix(h ^ 0x8ebc6af09c88c6e3ull, 0x589965cc75374cc3ull);
}

#endif
