/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MODEL_KV_ENTRIES_H
#define SLUICE_MODEL_KV_ENTRIES_H

/*
 * The entries of a cache, by number and by key; inside of kv_cache*.c only.
 *
 * An entry is one line of the processor's cache and never moves: memory comes in chunks, so
 * growing copies nothing.  Keys are found by linear hashing: with every new entry at most two
 * buckets are split, instead of all of them now and then.  So neither time nor memory has
 * peaks: 72 bytes per entry, and a chunk.
 */
#include <stdbool.h>
#include <stdint.h>

#include "load/model/kv_cache.h"

#define KV_NONE UINT32_MAX /* no entry */

struct kv_entry {
	struct kv_key key;
	uint64_t stamp; /* of the last touch: unique, they grow */
	uint64_t size;  /* bytes of the object */
	uint32_t tokens;
	uint32_t hash;         /* low half of the key's */
	uint32_t chain;        /* next in the bucket; of a free entry: the next free one */
	uint32_t older, newer; /* neighbours in the order of allocation */
	uint32_t prev, next;   /* neighbours in the list of the tier */
	uint8_t tier;
	uint8_t touched; /* tier in which the last touch was */
	bool live;
	uint8_t spare;
};
_Static_assert(sizeof(struct kv_entry) == 64, "an entry is one cache line");

/* Numbered things of one size, in chunks that never move. */
struct kv_chunks {
	char **v;
	uint32_t nr, room;
};

struct kv_entries {
	struct kv_chunks entries, buckets;
	uint32_t made;  /* entries that were ever used */
	uint32_t live;  /* of them: in use */
	uint32_t free;  /* first of those that are not */
	uint32_t split; /* next bucket to split */
	uint32_t mask;  /* buckets at the last doubling, less 1 */
	uint32_t oldest, newest;
};

enum { KV_CHUNK_SHIFT = 15, KV_HEADS_SHIFT = 16 };

static inline struct kv_entry *kv_entry(const struct kv_entries *s, uint32_t i)
{
	char *chunk = s->entries.v[i >> KV_CHUNK_SHIFT];

	return (struct kv_entry *)(void *)chunk + (i & ((1u << KV_CHUNK_SHIFT) - 1));
}

int kv_entries_init(struct kv_entries *s); /* 0 or -ENOMEM */
void kv_entries_fini(struct kv_entries *s);

/* The number of the entry, or KV_NONE. */
uint32_t kv_entries_find(const struct kv_entries *s, struct kv_key key, uint32_t hash);
/* Ask for what a find will look at; costs next to nothing. */
void kv_entries_prefetch(const struct kv_entries *s, uint32_t hash);
/* A new one, newest in the order of allocation, all else zeroed; KV_NONE: no memory. */
uint32_t kv_entries_add(struct kv_entries *s, struct kv_key key, uint32_t hash);
void kv_entries_remove(struct kv_entries *s, uint32_t i);

uint64_t kv_entries_memory(const struct kv_entries *s);
/* Is every entry where it is looked for, and in the order of allocation once? */
bool kv_entries_sound(const struct kv_entries *s);

#endif
