/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bit per unit, set when it is free, and above it levels of one bit per word, set when
 * any bit in the word is: the next free unit is found in a few steps however much is taken.
 */
#include "base/extent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum {
	LEVELS = 6, /* 64^6 units */
	TRIES = 64, /* pieces too small that are passed over, for one object */
};

struct extent_map {
	uint64_t units, ready, unused;
	uint32_t good_piece;
	bool lowest_first;
	uint64_t next; /* where to look first */
	unsigned nr_levels;
	uint64_t *level[LEVELS];
	uint64_t bits[LEVELS];
};

void extent_map_free(struct extent_map *m)
{
	for (unsigned i = 0; m && i < m->nr_levels; i++)
		free(m->level[i]);
	free(m);
}

struct extent_map *extent_map_new(uint64_t units, uint64_t ready, uint32_t good_piece,
				  bool lowest_first)
{
	struct extent_map *m = calloc(1, sizeof(*m));
	uint64_t bits = max_u64(units, 1);

	if (!m || units > UINT32_MAX) {
		free(m);
		return NULL;
	}
	m->units = units;
	m->good_piece = good_piece;
	m->lowest_first = lowest_first;
	do {
		uint64_t words = (bits + 63) / 64;

		m->bits[m->nr_levels] = bits;
		m->level[m->nr_levels] = calloc(words, sizeof(uint64_t));
		if (!m->level[m->nr_levels++]) {
			extent_map_free(m);
			return NULL;
		}
		bits = words;
	} while (bits > 1 && m->nr_levels < LEVELS);
	extent_map_grow(m, ready);
	return m;
}

uint64_t extent_map_units(const struct extent_map *m)
{
	return m->units;
}

uint64_t extent_map_ready(const struct extent_map *m)
{
	return m->ready;
}

uint64_t extent_map_unused(const struct extent_map *m)
{
	return m->unused;
}

/* Bits [from, from + n) of one word, n <= 64. */
static uint64_t word_mask(unsigned from, uint64_t n)
{
	return (n >= 64 ? UINT64_MAX : (1ull << n) - 1) << from;
}

/* A word has become empty, or is no longer: tell the levels above. */
static void update_levels(struct extent_map *m, uint64_t word)
{
	for (unsigned i = 0; i + 1 < m->nr_levels; i++) {
		uint64_t *up = &m->level[i + 1][word / 64], old = *up;
		uint64_t bit = 1ull << word % 64;

		*up = m->level[i][word] ? old | bit : old & ~bit;
		if (*up == old)
			return;
		word /= 64;
	}
}

static void mark_units(struct extent_map *m, uint64_t start, uint64_t count, bool unused)
{
	uint64_t n;

	m->unused += unused ? count : -count;
	for (uint64_t at = start; at < start + count; at += n) {
		uint64_t *word = &m->level[0][at / 64], mask;

		n = min_u64(start + count - at, 64 - at % 64);
		mask = word_mask(at % 64, n);
		*word = unused ? *word | mask : *word & ~mask;
		update_levels(m, at / 64);
	}
}

void extent_map_grow(struct extent_map *m, uint64_t ready)
{
	ready = min_u64(ready, m->units);
	if (ready > m->ready) {
		mark_units(m, m->ready, ready - m->ready, true);
		m->ready = ready;
	}
}

int extent_map_extend(struct extent_map *m, uint64_t units)
{
	struct extent_map *n = extent_map_new(units, units, m->good_piece, m->lowest_first),
			  old = *m;

	if (!n)
		return -ENOMEM;
	for (uint64_t w = 0; w * 64 < m->units; w++) {
		uint64_t taken = ~m->level[0][w] & word_mask(0, m->units - w * 64);

		n->level[0][w] &= ~taken;
		n->unused -= (unsigned)__builtin_popcountll(taken);
		if (taken)
			update_levels(n, w);
	}
	n->next = m->next;
	*m = *n;
	*n = old;
	extent_map_free(n);
	return 0;
}

/* The first set bit of level @l at @from or behind it; m->bits[l] when there is none. */
static uint64_t next_set(const struct extent_map *m, unsigned l, uint64_t from)
{
	uint64_t word, up;

	if (from >= m->bits[l])
		return m->bits[l];
	word = m->level[l][from / 64] >> from % 64;
	if (word)
		return from + (unsigned)__builtin_ctzll(word);
	if (l + 1 == m->nr_levels)
		return m->bits[l];
	up = next_set(m, l + 1, from / 64 + 1);
	if (up >= m->bits[l + 1])
		return m->bits[l];
	return up * 64 + (unsigned)__builtin_ctzll(m->level[l][up]);
}

/* How many units are free from @start on, up to @max. */
static uint64_t run_length(const struct extent_map *m, uint64_t start, uint64_t max)
{
	uint64_t at = start, end = min_u64(start + max, m->ready);

	while (at < end) {
		uint64_t taken = ~m->level[0][at / 64] >> at % 64;

		if (taken)
			return min_u64(at + (unsigned)__builtin_ctzll(taken), end) - start;
		at += 64 - at % 64;
	}
	return end - start;
}

static int add_piece(struct extents *e, struct extent piece)
{
	struct extent *last = e->many ? &e->many[e->nr - 1] : &e->one;
	struct extent *many;
	uint32_t capacity;

	if (e->nr && last->start + last->count == piece.start) {
		last->count += piece.count;
		return 0;
	}
	if (e->nr && e->nr >= e->capacity) {
		capacity = e->capacity ? 2 * e->capacity : 8;
		many = realloc(e->many, capacity * sizeof(*many));
		if (!many)
			return -ENOMEM;
		if (!e->many)
			many[0] = e->one;
		e->many = many;
		e->capacity = capacity;
	}
	*(e->many ? &e->many[e->nr] : &e->one) = piece;
	e->nr++;
	return 0;
}

int extents_alloc(struct extents *e, struct extent_map *m, uint64_t units)
{
	uint64_t at = m->lowest_first ? 0 : m->next, start, n;
	unsigned tries = 0;

	*e = (struct extents){0};
	if (units > m->unused)
		return -ENOSPC;
	while (units) {
		start = next_set(m, 0, at);
		if (start >= m->bits[0]) {
			at = 0;
			tries++;
			continue;
		}
		n = run_length(m, start, units);
		at = start + n;
		if (n < min_u64(units, m->good_piece) && tries++ < TRIES)
			continue;
		if (add_piece(e, (struct extent){(uint32_t)start, (uint32_t)n}) < 0) {
			extents_free(e, m);
			return -ENOMEM;
		}
		mark_units(m, start, n, false);
		units -= n;
	}
	m->next = at;
	return 0;
}

int extents_alloc_at(struct extents *e, struct extent_map *m, struct extent piece)
{
	uint64_t end = (uint64_t)piece.start + piece.count;

	if (!piece.count || end > m->ready || run_length(m, piece.start, piece.count) < piece.count)
		return -EEXIST;
	if (add_piece(e, piece) < 0)
		return -ENOMEM;
	mark_units(m, piece.start, piece.count, false);
	return 0;
}

void extents_free(struct extents *e, struct extent_map *m)
{
	for (uint32_t i = 0; i < e->nr; i++) {
		const struct extent *x = extents_at(e, i);

		mark_units(m, x->start, x->count, true);
	}
	free(e->many);
	*e = (struct extents){0};
}

struct extent extents_find(const struct extents *e, uint64_t at, struct extent_hint *hint)
{
	const struct extent *x;

	if (at < hint->before)
		*hint = (struct extent_hint){0};
	while ((x = extents_at(e, hint->i))->count <= at - hint->before) {
		hint->before += x->count;
		hint->i++;
	}
	at -= hint->before;
	return (struct extent){x->start + (uint32_t)at, x->count - (uint32_t)at};
}
