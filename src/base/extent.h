/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_EXTENT_H
#define PENSTOCK_BASE_EXTENT_H

/*
 * Who has which part of a slab or an arena.  Space is counted in units; an object gets as few
 * pieces as can be found without long looking, but it gets its space whenever enough units are
 * free, however they lie.
 */
#include <stdbool.h>
#include <stdint.h>

struct extent {
	uint32_t start, count; /* units */
};

/* The space of one object, in order.  Zeroed is nothing. */
struct extents {
	uint32_t nr;
	uint32_t capacity; /* of @many */
	struct extent one;
	struct extent *many; /* all of them, when there are several */
};

static inline const struct extent *extents_at(const struct extents *e, uint32_t i)
{
	return e->many ? &e->many[i] : &e->one;
}

struct extent_map;
/*
 * @units in all, of which @ready can be given out now (extent_map_grow()).  @good_piece: a piece of
 * so many units is large enough not to look further.  @lowest_first: always from the beginning, so
 * that as little as possible is ever touched; else each object behind the one before.
 */
struct extent_map *extent_map_new(uint64_t units, uint64_t ready, uint32_t good_piece,
				  bool lowest_first);
void extent_map_free(struct extent_map *m);

uint64_t extent_map_units(const struct extent_map *m);
uint64_t extent_map_ready(const struct extent_map *m);
uint64_t extent_map_unused(const struct extent_map *m); /* of those that are ready */
void extent_map_grow(struct extent_map *m, uint64_t ready);
/* More units, ready at once, in a map all of which is: 0 or -ENOMEM. */
int extent_map_extend(struct extent_map *m, uint64_t units);

/* 0, -ENOSPC or -ENOMEM, then with nothing taken. */
int extents_alloc(struct extents *e, struct extent_map *m, uint64_t units);
/* Give them back; @e is empty afterwards. */
void extents_free(struct extents *e, struct extent_map *m);
/* Take exactly this piece, which is then the last of @e: -EEXIST when part of it is in use. */
int extents_alloc_at(struct extents *e, struct extent_map *m, struct extent piece);
/* Where in the map unit @at of the object is, and how many lie there in a row; @hint: where to
 * begin looking, kept for the next call. */
struct extent_hint {
	uint32_t i;
	uint64_t before; /* units of the object before piece @i */
};
struct extent extents_find(const struct extents *e, uint64_t at, struct extent_hint *hint);

#endif
