/* SPDX-License-Identifier: Apache-2.0 */
/* The table and the array of entries behind it; index.h says what they are. */
#include "kvstore/index.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/util.h"

enum {
	FIRST_SLOTS = 1024,
	MOST_ENTRIES = 1 << 28,
	LEAST_ENTRIES = 1 << 16,
	GROW_ENTRIES = 4096, /* whole pages, whatever their size */
	MOVES = 16,          /* places of the old table; it is empty long before the next one */
};

#define STORE_MOVED UINT32_MAX

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

int store_index_init(struct store_index *x)
{
	*x = (struct store_index){.spare = STORE_NONE, .slots = FIRST_SLOTS};
	x->table = calloc(FIRST_SLOTS, sizeof(*x->table));
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
		free(e->space.many);
	if (x->entries)
		munmap(x->entries, (size_t)x->reserved * sizeof(*x->entries));
	free(x->table);
	free(x->old);
	*x = (struct store_index){0};
}

uint64_t store_index_bytes(const struct store_index *x)
{
	return (uint64_t)x->fresh * sizeof(*x->entries) +
	       ((uint64_t)x->slots + x->old_slots) * sizeof(*x->table);
}

static int grow_entries(struct store_index *x)
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
		if (x->fresh == x->ready && grow_entries(x) < 0)
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

static struct store_entry *find_in(const struct store_index *x, const uint32_t *table,
				   uint32_t slots, struct store_hash h)
{
	uint32_t mask = slots - 1;

	for (uint32_t s = (uint32_t)h.a & mask; table[s]; s = (s + 1) & mask) {
		struct store_entry *e;

		if (table[s] == STORE_MOVED)
			continue;
		e = store_index_at(x, table[s] - 1);
		if (index_same(e->hash, h))
			return e;
	}
	return NULL;
}

struct store_entry *store_index_find(const struct store_index *x, struct store_hash h)
{
	struct store_entry *e = find_in(x, x->table, x->slots, h);

	return e || !x->old ? e : find_in(x, x->old, x->old_slots, h);
}

void store_index_prefetch(const struct store_index *x, struct store_hash h, int step)
{
	uint32_t s = (uint32_t)h.a & (x->slots - 1);

	if (step == 0)
		__builtin_prefetch(&x->table[s]);
	else if (x->table[s])
		__builtin_prefetch(store_index_at(x, x->table[s] - 1));
}

static void index_put(struct store_index *x, struct store_hash h, uint32_t number)
{
	uint32_t s = (uint32_t)h.a & (x->slots - 1);

	while (x->table[s])
		s = (s + 1) & (x->slots - 1);
	x->table[s] = number;
}

/* So many places of the old table; its chains stay whole for those who look there. */
static void move_slots(struct store_index *x, uint32_t places)
{
	for (; x->old && places; places--) {
		uint32_t *at = &x->old[x->moved];

		if (*at && *at != STORE_MOVED) {
			index_put(x, store_index_at(x, *at - 1)->hash, *at);
			*at = STORE_MOVED;
		}
		if (++x->moved < x->old_slots)
			continue;
		free(x->old);
		x->old = NULL;
		x->old_slots = 0;
	}
}

static int widen_table(struct store_index *x)
{
	uint32_t *t = calloc(2 * (size_t)x->slots, sizeof(*t));

	if (!t)
		return -ENOMEM;
	move_slots(x, UINT32_MAX);
	x->old = x->table;
	x->old_slots = x->slots;
	x->moved = 0;
	x->table = t;
	x->slots *= 2;
	return 0;
}

int store_index_add(struct store_index *x, struct store_entry *e)
{
	if (x->used + 1 > x->slots / 4 * 3 && widen_table(x) < 0)
		return -ENOMEM;
	move_slots(x, MOVES);
	index_put(x, e->hash, store_index_nr(x, e) + 1);
	x->used++;
	return 0;
}

/* The place of a number, or of the gap where it would be. */
static uint32_t find_slot(const uint32_t *table, uint32_t slots, struct store_hash h,
			  uint32_t number)
{
	uint32_t s = (uint32_t)h.a & (slots - 1);

	while (table[s] && table[s] != number)
		s = (s + 1) & (slots - 1);
	return s;
}

/* What stands behind a gap in the table moves up where it may, so that no marks are needed. */
void store_index_remove(struct store_index *x, const struct store_entry *e)
{
	uint32_t number = store_index_nr(x, e) + 1, mask = x->slots - 1;
	uint32_t s = find_slot(x->table, x->slots, e->hash, number);

	x->used--;
	if (!x->table[s]) {
		x->old[find_slot(x->old, x->old_slots, e->hash, number)] = STORE_MOVED;
		return;
	}
	for (uint32_t t = (s + 1) & mask; x->table[t]; t = (t + 1) & mask) {
		uint32_t first_slot = (uint32_t)store_index_at(x, x->table[t] - 1)->hash.a & mask;

		if (((t - first_slot) & mask) >= ((t - s) & mask)) {
			x->table[s] = x->table[t];
			s = t;
		}
	}
	x->table[s] = 0;
}
