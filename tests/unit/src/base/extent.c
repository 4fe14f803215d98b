/* SPDX-License-Identifier: Apache-2.0 */
/* Space of a slab or an arena, against a model that is an array of owners. */
#include "base/extent.h"

#include "base/random.h"
#include "base/util.h"
#include "tests/common/t.h"

enum { UNITS = 5000, OBJECTS = 300 };

struct model {
	struct extent_map *map;
	unsigned char owner[UNITS]; /* 0: nobody */
	struct extents objects[OBJECTS];
	uint64_t size[OBJECTS];
	uint64_t ready, used;
};

/* Everything an object has is its own, in the order in which it is found. */
static void check_object(struct model *m, unsigned i)
{
	struct extent_hint hint = {0};
	uint64_t at = 0;

	for (uint32_t k = 0; k < m->objects[i].nr; k++) {
		const struct extent *x = extents_at(&m->objects[i], k);

		T_OK(x->count > 0 && x->start + x->count <= m->ready);
		for (uint32_t u = 0; u < x->count; u++, at++) {
			struct extent found = extents_find(&m->objects[i], at, &hint);

			T_EQ(found.start, x->start + u);
			T_EQ(found.count, x->count - u);
		}
	}
	T_EQ(at, m->size[i]);
	if (at) /* back to the beginning */
		T_EQ(extents_find(&m->objects[i], 0, &hint).start,
		     extents_at(&m->objects[i], 0)->start);
}

static void set_owner(struct model *m, unsigned i, bool take)
{
	for (uint32_t k = 0; k < m->objects[i].nr; k++) {
		const struct extent *x = extents_at(&m->objects[i], k);

		for (uint32_t u = x->start; u < x->start + x->count; u++) {
			T_EQ(m->owner[u], take ? 0 : 1);
			m->owner[u] = take;
		}
	}
}

static void alloc_object(struct model *m, unsigned i, uint64_t units)
{
	int r = extents_alloc(&m->objects[i], m->map, units);

	T_EQ(r, units > m->ready - m->used ? -ENOSPC : 0);
	if (r < 0)
		return;
	m->size[i] = units;
	m->used += units;
	set_owner(m, i, true);
	check_object(m, i);
}

static void free_object(struct model *m, unsigned i)
{
	set_owner(m, i, false);
	m->used -= m->size[i];
	m->size[i] = 0;
	extents_free(&m->objects[i], m->map);
	T_EQ(m->objects[i].nr, 0);
}

static void run_model(bool low, uint32_t good, uint64_t ready)
{
	struct model m = {.ready = ready};
	struct penstock_random random;

	penstock_random_seed(&random, t_seed());
	m.map = extent_map_new(UNITS, ready, good, low);
	T_OK(m.map);
	for (unsigned long n = t_ops(20000); n > 0; n--) {
		unsigned i = (unsigned)penstock_random_below(&random, OBJECTS);

		if (m.size[i])
			free_object(&m, i);
		else
			alloc_object(&m, i, 1 + penstock_random_below(&random, n % 3 ? 8 : 200));
		if (n % 1000 == 0 && m.ready < UNITS) {
			m.ready = min_u64(UNITS, m.ready + 400);
			extent_map_grow(m.map, m.ready);
		}
		T_EQ(extent_map_unused(m.map), m.ready - m.used);
	}
	for (unsigned i = 0; i < OBJECTS; i++)
		if (m.size[i])
			free_object(&m, i);
	T_EQ(extent_map_unused(m.map), m.ready);
	alloc_object(&m, 0, m.ready); /* all of it: what was given back has grown together */
	T_OK(m.objects[0].nr <= 2);
	free_object(&m, 0);
	extent_map_free(m.map);
}

static void each_unit_has_one_owner_or_none(void)
{
	run_model(false, 16, UNITS);
}

static void the_same_from_the_beginning_and_growing(void)
{
	run_model(true, 1, 100);
}

static void space_is_given_however_it_lies(void)
{
	struct extent_map *m = extent_map_new(1000, 1000, 16, false);
	struct extents one[1000], all;

	T_OK(m);
	for (unsigned i = 0; i < 1000; i++)
		T_EQ(extents_alloc(&one[i], m, 1), 0);
	T_EQ(extents_alloc(&all, m, 1), -ENOSPC);
	for (unsigned i = 0; i < 1000; i += 2)
		extents_free(&one[i], m);
	T_EQ(extents_alloc(&all, m, 500), 0);
	T_EQ(all.nr, 500);
	extents_free(&all, m);
	for (unsigned i = 1; i < 1000; i += 2)
		extents_free(&one[i], m);
	extent_map_free(m);
}

static void a_map_that_is_extended_keeps_its_owners(void)
{
	struct extent_map *m = extent_map_new(70, 70, 1, false);
	struct extents old = {0}, more = {0};

	T_OK(m);
	T_EQ(extents_alloc_at(&old, m, (struct extent){3, 66}), 0);
	T_EQ(extent_map_extend(m, 5000), 0);
	T_EQ(extent_map_units(m), 5000);
	T_EQ(extent_map_ready(m), 5000);
	T_EQ(extent_map_unused(m), 5000 - 66);
	T_EQ(extents_alloc_at(&more, m, (struct extent){68, 1}), -EEXIST);
	T_EQ(extents_alloc(&more, m, 5000 - 66), 0);
	T_EQ(extent_map_unused(m), 0);
	extents_free(&old, m);
	T_EQ(extent_map_unused(m), 66);
	T_EQ(extents_alloc_at(&old, m, (struct extent){3, 66}), 0);
	extents_free(&old, m);
	extents_free(&more, m);
	extent_map_free(m);
}

static void what_goes_in_turn_stays_in_one_piece(void)
{
	struct extent_map *m = extent_map_new(10000, 10000, 16, false);
	struct extents ring[64];
	struct penstock_random random;
	unsigned pieces = 0, nr = 0;

	T_OK(m);
	memset(ring, 0, sizeof(ring));
	penstock_random_seed(&random, 1);
	for (unsigned i = 0; i < 20000; i++, nr++) { /* the oldest goes first, as in a cache */
		extents_free(&ring[i % 64], m);
		T_EQ(extents_alloc(&ring[i % 64], m, 1 + penstock_random_below(&random, 200)), 0);
		pieces += ring[i % 64].nr;
	}
	T_OK(pieces < nr + nr / 20);
	for (unsigned i = 0; i < 64; i++)
		extents_free(&ring[i], m);
	extent_map_free(m);
}

static void a_piece_can_be_claimed_once(void)
{
	struct extent_map *m = extent_map_new(100, 100, 1, false);
	struct extents a = {0}, b = {0};

	T_OK(m);
	T_EQ(extents_alloc_at(&a, m, (struct extent){10, 5}), 0);
	T_EQ(extents_alloc_at(&a, m, (struct extent){40, 2}), 0);
	T_EQ(extents_alloc_at(&b, m, (struct extent){14, 1}), -EEXIST);
	T_EQ(extents_alloc_at(&b, m, (struct extent){8, 4}), -EEXIST);
	T_EQ(extents_alloc_at(&b, m, (struct extent){98, 3}), -EEXIST);
	T_EQ(extents_alloc_at(&b, m, (struct extent){7, 0}), -EEXIST);
	T_EQ(extents_alloc_at(&b, m, (struct extent){UINT32_MAX, UINT32_MAX}), -EEXIST);
	T_EQ(extents_alloc_at(&b, m, (struct extent){15, 25}), 0);
	T_EQ(a.nr, 2);
	T_EQ(extent_map_unused(m), 100 - 7 - 25);
	extents_free(&a, m);
	extents_free(&b, m);
	extent_map_free(m);
}

static const struct t_case cases[] = {
	T_CASE(each_unit_has_one_owner_or_none), T_CASE(the_same_from_the_beginning_and_growing),
	T_CASE(space_is_given_however_it_lies),  T_CASE(what_goes_in_turn_stays_in_one_piece),
	T_CASE(a_piece_can_be_claimed_once),     T_CASE(a_map_that_is_extended_keeps_its_owners),
};

int main(void)
{
	static const struct t_group group = {"extent", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
