/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts by number, each stored once: blocks that never move hold them, a table finds a text that
 * is there already.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyhash.h"
#include "base/table.h"
#include "base/util.h"
#include "load/model/kv_key.h"

enum { BLOCK = 64 << 10 };

struct text {
	struct penstock_table_node node;
	size_t len;
	uint32_t number;
	char bytes[]; /* and a 0 */
};

struct block {
	struct block *next;
	char bytes[] __attribute__((aligned(8)));
};

struct kv_texts {
	struct text **v;
	uint64_t nr, capacity;
	struct penstock_table table;
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
	penstock_table_fini(&t->table);
	free(t->v);
	free(t);
}

static struct text *text_find(const struct kv_texts *t, const char *text, size_t len, uint64_t hash)
{
	for (struct penstock_table_node *n = penstock_table_find(&t->table, hash); n;
	     n = penstock_table_find_next(n)) {
		struct text *x = container_of(n, struct text, node);

		if (x->len == len && !memcmp(x->bytes, text, len))
			return x;
	}
	return NULL;
}

static struct text *text_keep(struct kv_texts *t, const char *text, size_t len)
{
	size_t size = align_up(offsetof(struct text, bytes) + len + 1, 8);
	struct text *x;

	if (size > t->left) {
		size_t capacity = max_u64(size, BLOCK);
		struct block *b = malloc(sizeof(*b) + capacity);

		if (!b)
			return NULL;
		b->next = t->blocks;
		t->blocks = b;
		t->free = b->bytes;
		t->left = capacity;
	}
	x = (void *)t->free;
	*x = (struct text){.len = len, .number = (uint32_t)t->nr};
	memcpy(x->bytes, text, len);
	x->bytes[len] = 0;
	t->free += size;
	t->left -= size;
	return x;
}

int64_t kv_texts_add(struct kv_texts *t, const char *text, size_t len)
{
	uint64_t hash = penstock_key_hash(text, len, 0);
	struct text *x = text_find(t, text, len, hash);

	if (x)
		return x->number;
	if (t->nr >= UINT32_MAX || ARRAY_RESERVE(t->v, t->capacity, t->nr + 1) < 0)
		return -ENOMEM;
	x = text_keep(t, text, len);
	if (!x || penstock_table_insert(&t->table, &x->node, hash) < 0)
		return -ENOMEM;
	t->v[t->nr++] = x;
	return x->number;
}

const char *kv_texts_get(const struct kv_texts *t, uint64_t n, size_t *len)
{
	*len = n < t->nr ? t->v[n]->len : 0;
	return n < t->nr ? t->v[n]->bytes : "";
}
