/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_REUSE_H
#define PENSTOCK_TRACE_REUSE_H

/*
 * Which objects a trace touches, how far apart, and when.  The distance of a touch is what an LRU
 * cache must hold to still have the object: the objects touched since the last time and itself.
 *
 * Exact up to a number of objects, which bounds the memory.  Beyond it half of them are forgotten,
 * and of the rest only those are looked at whose hash falls into the half that is kept, and so on:
 * each then stands for 2, 4, ... objects (Waldspurger and others, "Efficient MRC Construction with
 * SHARDS", FAST 2015).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REUSE_KEYS    (1u << 19) /* exact up to so many; about 50 MiB */
#define REUSE_WINDOWS 64

struct reuse;
/* Returns NULL when there is no memory. */
struct reuse *reuse_new(size_t max_keys);
void reuse_free(struct reuse *u);

struct reuse_hit {
	bool again;              /* it was touched before */
	uint64_t objects, bytes; /* the distance, then */
	uint64_t weight;         /* for how many touches this one stands */
};
/*
 * Object @hash, of @size bytes, is touched in window @window.  1 with *@ret, 0 when it is not one
 * of those that are looked at, -ENOMEM.
 */
int reuse_touch(struct reuse *u, uint64_t hash, uint64_t size, unsigned window,
		struct reuse_hit *ret);
/* The object is gone; it may come back. */
void reuse_remove(struct reuse *u, uint64_t hash);

/* Windows become twice as wide: two become one. */
void reuse_widen(struct reuse *u);
/* Different objects and their bytes in each window. */
void reuse_windows(const struct reuse *u, uint64_t objects[REUSE_WINDOWS],
		   uint64_t bytes[REUSE_WINDOWS]);

struct reuse_totals {
	uint64_t weight;      /* 1: all of this is exact */
	uint64_t keys, bytes; /* different objects, and their last sizes */
	uint64_t peak_bytes;  /* of objects that were there at the same time */
};
void reuse_totals(const struct reuse *u, struct reuse_totals *ret);

#endif
