/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_LOAD_DRAW_H
#define PENSTOCK_MODEL_KV_LOAD_DRAW_H

/*
 * Draws of the load.  Everything that draws has a stream of its own, found by its name (a kind, a
 * number and how many times it has drawn before), so nothing depends on the order of other things.
 */
#include <stdint.h>

#include "base/random.h"

enum kv_stream {
	KV_STREAM_USER,     /* number: user, n: request */
	KV_STREAM_RAG,      /* the same of the extra request */
	KV_STREAM_DOC,      /* number: document */
	KV_STREAM_RECORDED, /* n: request of the input */
	KV_STREAM_CONV,     /* number: pass, n: conversation of the input */
	KV_STREAM_SHUFFLE,  /* number: pass */
};

/* Odd, and no multiple of what penstock_random_seed() steps by: streams do not overlap. */
#define KV_STREAM_STEP 0xd1342543de82ef95ull

/* All streams of one kind and number, for those who draw from many of them. */
static inline uint64_t kv_stream_key(uint64_t seed, enum kv_stream kind, uint64_t number)
{
	struct penstock_random r;

	penstock_random_seed(&r, seed ^ ((uint64_t)(kind + 1) << 56));
	penstock_random_seed(&r, penstock_random_next(&r) + number * KV_STREAM_STEP);
	return penstock_random_next(&r);
}

static inline struct penstock_random kv_stream_at(uint64_t key, uint64_t n)
{
	struct penstock_random r;

	penstock_random_seed(&r, key + n * KV_STREAM_STEP);
	return r;
}

static inline struct penstock_random kv_stream(uint64_t seed, enum kv_stream kind, uint64_t number,
					       uint64_t n)
{
	return kv_stream_at(kv_stream_key(seed, kind, number), n);
}

/* Uniform in [0, 1). */
static inline double kv_unit(struct penstock_random *r)
{
	return (double)(penstock_random_next(r) >> 11) * 0x1p-53;
}

/* Uniform in [lo, hi]; lo when there is nothing to choose from. */
static inline uint64_t kv_between(struct penstock_random *r, uint64_t lo, uint64_t hi)
{
	return hi <= lo ? lo : lo + penstock_random_below(r, hi - lo + 1);
}

#endif
