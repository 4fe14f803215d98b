/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks, buckets and the order of allocation: see kv_entries.h. */
#include "load/model/kv_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"

/* Buckets hold KV_NONE or the first entry of their chain; half an entry each on average. */
enum {
	ENTRY_CHUNK = sizeof(struct kv_entry) << KV_CHUNK_SHIFT,
	HEAD_CHUNK = sizeof(uint32_t) << KV_HEADS_SHIFT,
	FIRST_BUCKETS = 1024,
	BUCKETS_PER_ENTRY = 2
};

static int chunks_grow(struct kv_chunks *c, size_t size)
{
	char *chunk;

	if (c->nr == c->room) {
		uint32_t room = c->room ? 2 * c->room : 16;
		char **v = reallocarray(c->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		c->v = v;
		c->room = room;
	}
	chunk = aligned_alloc(size, size);
	if (!chunk)
		return -ENOMEM;
	/* Small caches do not need a huge page; large ones are all about misses of the TLB. */
	if (c->nr)
		madvise(chunk, size, MADV_HUGEPAGE);
	c->v[c->nr++] = chunk;
	return 0;
}

static void chunks_fini(struct kv_chunks *c)
{
	for (uint32_t i = 0; i < c->nr; i++)
		free(c->v[i]);
	free(c->v);
}

/* ---- buckets ---- */

static uint32_t *head(const struct kv_entries *s, uint32_t b)
{
	char *chunk = s->buckets.v[b >> KV_HEADS_SHIFT];

	return (uint32_t *)(void *)chunk + (b & ((1u << KV_HEADS_SHIFT) - 1));
}

/* Those before `split' are split already: one more bit counts for them. */
static uint32_t bucket_of(const struct kv_entries *s, uint32_t hash)
{
	uint32_t b = hash & s->mask;

	return b < s->split ? hash & (2 * s->mask + 1) : b;
}

/* The new bucket is the one above: what is in its memory does not matter. */
static int split_one(struct kv_entries *s)
{
	uint32_t from = s->split, to = from + s->mask + 1, bit = s->mask + 1, *stay, *go, next;

	if (to >> KV_HEADS_SHIFT >= s->buckets.nr && chunks_grow(&s->buckets, HEAD_CHUNK) < 0)
		return -ENOMEM;
	stay = head(s, from);
	go = head(s, to);
	for (uint32_t i = *stay; i != KV_NONE; i = next) {
		struct kv_entry *e = kv_entry(s, i);
		uint32_t **at = e->hash & bit ? &go : &stay;

		next = e->chain;
		**at = i;
		*at = &e->chain;
	}
	*stay = KV_NONE;
	*go = KV_NONE;
	if (++s->split > s->mask) {
		s->mask = 2 * s->mask + 1;
		s->split = 0;
	}
	return 0;
}

static uint64_t nr_buckets(const struct kv_entries *s)
{
	return (uint64_t)s->mask + 1 + s->split;
}

uint32_t kv_entries_find(const struct kv_entries *s, struct kv_key key, uint32_t hash)
{
	uint32_t i = *head(s, bucket_of(s, hash));

	while (i != KV_NONE) {
		const struct kv_entry *e = kv_entry(s, i);

		if (kv_key_equal(e->key, key))
			return i;
		i = e->chain;
	}
	return KV_NONE;
}

void kv_entries_prefetch(const struct kv_entries *s, uint32_t hash)
{
	__builtin_prefetch(head(s, bucket_of(s, hash)));
}

static void unchain(struct kv_entries *s, uint32_t i)
{
	uint32_t *at = head(s, bucket_of(s, kv_entry(s, i)->hash));

	while (*at != i)
		at = &kv_entry(s, *at)->chain;
	*at = kv_entry(s, i)->chain;
}

/* ---- entries ---- */

int kv_entries_init(struct kv_entries *s)
{
	*s = (struct kv_entries){
		.free = KV_NONE, .oldest = KV_NONE, .newest = KV_NONE, .mask = FIRST_BUCKETS - 1};
	if (chunks_grow(&s->buckets, HEAD_CHUNK) < 0)
		return -ENOMEM;
	memset(head(s, 0), 0xff, FIRST_BUCKETS * sizeof(uint32_t));
	return 0;
}

void kv_entries_fini(struct kv_entries *s)
{
	chunks_fini(&s->entries);
	chunks_fini(&s->buckets);
}

static uint32_t take_free(struct kv_entries *s)
{
	uint32_t i = s->free;

	if (i != KV_NONE) {
		s->free = kv_entry(s, i)->chain;
		return i;
	}
	if (s->made == KV_NONE)
		return KV_NONE;
	if (s->made >> KV_CHUNK_SHIFT >= s->entries.nr && chunks_grow(&s->entries, ENTRY_CHUNK) < 0)
		return KV_NONE;
	return s->made++;
}

uint32_t kv_entries_add(struct kv_entries *s, struct kv_key key, uint32_t hash)
{
	struct kv_entry *e;
	uint32_t i, *at;

	while (nr_buckets(s) < BUCKETS_PER_ENTRY * ((uint64_t)s->live + 1) && s->mask < 1u << 31)
		if (split_one(s) < 0)
			return KV_NONE;
	i = take_free(s);
	if (i == KV_NONE)
		return i;
	at = head(s, bucket_of(s, hash));
	e = kv_entry(s, i);
	*e = (struct kv_entry){.key = key,
			       .hash = hash,
			       .chain = *at,
			       .older = s->newest,
			       .newer = KV_NONE,
			       .prev = KV_NONE,
			       .next = KV_NONE,
			       .live = true};
	*at = i;
	if (s->newest == KV_NONE)
		s->oldest = i;
	else
		kv_entry(s, s->newest)->newer = i;
	s->newest = i;
	s->live++;
	return i;
}

void kv_entries_remove(struct kv_entries *s, uint32_t i)
{
	struct kv_entry *e = kv_entry(s, i);

	unchain(s, i);
	if (e->older == KV_NONE)
		s->oldest = e->newer;
	else
		kv_entry(s, e->older)->newer = e->newer;
	if (e->newer == KV_NONE)
		s->newest = e->older;
	else
		kv_entry(s, e->newer)->older = e->older;
	e->live = false;
	e->chain = s->free;
	s->free = i;
	s->live--;
}

uint64_t kv_entries_memory(const struct kv_entries *s)
{
	return (uint64_t)s->entries.nr * ENTRY_CHUNK + (uint64_t)s->buckets.nr * HEAD_CHUNK +
	       (uint64_t)(s->entries.room + s->buckets.room) * sizeof(char *);
}

bool kv_entries_sound(const struct kv_entries *s)
{
	uint32_t n = 0, before = KV_NONE;

	for (uint32_t i = s->oldest; i != KV_NONE; i = kv_entry(s, i)->newer) {
		const struct kv_entry *e = kv_entry(s, i);

		if (++n > s->live || !e->live || e->older != before ||
		    e->hash != (uint32_t)kv_key_hash(e->key) ||
		    kv_entries_find(s, e->key, e->hash) != i)
			return false;
		before = i;
	}
	return n == s->live && before == s->newest;
}
