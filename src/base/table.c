/* SPDX-License-Identifier: Apache-2.0 */
/* Chains in buckets, as many as there are nodes, and twice as many when that is exceeded. */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_BUCKETS = 1024 };

/* Hashes may be numbers that follow each other. */
static struct penstock_table_node **bucket_of(const struct penstock_table *t, uint64_t hash)
{
	return &t->buckets[hash * 0x9e3779b97f4a7c15ull >> 20 & (t->nr_buckets - 1)];
}

static void link_node(struct penstock_table *t, struct penstock_table_node *n)
{
	n->next = *bucket_of(t, n->hash);
	*bucket_of(t, n->hash) = n;
}

static void table_grow(struct penstock_table *t)
{
	struct penstock_table old = *t;
	struct penstock_table_node *n, *next;

	t->nr_buckets = old.nr_buckets ? 2 * old.nr_buckets : FIRST_BUCKETS;
	t->buckets = calloc(t->nr_buckets, sizeof(*t->buckets));
	if (!t->buckets) {
		*t = old;
		return;
	}
	for (uint64_t i = 0; i < old.nr_buckets; i++)
		for (n = old.buckets[i]; n; n = next) {
			next = n->next;
			link_node(t, n);
		}
	free(old.buckets);
}

static struct penstock_table_node *find_hash(struct penstock_table_node *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

struct penstock_table_node *penstock_table_find(const struct penstock_table *t, uint64_t hash)
{
	return t->nr_buckets ? find_hash(*bucket_of(t, hash), hash) : NULL;
}

struct penstock_table_node *penstock_table_find_next(const struct penstock_table_node *n)
{
	return find_hash(n->next, n->hash);
}

int penstock_table_insert(struct penstock_table *t, struct penstock_table_node *n, uint64_t hash)
{
	if (t->nr >= t->nr_buckets)
		table_grow(t);
	if (!t->nr_buckets)
		return -ENOMEM;
	n->hash = hash;
	link_node(t, n);
	t->nr++;
	return 0;
}

void penstock_table_remove(struct penstock_table *t, struct penstock_table_node *n)
{
	struct penstock_table_node **at = bucket_of(t, n->hash);

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	t->nr--;
}

struct penstock_table_node *penstock_table_next(const struct penstock_table *t, uint64_t *pos,
						const struct penstock_table_node *n)
{
	struct penstock_table_node *next = n ? n->next : NULL;

	while (!next && *pos < t->nr_buckets)
		next = t->buckets[(*pos)++];
	return next;
}

void penstock_table_fini(struct penstock_table *t)
{
	free(t->buckets);
	*t = (struct penstock_table){.nr = 0};
}
