/* SPDX-License-Identifier: Apache-2.0 */
#include "load/replay/replay_keys.h"

#include <stdlib.h>

#include "load/trace/keyhash.h"

enum { BLOCK = 4096, FIRST_BUCKETS = 1024 };

struct replay_id replay_id(const char *key, uint32_t len, unsigned tier)
{
	return (struct replay_id){trace_key_hash(key, len, tier),
				  trace_key_hash(key, len, 0x736c75696365ull + tier)};
}

static struct replay_key *key_at(const struct replay_keys *k, uint32_t i)
{
	return i ? &k->blocks[i / BLOCK][i % BLOCK] : NULL;
}

void replay_keys_fini(struct replay_keys *k)
{
	for (uint32_t i = 0; i < k->nr_blocks; i++)
		free(k->blocks[i]);
	free(k->blocks);
	free(k->buckets);
	*k = (struct replay_keys){0};
}

/* ----------------------------------------------------------------- the table */

static uint32_t *key_bucket(const struct replay_keys *k, struct replay_id id)
{
	return &k->buckets[id.a & (k->nr_buckets - 1)];
}

static bool id_same(struct replay_id x, struct replay_id y)
{
	return x.a == y.a && x.b == y.b;
}

struct replay_key *replay_keys_find(const struct replay_keys *k, struct replay_id id)
{
	struct replay_key *e;

	if (!k->nr_buckets)
		return NULL;
	for (e = key_at(k, *key_bucket(k, id)); e && !id_same(e->id, id); e = key_at(k, e->chain))
		;
	return e;
}

static bool grow_table(struct replay_keys *k)
{
	uint32_t nr = k->nr_buckets ? 2 * k->nr_buckets : FIRST_BUCKETS;
	uint32_t *old = k->buckets, nr_old = k->nr_buckets, next;

	k->buckets = calloc(nr, sizeof(*k->buckets));
	if (!k->buckets) {
		k->buckets = old;
		return nr_old; /* slower, but it goes on */
	}
	k->nr_buckets = nr;
	for (uint32_t b = 0; b < nr_old; b++)
		for (uint32_t i = old[b]; i; i = next) {
			struct replay_key *e = key_at(k, i);

			next = e->chain;
			e->chain = *key_bucket(k, e->id);
			*key_bucket(k, e->id) = i;
		}
	free(old);
	return true;
}

/* A free entry, or 0. */
static uint32_t key_take(struct replay_keys *k)
{
	uint32_t i = k->unused;
	struct replay_key **more;

	if (i) {
		k->unused = key_at(k, i)->chain;
		return i;
	}
	if (k->used + 1 >= (uint64_t)k->nr_blocks * BLOCK) {
		more = reallocarray(k->blocks, k->nr_blocks + 1, sizeof(*more));
		if (!more)
			return 0;
		k->blocks = more;
		more[k->nr_blocks] = malloc(BLOCK * sizeof(**more));
		if (!more[k->nr_blocks])
			return 0;
		k->nr_blocks++;
	}
	return ++k->used;
}

/* ----------------------------------------------------------- the order of use */

static void unlink_use(struct replay_keys *k, struct replay_key *e)
{
	*(e->older ? &key_at(k, e->older)->newer : &k->oldest[e->place]) = e->newer;
	*(e->newer ? &key_at(k, e->newer)->older : &k->newest[e->place]) = e->older;
}

static void key_link_newest(struct replay_keys *k, struct replay_key *e)
{
	e->older = k->newest[e->place];
	e->newer = 0;
	*(e->older ? &key_at(k, e->older)->newer : &k->oldest[e->place]) = e->self;
	k->newest[e->place] = e->self;
}

void replay_keys_touch(struct replay_keys *k, struct replay_key *e)
{
	if (k->newest[e->place] == e->self)
		return;
	unlink_use(k, e);
	key_link_newest(k, e);
}

struct replay_key *replay_keys_oldest(const struct replay_keys *k, unsigned place)
{
	return key_at(k, k->oldest[place]);
}

/* ------------------------------------------------------------ add and remove */

struct replay_key *replay_keys_add(struct replay_keys *k, struct replay_id id, unsigned place,
				   uint64_t size)
{
	struct replay_key *e;
	uint32_t i;

	if (k->count >= k->nr_buckets && !grow_table(k))
		return NULL;
	i = key_take(k);
	if (!i)
		return NULL;
	e = key_at(k, i);
	*e = (struct replay_key){.id = id,
				 .number = ++k->numbers,
				 .size = size,
				 .self = i,
				 .chain = *key_bucket(k, id),
				 .place = (uint8_t)place};
	*key_bucket(k, id) = i;
	key_link_newest(k, e);
	k->count++;
	return e;
}

void replay_keys_remove(struct replay_keys *k, struct replay_key *e)
{
	uint32_t *from = key_bucket(k, e->id);

	while (*from != e->self)
		from = &key_at(k, *from)->chain;
	*from = e->chain;
	unlink_use(k, e);
	e->chain = k->unused;
	k->unused = e->self;
	k->count--;
}
