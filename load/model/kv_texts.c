/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts by number, each stored once: blocks that never move hold the bytes, a table of
 * numbers finds a text that is there already.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/model/kv_key.h"

enum { BLOCK = 64 << 10, FIRST_SLOTS = 64 };

struct text {
	const char *at;
	size_t len;
	uint64_t hash;
};

struct block {
	struct block *next;
	char bytes[];
};

struct kv_texts {
	struct text *v;
	uint64_t nr, room;
	uint32_t *slots; /* number + 1, or 0; a power of two of them, at most half of them used */
	uint64_t nr_slots;
	struct block *blocks;
	char *free; /* in the first block */
	size_t left;
};

struct kv_texts *kv_texts_new(void)
{
	return calloc(1, sizeof(struct kv_texts));
}

void kv_texts_free(struct kv_texts *t)
{
	if (!t)
		return;
	for (struct block *b = t->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(t->slots);
	free(t->v);
	free(t);
}

/* FNV-1a, with the last step of splitmix64 to spread it. */
static uint64_t hash_of(const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3ull;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	return h ^ h >> 27;
}

/* The slot that has the text, or the free one where it belongs. */
static uint64_t text_slot(const struct kv_texts *t, const char *text, size_t len, uint64_t hash)
{
	uint64_t i = hash & (t->nr_slots - 1);

	for (; t->slots[i]; i = (i + 1) & (t->nr_slots - 1)) {
		const struct text *v = &t->v[t->slots[i] - 1];

		if (v->hash == hash && v->len == len && (!len || !memcmp(v->at, text, len)))
			break;
	}
	return i;
}

static int grow_slots(struct kv_texts *t)
{
	uint64_t nr = t->nr_slots ? 2 * t->nr_slots : FIRST_SLOTS;
	uint32_t *slots = calloc(nr, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (uint64_t n = 0; n < t->nr; n++) {
		uint64_t i = t->v[n].hash & (nr - 1);

		while (slots[i])
			i = (i + 1) & (nr - 1);
		slots[i] = (uint32_t)n + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->nr_slots = nr;
	return 0;
}

/* @len bytes and a final 0. */
static const char *text_keep(struct kv_texts *t, const char *text, size_t len)
{
	char *at;

	if (len + 1 > t->left) {
		size_t room = max_u64(len + 1, BLOCK);
		struct block *b = malloc(sizeof(*b) + room);

		if (!b)
			return NULL;
		b->next = t->blocks;
		t->blocks = b;
		t->free = b->bytes;
		t->left = room;
	}
	at = t->free;
	memcpy(at, text, len);
	at[len] = 0;
	t->free += len + 1;
	t->left -= len + 1;
	return at;
}

int64_t kv_texts_add(struct kv_texts *t, const char *text, size_t len)
{
	uint64_t hash = hash_of(text, len), slot;
	const char *at;

	if (2 * (t->nr + 1) > t->nr_slots && grow_slots(t) < 0)
		return -ENOMEM;
	slot = text_slot(t, text, len, hash);
	if (t->slots[slot])
		return t->slots[slot] - 1;
	if (t->nr >= UINT32_MAX || ARRAY_ROOM(t->v, t->room, t->nr + 1) < 0)
		return -ENOMEM;
	at = text_keep(t, text, len);
	if (!at)
		return -ENOMEM;
	t->v[t->nr] = (struct text){at, len, hash};
	t->slots[slot] = (uint32_t)++t->nr;
	return (int64_t)t->nr - 1;
}

const char *kv_texts_get(const struct kv_texts *t, uint64_t n, size_t *len)
{
	*len = n < t->nr ? t->v[n].len : 0;
	return n < t->nr ? t->v[n].at : "";
}
