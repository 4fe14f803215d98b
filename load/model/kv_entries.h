/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_ENTRIES_H
#define PENSTOCK_MODEL_KV_ENTRIES_H

/*
 * The entries of a cache, by number and by key; inside of kv_cache*.c only.
 *
 * In a cache of millions of entries an operation costs as much as the lines of memory it touches.
 * So an entry is one line, and a bucket of the hash table is one line with the numbers and
 * hashes of seven entries (more lines, where there are more): two lines for an entry that is there,
 * one for one that is not.  Neither ever moves: memory comes in chunks, and the table grows by
 * linear hashing, which splits one bucket with every fourth entry instead of all of them now
 * and then.  There are no peaks, neither in time nor in memory: about 82 bytes per entry.
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
	uint32_t older, newer; /* neighbours in the order of allocation; newer: next free one */
	uint32_t prev, next;   /* neighbours in the list of the tier */
	uint8_t tier;
	uint8_t touched; /* tier in which the last touch was */
	bool live;
	uint8_t spare[5];
};
_Static_assert(sizeof(struct kv_entry) == 64, "an entry is one cache line");

enum { KV_LINE_SLOTS = 7 };

/* All lines of a bucket but the last are full. */
struct kv_bucket_line {
	uint32_t hash[KV_LINE_SLOTS], entry[KV_LINE_SLOTS];
	uint32_t nr;
	uint32_t more; /* number of the next line of the bucket, or KV_NONE; free lines, too */
};
_Static_assert(sizeof(struct kv_bucket_line) == 64, "a part of a bucket is one cache line");

/* Numbered lines of 64 bytes, in chunks that never move. */
enum { KV_CHUNK_SHIFT = 15, KV_CHUNK_BYTES = 64 << KV_CHUNK_SHIFT };
struct kv_chunks {
	char **v;
	uint32_t nr, capacity;
	uint32_t made; /* lines that were ever used */
	uint32_t free; /* first of those that are not, or KV_NONE */
};

struct kv_entries {
	struct kv_chunks entries;
	struct kv_chunks buckets, more; /* first lines, by number of the bucket; other lines */
	uint32_t live;
	uint32_t split; /* next bucket to split */
	uint32_t mask;  /* buckets at the last doubling, less 1 */
	uint32_t oldest, newest;
};

static inline void *kv_chunks_at(const struct kv_chunks *c, uint32_t i)
{
	return c->v[i >> KV_CHUNK_SHIFT] + (size_t)(i & ((1u << KV_CHUNK_SHIFT) - 1)) * 64;
}

static inline struct kv_entry *kv_entry(const struct kv_entries *s, uint32_t i)
{
	return kv_chunks_at(&s->entries, i);
}

int kv_entries_init(struct kv_entries *s); /* 0 or -ENOMEM */
void kv_entries_fini(struct kv_entries *s);

/* The number of the entry, or KV_NONE. */
uint32_t kv_entries_find(const struct kv_entries *s, struct kv_key key, uint32_t hash);
/* A new one, newest in the order of allocation, all else zeroed; KV_NONE: no memory. */
uint32_t kv_entries_add(struct kv_entries *s, struct kv_key key, uint32_t hash);
void kv_entries_remove(struct kv_entries *s, uint32_t i);

/*
 * Ask memory for what an operation will look at: its bucket; and, once that has come, its
 * entry, whose number is returned if it seems to be there.
 */
void kv_entries_prefetch(const struct kv_entries *s, uint32_t hash);
uint32_t kv_entries_prefetch_entry(const struct kv_entries *s, uint32_t hash);

uint64_t kv_entries_memory(const struct kv_entries *s);
/* Is every entry where it is looked for, and in the order of allocation once? */
bool kv_entries_are_consistent(const struct kv_entries *s);

#endif
