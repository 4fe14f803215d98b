/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers and the data pattern.
 *
 * The pattern is made 8 bytes at a time: word j of stream s is splitmix64's
 * finaliser of (key(s) + j * golden ratio), stored little endian.  Two
 * multiplications a word keep it far above the speed of one drive, and every
 * bit of the output depends on the seed and on the place.
 */
#include "base/random.h"

#include <endian.h>
#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15ull

static inline uint64_t random_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t rotl(uint64_t v, unsigned n)
{
	return (v << n) | (v >> (64 - n));
}

void sluice_random_seed(struct sluice_random *r, uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++)
		r->s[i] = random_mix(seed += GOLDEN);
}

uint64_t sluice_random_next(struct sluice_random *r)
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
uint64_t sluice_random_below(struct sluice_random *r, uint64_t n)
{
	unsigned __int128 m = (unsigned __int128)sluice_random_next(r) * n;

	if ((uint64_t)m < n) {
		uint64_t floor = -n % n;

		while ((uint64_t)m < floor)
			m = (unsigned __int128)sluice_random_next(r) * n;
	}
	return (uint64_t)(m >> 64);
}

/* Word @index of the stream, in the byte order of the file. */
static inline uint64_t pattern_word(uint64_t key, uint64_t index)
{
	return htole64(random_mix(key + index * GOLDEN));
}

/* Neighbouring seeds must not give the same stream a few words apart. */
static inline uint64_t stream_key(uint64_t seed)
{
	return random_mix(seed ^ 0x736c756963650a1aull);
}

void sluice_pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t offset)
{
	uint64_t key = stream_key(seed);
	uint64_t index = offset / 8;
	size_t skip = offset % 8;
	unsigned char *p = buf;
	uint64_t w;

	if (skip && len) {
		size_t n = 8 - skip < len ? 8 - skip : len;

		w = pattern_word(key, index++);
		memcpy(p, (const unsigned char *)&w + skip, n);
		p += n;
		len -= n;
	}
	for (; len >= 8; len -= 8, p += 8) {
		w = pattern_word(key, index++);
		memcpy(p, &w, 8);
	}
	if (len) {
		w = pattern_word(key, index);
		memcpy(p, &w, len);
	}
}

/* First of @n bytes at which @a and @b differ, or @n. */
static size_t pattern_difference(const unsigned char *a, const void *b, size_t n)
{
	const unsigned char *q = b;
	size_t i = 0;

	while (i < n && a[i] == q[i])
		i++;
	return i;
}

size_t sluice_pattern_check(const void *buf, size_t len, uint64_t seed, uint64_t offset)
{
	uint64_t key = stream_key(seed);
	uint64_t index = offset / 8;
	size_t skip = offset % 8;
	const unsigned char *p = buf;
	size_t done = 0;
	uint64_t w, v;

	if (skip && len) {
		size_t n = 8 - skip < len ? 8 - skip : len;

		w = pattern_word(key, index++);
		done = pattern_difference(p, (const unsigned char *)&w + skip, n);
		if (done < n)
			return done;
	}
	for (; len - done >= 8; done += 8) {
		w = pattern_word(key, index++);
		memcpy(&v, p + done, 8);
		if (v != w)
			return done + pattern_difference(p + done, &w, 8);
	}
	w = pattern_word(key, index);
	return done + pattern_difference(p + done, &w, len - done);
}
