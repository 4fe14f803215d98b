/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks, buckets and the order of allocation: see kv_entries.h. */
#include "load/model/kv_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/util.h"

/*
 * Four entries to a bucket on average: those not yet split have up to eight, and few of them need a
 * second line.
 */
enum { FIRST_BUCKETS = 256, PER_BUCKET = 4 };

/* ---- chunks ---- */

static int chunks_grow(struct kv_chunks *c)
{
	char *chunk;

	if (ARRAY_RESERVE(c->v, c->capacity, c->nr + 1) < 0)
		return -ENOMEM;
	chunk = aligned_alloc(KV_CHUNK_BYTES, KV_CHUNK_BYTES);
	if (!chunk)
		return -ENOMEM;
	/* Small caches do not need a huge page; large ones are all about misses of the TLB. */
	if (c->nr)
		madvise(chunk, KV_CHUNK_BYTES, MADV_HUGEPAGE);
	c->v[c->nr++] = chunk;
	return 0;
}

/* One more line at the end; KV_NONE: no memory. */
static uint32_t chunks_extend(struct kv_chunks *c)
{
	if (c->made == KV_NONE)
		return KV_NONE;
	if (c->made >> KV_CHUNK_SHIFT >= c->nr && chunks_grow(c) < 0)
		return KV_NONE;
	return c->made++;
}

static void chunks_fini(struct kv_chunks *c)
{
	for (uint32_t i = 0; i < c->nr; i++)
		free(c->v[i]);
	free(c->v);
}

/* ---- buckets ---- */

static struct kv_bucket_line *entry_bucket(const struct kv_entries *s, uint32_t b)
{
	return kv_chunks_at(&s->buckets, b);
}

/* The line behind @l, or NULL. */
static struct kv_bucket_line *next_line(const struct kv_entries *s, const struct kv_bucket_line *l)
{
	return l->more == KV_NONE ? NULL : kv_chunks_at(&s->more, l->more);
}

static struct kv_bucket_line *last_line(const struct kv_entries *s, struct kv_bucket_line *l)
{
	while (l->more != KV_NONE)
		l = next_line(s, l);
	return l;
}

/* Those before `split' are split already: one more bit counts for them. */
static uint32_t entry_bucket_of(const struct kv_entries *s, uint32_t hash)
{
	uint32_t b = hash & s->mask;

	return b < s->split ? hash & (2 * s->mask + 1) : b;
}

static uint32_t take_line(struct kv_entries *s)
{
	uint32_t n = s->more.free;

	if (n == KV_NONE)
		return chunks_extend(&s->more);
	s->more.free = ((struct kv_bucket_line *)kv_chunks_at(&s->more, n))->more;
	return n;
}

/* Give back the line behind @l. */
static void free_next_line(struct kv_entries *s, struct kv_bucket_line *l)
{
	struct kv_bucket_line *next = next_line(s, l);
	uint32_t n = l->more;

	l->more = next->more;
	next->more = s->more.free;
	s->more.free = n;
}

static int entry_put(struct kv_entries *s, struct kv_bucket_line *l, uint32_t hash, uint32_t i)
{
	l = last_line(s, l);
	if (l->nr == KV_LINE_SLOTS) {
		uint32_t n = take_line(s);

		if (n == KV_NONE)
			return -ENOMEM;
		l->more = n;
		l = next_line(s, l);
		l->nr = 0;
		l->more = KV_NONE;
	}
	l->hash[l->nr] = hash;
	l->entry[l->nr++] = i;
	return 0;
}

/*
 * Share a bucket out among itself and a new one.  A line is given back before what was in it is
 * put elsewhere, and the two never need more lines than the one had: entry_put() finds a free one.
 */
static int split_one(struct kv_entries *s)
{
	uint32_t bit = s->mask + 1, to = chunks_extend(&s->buckets);
	struct kv_bucket_line *from = entry_bucket(s, s->split), *go, old = *from;
	bool again = true;

	if (to == KV_NONE)
		return -ENOMEM;
	go = entry_bucket(s, to);
	go->nr = from->nr = 0;
	go->more = from->more = KV_NONE;
	while (again) {
		struct kv_bucket_line now = old;

		again = now.more != KV_NONE;
		if (again) {
			struct kv_bucket_line *next = next_line(s, &now);

			old = *next;
			next->more = s->more.free;
			s->more.free = now.more;
		}
		for (uint32_t k = 0; k < now.nr; k++)
			entry_put(s, now.hash[k] & bit ? go : from, now.hash[k], now.entry[k]);
	}
	if (++s->split > s->mask) {
		s->mask = 2 * s->mask + 1;
		s->split = 0;
	}
	return 0;
}

uint32_t kv_entries_find(const struct kv_entries *s, struct kv_key key, uint32_t hash)
{
	for (const struct kv_bucket_line *l = entry_bucket(s, entry_bucket_of(s, hash)); l;
	     l = next_line(s, l))
		for (uint32_t k = 0; k < l->nr; k++)
			if (l->hash[k] == hash && kv_key_equal(kv_entry(s, l->entry[k])->key, key))
				return l->entry[k];
	return KV_NONE;
}

/* The last slot of the bucket takes the place of the one that is freed. */
static void take_out(struct kv_entries *s, uint32_t i, uint32_t hash)
{
	struct kv_bucket_line *l = entry_bucket(s, entry_bucket_of(s, hash)), *before = NULL,
			      *end = l;
	uint32_t k = 0;

	while (l->entry[k] != i) {
		if (++k == l->nr) {
			l = next_line(s, l);
			k = 0;
		}
	}
	for (; end->more != KV_NONE; end = next_line(s, end))
		before = end;
	end->nr--;
	l->hash[k] = end->hash[end->nr];
	l->entry[k] = end->entry[end->nr];
	if (!end->nr && before)
		free_next_line(s, before);
}

void kv_entries_prefetch(const struct kv_entries *s, uint32_t hash)
{
	__builtin_prefetch(entry_bucket(s, entry_bucket_of(s, hash)));
}

uint32_t kv_entries_prefetch_entry(const struct kv_entries *s, uint32_t hash)
{
	const struct kv_bucket_line *l = entry_bucket(s, entry_bucket_of(s, hash));

	for (uint32_t k = 0; k < l->nr; k++) {
		if (l->hash[k] == hash) {
			__builtin_prefetch(kv_entry(s, l->entry[k]));
			return l->entry[k];
		}
	}
	return KV_NONE;
}

/* ---- entries ---- */

int kv_entries_init(struct kv_entries *s)
{
	*s = (struct kv_entries){.oldest = KV_NONE, .newest = KV_NONE, .mask = FIRST_BUCKETS - 1};
	s->entries.free = s->buckets.free = s->more.free = KV_NONE;
	for (uint32_t b = 0; b < FIRST_BUCKETS; b++) {
		if (chunks_extend(&s->buckets) == KV_NONE)
			return -ENOMEM;
		entry_bucket(s, b)->nr = 0;
		entry_bucket(s, b)->more = KV_NONE;
	}
	return 0;
}

void kv_entries_fini(struct kv_entries *s)
{
	chunks_fini(&s->entries);
	chunks_fini(&s->buckets);
	chunks_fini(&s->more);
}

static uint32_t entry_take(struct kv_entries *s)
{
	uint32_t i = s->entries.free;

	if (i == KV_NONE)
		return chunks_extend(&s->entries);
	s->entries.free = kv_entry(s, i)->newer;
	return i;
}

static void free_entry(struct kv_entries *s, uint32_t i)
{
	kv_entry(s, i)->live = false;
	kv_entry(s, i)->newer = s->entries.free;
	s->entries.free = i;
}

uint32_t kv_entries_add(struct kv_entries *s, struct kv_key key, uint32_t hash)
{
	struct kv_entry *e;
	uint32_t i;

	while ((uint64_t)s->buckets.made * PER_BUCKET <= s->live)
		if (split_one(s) < 0)
			return KV_NONE;
	i = entry_take(s);
	if (i == KV_NONE)
		return i;
	e = kv_entry(s, i);
	if (entry_put(s, entry_bucket(s, entry_bucket_of(s, hash)), hash, i) < 0) {
		free_entry(s, i);
		return KV_NONE;
	}
	*e = (struct kv_entry){.key = key,
			       .hash = hash,
			       .older = s->newest,
			       .newer = KV_NONE,
			       .prev = KV_NONE,
			       .next = KV_NONE,
			       .live = true};
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
	const struct kv_entry *e = kv_entry(s, i);

	take_out(s, i, e->hash);
	if (e->older == KV_NONE)
		s->oldest = e->newer;
	else
		kv_entry(s, e->older)->newer = e->newer;
	if (e->newer == KV_NONE)
		s->newest = e->older;
	else
		kv_entry(s, e->newer)->older = e->older;
	free_entry(s, i);
	s->live--;
}

static uint64_t chunks_memory(const struct kv_chunks *c)
{
	return (uint64_t)c->nr * KV_CHUNK_BYTES + c->capacity * sizeof(*c->v);
}

uint64_t kv_entries_memory(const struct kv_entries *s)
{
	return chunks_memory(&s->entries) + chunks_memory(&s->buckets) + chunks_memory(&s->more);
}

/* Every line and every entry that was ever made is in use or free. */
static bool none_lost(const struct kv_entries *s)
{
	uint32_t lines = 0, entries = s->live, slots = 0;

	for (uint32_t b = 0; b < s->buckets.made; b++) {
		const struct kv_bucket_line *l = entry_bucket(s, b);

		slots += l->nr;
		while ((l = next_line(s, l)) && lines++ <= s->more.made)
			slots += l->nr;
	}
	for (uint32_t i = s->more.free; i != KV_NONE && lines <= s->more.made; lines++)
		i = ((struct kv_bucket_line *)kv_chunks_at(&s->more, i))->more;
	for (uint32_t i = s->entries.free; i != KV_NONE && entries <= s->entries.made; entries++)
		i = kv_entry(s, i)->newer;
	return slots == s->live && lines == s->more.made && entries == s->entries.made;
}

bool kv_entries_are_consistent(const struct kv_entries *s)
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
	return n == s->live && before == s->newest && none_lost(s);
}
