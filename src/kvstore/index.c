/* SPDX-License-Identifier: Apache-2.0 */
/* The table and the array of entries behind it; index.h says what they are. */
#include "kvstore/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"

enum {
	FIRST_SLOTS = 1024,
	MOST_ENTRIES = 1 << 28,
	LEAST_ENTRIES = 1 << 16,
	GROW_ENTRIES = 4096, /* whole pages, whatever their size */
};

/* As many addresses as a limit of the process allows. */
static int index_reserve_addresses(struct store_index *x)
{
	for (x->reserved = MOST_ENTRIES; x->reserved >= LEAST_ENTRIES; x->reserved /= 2) {
		void *p = mmap(NULL, (size_t)x->reserved * sizeof(*x->entries), PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p != MAP_FAILED) {
			x->entries = p;
			return 0;
		}
	}
	return -ENOMEM;
}

static uint32_t *table_new(uint32_t slots)
{
	uint32_t *t = malloc((size_t)slots * sizeof(*t));

	if (t)
		memset(t, 0xff, (size_t)slots * sizeof(*t));
	return t;
}

int store_index_init(struct store_index *x)
{
	*x = (struct store_index){.spare = STORE_NONE, .slots = FIRST_SLOTS};
	x->table = table_new(FIRST_SLOTS);
	if (!x->table)
		return -ENOMEM;
	if (index_reserve_addresses(x) < 0) {
		free(x->table);
		return -ENOMEM;
	}
	return 0;
}

void store_index_fini(struct store_index *x)
{
	struct store_entry *e;
	uint32_t pos = 0;

	while ((e = store_index_next(x, &pos)))
		free(e->space.more);
	if (x->entries)
		munmap(x->entries, (size_t)x->reserved * sizeof(*x->entries));
	free(x->table);
	*x = (struct store_index){0};
}

uint64_t store_index_bytes(const struct store_index *x)
{
	return (uint64_t)x->fresh * sizeof(*x->entries) + (uint64_t)x->slots * sizeof(*x->table);
}

static int grow(struct store_index *x)
{
	uint32_t n = (uint32_t)min_u64(GROW_ENTRIES, x->reserved - x->ready);

	if (!n ||
	    mprotect(&x->entries[x->ready], n * sizeof(*x->entries), PROT_READ | PROT_WRITE) < 0)
		return -ENOMEM;
	x->ready += n;
	return 0;
}

struct store_entry *store_index_new(struct store_index *x)
{
	struct store_entry *e;

	if (x->spare != STORE_NONE) {
		e = store_index_at(x, x->spare);
		x->spare = e->next;
	} else {
		if (x->fresh == x->ready && grow(x) < 0)
			return NULL;
		e = store_index_at(x, x->fresh++);
	}
	*e = (struct store_entry){.state = STORE_WRITING,
				  .prev = STORE_NONE,
				  .next = STORE_NONE,
				  .recent = STORE_NONE};
	return e;
}

void store_index_free(struct store_index *x, struct store_entry *e)
{
	e->state = STORE_SPARE;
	e->next = x->spare;
	x->spare = store_index_nr(x, e);
}

struct store_entry *store_index_next(const struct store_index *x, uint32_t *pos)
{
	while (*pos < x->fresh) {
		struct store_entry *e = store_index_at(x, (*pos)++);

		if (e->state != STORE_SPARE)
			return e;
	}
	return NULL;
}

static bool index_same(struct store_hash a, struct store_hash b)
{
	return a.a == b.a && a.b == b.b;
}

struct store_entry *store_index_find(const struct store_index *x, struct store_hash h)
{
	uint32_t mask = x->slots - 1;

	for (uint32_t s = (uint32_t)h.a & mask; x->table[s] != STORE_NONE; s = (s + 1) & mask) {
		struct store_entry *e = store_index_at(x, x->table[s]);

		if (index_same(e->hash, h))
			return e;
	}
	return NULL;
}

void store_index_prefetch(const struct store_index *x, struct store_hash h, int step)
{
	uint32_t s = (uint32_t)h.a & (x->slots - 1);

	if (step == 0)
		__builtin_prefetch(&x->table[s]);
	else if (x->table[s] != STORE_NONE)
		__builtin_prefetch(store_index_at(x, x->table[s]));
}

static void index_place(uint32_t *table, uint32_t slots, struct store_hash h, uint32_t nr)
{
	uint32_t s = (uint32_t)h.a & (slots - 1);

	while (table[s] != STORE_NONE)
		s = (s + 1) & (slots - 1);
	table[s] = nr;
}

static int widen(struct store_index *x)
{
	uint32_t *t = table_new(2 * x->slots);

	if (!t)
		return -ENOMEM;
	for (uint32_t s = 0; s < x->slots; s++)
		if (x->table[s] != STORE_NONE)
			index_place(t, 2 * x->slots, store_index_at(x, x->table[s])->hash,
				    x->table[s]);
	free(x->table);
	x->table = t;
	x->slots *= 2;
	return 0;
}

int store_index_add(struct store_index *x, struct store_entry *e)
{
	if (x->used + 1 > x->slots / 4 * 3 && widen(x) < 0)
		return -ENOMEM;
	index_place(x->table, x->slots, e->hash, store_index_nr(x, e));
	x->used++;
	return 0;
}

/* What stands behind a gap in the table moves up where it may, so that no marks are needed. */
void store_index_remove(struct store_index *x, const struct store_entry *e)
{
	uint32_t mask = x->slots - 1, s = (uint32_t)e->hash.a & mask;
	uint32_t nr = store_index_nr(x, e);

	while (x->table[s] != nr)
		s = (s + 1) & mask;
	for (uint32_t t = (s + 1) & mask; x->table[t] != STORE_NONE; t = (t + 1) & mask) {
		uint32_t home = (uint32_t)store_index_at(x, x->table[t])->hash.a & mask;

		if (((t - home) & mask) >= ((t - s) & mask)) {
			x->table[s] = x->table[t];
			s = t;
		}
	}
	x->table[s] = STORE_NONE;
	x->used--;
}
