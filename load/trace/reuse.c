/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects are in a hash table.  Those that are there also have a place on a line, in the order of
 * their last touch; two Fenwick trees over the line tell how many objects and bytes are behind a
 * place.  When the line is used up, it is drawn again without the gaps.
 */
#include "load/trace/reuse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct object {
	uint64_t hash; /* 0: free slot */
	uint64_t size;
	uint64_t windows; /* a bit for each it was touched in */
	uint32_t place;   /* on the line, from 1; 0: gone */
};

struct reuse {
	struct object *slots;
	size_t nr, capacity; /* capacity: a power of two */
	size_t max_keys;
	unsigned halvings; /* hashes are below 2^(64 - halvings) */
	uint32_t *count;   /* Fenwick trees, from 1 */
	uint64_t *bytes;
	uint32_t line, used; /* length of the line, places taken */
	uint64_t live_objects, live_bytes, peak_bytes;
};

/* ---------------------------------------------------------------- the line */

static void line_add(struct reuse *u, uint32_t place, int sign, uint64_t size)
{
	for (uint32_t i = place; i <= u->line; i += i & -i) {
		u->count[i] += (uint32_t)sign;
		u->bytes[i] += sign > 0 ? size : 0 - size;
	}
}

/* Of all up to @place. */
static void line_sum(const struct reuse *u, uint32_t place, uint64_t *objects, uint64_t *bytes)
{
	*objects = *bytes = 0;
	for (uint32_t i = place; i; i -= i & -i) {
		*objects += u->count[i];
		*bytes += u->bytes[i];
	}
}

/* A line of @length places with nothing on it. */
static int line_new(struct reuse *u, uint32_t length)
{
	uint32_t *count = calloc(length + 1ul, sizeof(*count));
	uint64_t *bytes = calloc(length + 1ul, sizeof(*bytes));

	if (!count || !bytes) {
		free(count);
		free(bytes);
		return -ENOMEM;
	}
	free(u->count);
	free(u->bytes);
	u->count = count;
	u->bytes = bytes;
	u->line = length;
	u->used = 0;
	u->live_objects = u->live_bytes = 0;
	return 0;
}

static void line_append(struct reuse *u, struct object *o)
{
	o->place = ++u->used;
	line_add(u, o->place, 1, o->size);
	u->live_objects++;
	u->live_bytes += o->size;
	u->peak_bytes = max_u64(u->peak_bytes, u->live_bytes << u->halvings);
}

static void line_take(struct reuse *u, struct object *o)
{
	line_add(u, o->place, -1, o->size);
	o->place = 0;
	u->live_objects--;
	u->live_bytes -= o->size;
}

/* The same order without gaps, with room for as many again. */
static int line_redraw(struct reuse *u)
{
	CLEANUP_FREE uint32_t *order = calloc(u->used + 1ul, sizeof(*order));
	uint32_t used = u->used;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < u->capacity; i++)
		if (u->slots[i].hash && u->slots[i].place)
			order[u->slots[i].place] = (uint32_t)i + 1;
	if (line_new(u, (uint32_t)max_u64(2 * u->live_objects, 1024)) < 0)
		return -ENOMEM;
	for (uint32_t i = 1; i <= used; i++)
		if (order[i])
			line_append(u, &u->slots[order[i] - 1]);
	return 0;
}

/* --------------------------------------------------------------- the table */

static size_t reuse_find(const struct object *slots, size_t capacity, uint64_t hash)
{
	size_t i = (size_t)(hash * 0x9e3779b97f4a7c15ull >> 20) & (capacity - 1);

	while (slots[i].hash && slots[i].hash != hash)
		i = (i + 1) & (capacity - 1);
	return i;
}

static bool is_kept(const struct reuse *u, uint64_t hash)
{
	return !u->halvings || hash >> (64 - u->halvings) == 0;
}

/* A table of @capacity slots with those that are still kept. */
static int rebuild(struct reuse *u, size_t capacity)
{
	struct object *slots = calloc(capacity, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	u->nr = 0;
	for (size_t i = 0; i < u->capacity; i++) {
		struct object *o = &u->slots[i];

		if (!o->hash)
			continue;
		if (is_kept(u, o->hash)) {
			slots[reuse_find(slots, capacity, o->hash)] = *o;
			u->nr++;
		} else if (o->place) {
			line_take(u, o);
		}
	}
	free(u->slots);
	u->slots = slots;
	u->capacity = capacity;
	return 0;
}

/* Room for one more object. */
static int reuse_reserve(struct reuse *u)
{
	int r = 0;

	if (u->nr >= u->max_keys) {
		u->halvings++;
		r = rebuild(u, u->capacity);
	} else if (u->nr >= u->capacity / 4 * 3) {
		r = rebuild(u, u->capacity * 2);
	}
	if (r == 0 && u->used == u->line)
		r = line_redraw(u);
	return r;
}

struct reuse *reuse_new(size_t max_keys)
{
	struct reuse *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->max_keys = max_keys;
	u->capacity = 1024;
	u->slots = calloc(u->capacity, sizeof(*u->slots));
	if (!u->slots || line_new(u, 1024) < 0) {
		reuse_free(u);
		return NULL;
	}
	return u;
}

void reuse_free(struct reuse *u)
{
	if (!u)
		return;
	free(u->slots);
	free(u->count);
	free(u->bytes);
	free(u);
}

/* ------------------------------------------------------------------ touching */

/* What was touched since, each of them for as many as it stands for, and the object itself. */
static void distance(const struct reuse *u, const struct object *o, struct reuse_hit *ret)
{
	uint64_t objects, bytes;

	line_sum(u, o->place, &objects, &bytes);
	ret->again = true;
	ret->objects = ((u->live_objects - objects) << u->halvings) + 1;
	ret->bytes = ((u->live_bytes - bytes) << u->halvings) + o->size;
}

int reuse_touch(struct reuse *u, uint64_t hash, uint64_t size, unsigned window,
		struct reuse_hit *ret)
{
	struct object *o;

	hash += !hash;
	*ret = (struct reuse_hit){.again = false};
	if (!is_kept(u, hash))
		return 0;
	if (reuse_reserve(u) < 0)
		return -ENOMEM;
	if (!is_kept(u, hash)) /* no longer */
		return 0;
	o = &u->slots[reuse_find(u->slots, u->capacity, hash)];
	if (!o->hash) {
		o->hash = hash;
		u->nr++;
	}
	if (o->place) {
		distance(u, o, ret);
		line_take(u, o);
	}
	o->size = size;
	o->windows |= 1ull << window;
	line_append(u, o);
	ret->weight = 1ull << u->halvings;
	return 1;
}

void reuse_remove(struct reuse *u, uint64_t hash)
{
	struct object *o;

	hash += !hash;
	o = &u->slots[reuse_find(u->slots, u->capacity, hash)];
	if (o->hash && o->place)
		line_take(u, o);
}

/* ------------------------------------------------------------------- windows */

/* Bits 0 and 1 become bit 0, 2 and 3 bit 1, ... */
static uint64_t halve(uint64_t x)
{
	x = (x | x >> 1) & 0x5555555555555555ull;
	x = (x | x >> 1) & 0x3333333333333333ull;
	x = (x | x >> 2) & 0x0f0f0f0f0f0f0f0full;
	x = (x | x >> 4) & 0x00ff00ff00ff00ffull;
	x = (x | x >> 8) & 0x0000ffff0000ffffull;
	return (x | x >> 16) & 0x00000000ffffffffull;
}

void reuse_widen(struct reuse *u)
{
	for (size_t i = 0; i < u->capacity; i++)
		u->slots[i].windows = halve(u->slots[i].windows);
}

void reuse_windows(const struct reuse *u, uint64_t objects[REUSE_WINDOWS],
		   uint64_t bytes[REUSE_WINDOWS])
{
	memset(objects, 0, REUSE_WINDOWS * sizeof(*objects));
	memset(bytes, 0, REUSE_WINDOWS * sizeof(*bytes));
	for (size_t i = 0; i < u->capacity; i++) {
		const struct object *o = &u->slots[i];

		for (uint64_t w = o->windows; o->hash && w; w &= w - 1) {
			objects[__builtin_ctzll(w)] += 1ull << u->halvings;
			bytes[__builtin_ctzll(w)] += o->size << u->halvings;
		}
	}
}

void reuse_totals(const struct reuse *u, struct reuse_totals *ret)
{
	*ret = (struct reuse_totals){
		.weight = 1ull << u->halvings,
		.keys = (uint64_t)u->nr << u->halvings,
		.peak_bytes = u->peak_bytes,
	};
	for (size_t i = 0; i < u->capacity; i++)
		if (u->slots[i].hash)
			ret->bytes += u->slots[i].size << u->halvings;
}
