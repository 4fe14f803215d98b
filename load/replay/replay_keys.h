/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPLAY_REPLAY_KEYS_H
#define PENSTOCK_REPLAY_REPLAY_KEYS_H

/*
 * The objects that exist at a point of the trace, and for each place the order in which they were
 * used.  Keys are known by 128 bits of hash: a table of millions must not hold their names.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "load/replay/replay.h"

struct replay_id {
	uint64_t a, b;
};
/* Of a key at a tier. */
struct replay_id replay_id(const char *key, uint32_t len, unsigned tier);

struct replay_key {
	struct penstock_table_node node; /* its hash is the one half of the id, ... */
	uint64_t id_b;                   /* ... this the other */
	uint64_t number;                 /* of the object in the flow; never used again */
	uint64_t size;
	struct replay_key *older, *newer;
	uint8_t place;
	bool initial; /* it was there before the trace began */
};

struct replay_keys {
	struct penstock_table table;
	struct replay_key **blocks, *unused; /* those are linked by @older */
	uint32_t nr_blocks;
	struct replay_key *oldest[REPLAY_PLACES], *newest[REPLAY_PLACES];
	uint64_t numbers; /* given out */
};

void replay_keys_fini(struct replay_keys *k);
struct replay_key *replay_keys_find(const struct replay_keys *k, struct replay_id id);
/* A new one, the newest of its place; NULL: no memory. */
struct replay_key *replay_keys_add(struct replay_keys *k, struct replay_id id, unsigned place,
				   uint64_t size);
/* Used just now. */
void replay_keys_touch(struct replay_keys *k, struct replay_key *e);
void replay_keys_remove(struct replay_keys *k, struct replay_key *e);
/* The one of @place that has not been used for longest, or NULL. */
struct replay_key *replay_keys_oldest(const struct replay_keys *k, unsigned place);

#endif
