/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KVSTORE_INDEX_H
#define PENSTOCK_KVSTORE_INDEX_H

/*
 * Which keys there are, and where their values lie: 80 bytes an entry, in an array that grows in
 * place (addresses are reserved, memory is not), and a table of 32-bit numbers with linear probing,
 * between three eighths and three quarters full.  A table that has become too small is moved into a
 * wider one a few places at a time, with every entry that is added, since the store waits
 * meanwhile.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/extent.h"

#define STORE_NONE UINT32_MAX

struct store_buf;

enum store_state {
	STORE_SPARE = 0,   /* not in use */
	STORE_WRITING = 1, /* nobody can find it yet */
	STORE_LIVE = 2,
	STORE_DEAD = 3, /* nobody can find it any more; goes with its last pin */
};

struct store_hash {
	uint64_t a, b;
};

struct store_entry {
	struct store_hash hash;
	uint64_t gen;         /* of its record in the log; the newest of a key wins */
	struct extents space; /* in the data file of its directory, in units */
	uint32_t len, crc;    /* of the value; the CRC is of key and value */
	uint32_t expiry;      /* second of the store's clock; 0: never */
	uint32_t pins;        /* transfers under way; the space is not given to others */
	uint32_t prev, next;  /* the policy's; @next of one that is spare: the next spare one */
	uint32_t recent;      /* slot of the copy in memory, or STORE_NONE */
	uint16_t key_len;
	uint8_t dir;
	uint8_t state : 2, queue : 2, freq : 2;
};
_Static_assert(sizeof(struct store_entry) == 80, "an entry has at most 100 bytes, table included");

struct store_index {
	struct store_entry *entries;
	uint32_t reserved; /* entries there are addresses for */
	uint32_t ready;    /* of these: that may be touched */
	uint32_t fresh;    /* of these: never used from here on */
	uint32_t spare;    /* first of the list */
	uint32_t *table;   /* number + 1, or 0 */
	uint32_t slots;    /* a power of two */
	uint32_t *old;     /* what is still being moved, or NULL; with STORE_MOVED where it was */
	uint32_t old_slots, moved;
	uint32_t used; /* entries in both */
};

int store_index_init(struct store_index *x);
void store_index_fini(struct store_index *x);
/* Memory in use. */
uint64_t store_index_bytes(const struct store_index *x);

static inline struct store_entry *store_index_at(const struct store_index *x, uint32_t i)
{
	return &x->entries[i];
}

static inline uint32_t store_index_nr(const struct store_index *x, const struct store_entry *e)
{
	return (uint32_t)(e - x->entries);
}

/* A new entry, zeroed, in no table: NULL without memory. */
struct store_entry *store_index_new(struct store_index *x);
void store_index_free(struct store_index *x, struct store_entry *e);

struct store_entry *store_index_find(const struct store_index *x, struct store_hash h);
/* Bring what a find will need into the processor's cache; first 0, then 1 for each. */
void store_index_prefetch(const struct store_index *x, struct store_hash h, int step);
/* No entry of this hash may be there.  0 or -ENOMEM. */
int store_index_add(struct store_index *x, struct store_entry *e);
void store_index_remove(struct store_index *x, const struct store_entry *e);

/* Every entry in use, of any state: begin with *@pos = 0. */
struct store_entry *store_index_next(const struct store_index *x, uint32_t *pos);

#endif
