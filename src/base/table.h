/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_BASE_TABLE_H
#define PENSTOCK_BASE_TABLE_H

/* A hash table of structs that have a node in them; whoever owns those compares their keys. */
#include <stdint.h>

struct penstock_table_node {
	struct penstock_table_node *next; /* in its bucket */
	uint64_t hash;
};

/* Zeroed is empty. */
struct penstock_table {
	struct penstock_table_node **buckets;
	uint64_t nr_buckets, nr;
};

/* The first node with this hash, and the one behind a node; NULL: none. */
struct penstock_table_node *penstock_table_find(const struct penstock_table *t, uint64_t hash);
struct penstock_table_node *penstock_table_find_next(const struct penstock_table_node *n);
/* Put @n in.  0, or -ENOMEM where there is no table yet; one that cannot grow becomes slower. */
int penstock_table_insert(struct penstock_table *t, struct penstock_table_node *n, uint64_t hash);
void penstock_table_remove(struct penstock_table *t, struct penstock_table_node *n);
/* All of them: start with *@pos = 0 and NULL. */
struct penstock_table_node *penstock_table_next(const struct penstock_table *t, uint64_t *pos,
						const struct penstock_table_node *n);
/* The nodes are their owner's. */
void penstock_table_fini(struct penstock_table *t);

#endif
