/* SPDX-License-Identifier: Apache-2.0 */
#include "load/replay/replay_keys.h"

#include <stdlib.h>

#include "base/keyhash.h"
#include "base/util.h"

enum { BLOCK = 4096 };

struct replay_id replay_id(const char *key, uint32_t len, unsigned tier)
{
	return (struct replay_id){penstock_key_hash(key, len, tier),
				  penstock_key_hash(key, len, 0x736c75696365ull + tier)};
}

void replay_keys_fini(struct replay_keys *k)
{
	for (uint32_t i = 0; i < k->nr_blocks; i++)
		free(k->blocks[i]);
	free(k->blocks);
	penstock_table_fini(&k->table);
	*k = (struct replay_keys){0};
}

struct replay_key *replay_keys_find(const struct replay_keys *k, struct replay_id id)
{
	struct penstock_table_node *n = penstock_table_find(&k->table, id.a);

	while (n && container_of(n, struct replay_key, node)->id_b != id.b)
		n = penstock_table_find_next(n);
	return n ? container_of(n, struct replay_key, node) : NULL;
}

/* A free one, or NULL. */
static struct replay_key *key_take(struct replay_keys *k)
{
	struct replay_key *block, *e;

	if (!k->unused) {
		block = ARRAY_GROW(k->blocks, k->nr_blocks) < 0 ? NULL
								: malloc(BLOCK * sizeof(*block));
		if (!block)
			return NULL;
		k->blocks[k->nr_blocks++] = block;
		for (unsigned i = BLOCK; i-- > 0; k->unused = &block[i])
			block[i].older = k->unused;
	}
	e = k->unused;
	k->unused = e->older;
	return e;
}

static void key_put(struct replay_keys *k, struct replay_key *e)
{
	e->older = k->unused;
	k->unused = e;
}

/* ----------------------------------------------------------- the order of use */

static void unlink_use(struct replay_keys *k, struct replay_key *e)
{
	*(e->older ? &e->older->newer : &k->oldest[e->place]) = e->newer;
	*(e->newer ? &e->newer->older : &k->newest[e->place]) = e->older;
}

static void key_link_newest(struct replay_keys *k, struct replay_key *e)
{
	e->older = k->newest[e->place];
	e->newer = NULL;
	*(e->older ? &e->older->newer : &k->oldest[e->place]) = e;
	k->newest[e->place] = e;
}

void replay_keys_touch(struct replay_keys *k, struct replay_key *e)
{
	if (k->newest[e->place] == e)
		return;
	unlink_use(k, e);
	key_link_newest(k, e);
}

struct replay_key *replay_keys_oldest(const struct replay_keys *k, unsigned place)
{
	return k->oldest[place];
}

/* ------------------------------------------------------------ add and remove */

struct replay_key *replay_keys_add(struct replay_keys *k, struct replay_id id, unsigned place,
				   uint64_t size)
{
	struct replay_key *e = key_take(k);

	if (!e)
		return NULL;
	*e = (struct replay_key){
		.id_b = id.b, .number = ++k->numbers, .size = size, .place = (uint8_t)place};
	if (penstock_table_insert(&k->table, &e->node, id.a) < 0) {
		key_put(k, e);
		return NULL;
	}
	key_link_newest(k, e);
	return e;
}

void replay_keys_remove(struct replay_keys *k, struct replay_key *e)
{
	penstock_table_remove(&k->table, &e->node);
	unlink_use(k, e);
	key_put(k, e);
}
