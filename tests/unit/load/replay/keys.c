/* SPDX-License-Identifier: Apache-2.0 */
/* The table of objects against an array of them, with the order of their last use. */
#include "load/replay/replay_keys.h"

#include "base/random.h"
#include "tests/common/t.h"

enum { KEYS = 3000, STEPS = 300000, TIERS = 2 };

struct model {
	bool there[KEYS];
	uint64_t used[KEYS], size[KEYS];
	uint64_t clock;
};

static struct replay_id id_of(unsigned i)
{
	char name[32];
	int n = snprintf(name, sizeof(name), "key-%u", i / TIERS);

	return replay_id(name, (uint32_t)n, i % TIERS);
}

static int oldest_of(const struct model *m, unsigned place)
{
	int best = -1;

	for (unsigned i = 0; i < KEYS; i++)
		if (m->there[i] && i % 3 == place && (best < 0 || m->used[i] < m->used[best]))
			best = (int)i;
	return best;
}

static void check_oldest(const struct replay_keys *k, const struct model *m)
{
	for (unsigned place = 0; place < 3; place++) {
		const struct replay_key *e = replay_keys_oldest(k, place);
		int want = oldest_of(m, place);

		T_OK((e != NULL) == (want >= 0));
		if (e) {
			struct replay_id id = id_of((unsigned)want);

			T_OK(e->node.hash == id.a && e->id_b == id.b);
		}
	}
}

static void step(struct replay_keys *k, struct model *m, struct penstock_random *random)
{
	unsigned i = (unsigned)penstock_random_below(random, KEYS);
	struct replay_key *e = replay_keys_find(k, id_of(i));

	T_OK((e != NULL) == m->there[i]);
	m->used[i] = ++m->clock;
	if (e) {
		T_EQ(e->size, m->size[i]);
		T_EQ(e->place, i % 3);
	}
	if (!e) {
		m->size[i] = penstock_random_next(random);
		T_OK(replay_keys_add(k, id_of(i), i % 3, m->size[i]) != NULL);
		m->there[i] = true;
	} else if (penstock_random_below(random, 3) == 0) {
		replay_keys_remove(k, e);
		m->there[i] = false;
	} else {
		replay_keys_touch(k, e);
	}
}

static void the_table_knows_what_is_there_and_what_was_used_when(void)
{
	struct model *m = calloc(1, sizeof(*m));
	struct replay_keys k = {0};
	struct penstock_random random;
	uint32_t n = 0;

	T_OK(m != NULL);
	penstock_random_seed(&random, 5);
	for (unsigned i = 0; i < STEPS; i++) {
		step(&k, m, &random);
		if (i % 1000 == 0)
			check_oldest(&k, m);
	}
	for (unsigned i = 0; i < KEYS; i++)
		n += m->there[i];
	T_EQ(k.table.nr, n);
	T_OK(k.nr_blocks <= KEYS / 4096 + 1); /* entries are used again */
	replay_keys_fini(&k);
	free(m);
}

static void a_key_at_another_tier_is_another_object(void)
{
	struct replay_id a = replay_id("k", 1, 1), b = replay_id("k", 1, 2),
			 c = replay_id("k", 1, 1);

	T_OK(a.a != b.a && a.b != b.b);
	T_OK(a.a == c.a && a.b == c.b && a.a != a.b);
}

static void numbers_are_never_used_again(void)
{
	struct replay_keys k = {0};
	uint64_t last = 0;

	for (unsigned i = 0; i < 100; i++) {
		struct replay_key *e = replay_keys_add(&k, id_of(7), 0, 1);

		T_OK(e != NULL && e->number > last);
		last = e->number;
		replay_keys_remove(&k, e);
	}
	T_EQ(k.table.nr, 0);
	T_OK(replay_keys_oldest(&k, 0) == NULL);
	replay_keys_fini(&k);
}

static const struct t_case cases[] = {
	T_CASE(the_table_knows_what_is_there_and_what_was_used_when),
	T_CASE(a_key_at_another_tier_is_another_object),
	T_CASE(numbers_are_never_used_again),
};

int main(void)
{
	static const struct t_group group = {"replay_keys", NULL, NULL, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
