/* SPDX-License-Identifier: Apache-2.0 */
#include "load/object/content.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/util.h"

#define GOLDEN 0x9e3779b97f4a7c15ull

enum { WORDS = CONTENT_STAMP / 8 };

static inline uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ull;
	z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ull;
	return z ^ (z >> 32);
}

int content_init(struct content *c, uint64_t seed)
{
	c->seed = seed;
	c->noise = aligned_alloc(CONTENT_BLOCK, CONTENT_PERIOD);
	if (!c->noise)
		return -ENOMEM;
	penstock_pattern_fill(c->noise, CONTENT_PERIOD, seed, 0);
	return 0;
}

void content_fini(struct content *c)
{
	free(c->noise);
	c->noise = NULL;
}

/* The first two words can be read by people: whose block it is, and where it belongs. */
static void make_stamp(uint64_t stamp[WORDS], const struct content *c, uint64_t id, uint64_t pos)
{
	uint64_t key = mix(id ^ c->seed) + pos * GOLDEN;

	stamp[0] = htole64(id);
	stamp[1] = htole64(pos);
	for (unsigned i = 2; i < WORDS; i++)
		stamp[i] = htole64(mix(key += GOLDEN));
}

void content_noise(const struct content *c, void *buf, uint64_t len, uint64_t pos)
{
	for (uint64_t at = 0, n; at < len; at += n) {
		uint64_t phase = (pos + at) % CONTENT_PERIOD;

		n = min_u64(len - at, CONTENT_PERIOD - phase);
		memcpy((char *)buf + at, c->noise + phase, n);
	}
}

/* How much of [pos, pos + len) is in the first block. */
static uint64_t in_block(uint64_t pos, uint64_t len)
{
	return min_u64(len, CONTENT_BLOCK - pos % CONTENT_BLOCK);
}

/* And of its first @n bytes, how many are of the stamp. */
static uint64_t in_stamp(uint64_t pos, uint64_t n)
{
	uint64_t into = pos % CONTENT_BLOCK;

	return into < CONTENT_STAMP ? min_u64(n, CONTENT_STAMP - into) : 0;
}

void content_stamp(const struct content *c, void *buf, uint64_t len, uint64_t id, uint64_t pos)
{
	uint64_t stamp[WORDS], n, head;

	for (char *p = buf; len; p += n, pos += n, len -= n) {
		n = in_block(pos, len);
		head = in_stamp(pos, n);
		if (!head)
			continue;
		make_stamp(stamp, c, id, align_down(pos, CONTENT_BLOCK));
		memcpy(p, (const char *)stamp + pos % CONTENT_BLOCK, head);
	}
}

void content_fill(const struct content *c, void *buf, uint64_t len, uint64_t id, uint64_t pos)
{
	content_noise(c, buf, len, pos);
	content_stamp(c, buf, len, id, pos);
}

static uint64_t first_difference(const unsigned char *a, const unsigned char *b, uint64_t len)
{
	uint64_t i = 0;

	while (i < len && a[i] == b[i])
		i++;
	return i;
}

/* The same for a block, or a part of one. */
static uint64_t check_block(const struct content *c, const unsigned char *block, uint64_t len,
			    uint64_t id, uint64_t pos)
{
	const unsigned char *noise = c->noise + pos % CONTENT_PERIOD, *right;
	uint64_t head = in_stamp(pos, len);
	uint64_t stamp[WORDS];

	if (head) {
		make_stamp(stamp, c, id, align_down(pos, CONTENT_BLOCK));
		right = (const unsigned char *)stamp + pos % CONTENT_BLOCK;
		if (memcmp(block, right, head))
			return first_difference(block, right, head);
	}
	if (memcmp(block + head, noise + head, len - head))
		return head + first_difference(block + head, noise + head, len - head);
	return len;
}

uint64_t content_check(const struct content *c, const void *buf, uint64_t len, uint64_t id,
		       uint64_t pos)
{
	const unsigned char *p = buf;
	uint64_t n;

	for (uint64_t at = 0; at < len; at += n) {
		uint64_t good;

		n = in_block(pos + at, len - at);
		good = check_block(c, p + at, n, id, pos + at);
		if (good < n)
			return at + good;
	}
	return len;
}

uint64_t content_id(const void *name, size_t len)
{
	const unsigned char *p = name;
	uint64_t h = GOLDEN ^ len, word;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&word, p, 8);
		h = mix(h ^ le64toh(word)) + GOLDEN;
	}
	word = 0;
	memcpy(&word, p, len);
	return mix(h ^ le64toh(word));
}
