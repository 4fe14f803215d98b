/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_BASE_TABLE_H
#define SLUICE_BASE_TABLE_H

/* A hash table of structs that have a node in them; whoever owns those compares their keys. */
#include <stdint.h>

struct sluice_node {
	struct sluice_node *next; /* in its bucket */
	uint64_t hash;
};

/* Zeroed is empty. */
struct sluice_table {
	struct sluice_node **buckets;
	uint64_t nr_buckets, nr;
};

/* The first node with this hash, and the one behind a node; NULL: none. */
struct sluice_node *sluice_table_find(const struct sluice_table *t, uint64_t hash);
struct sluice_node *sluice_table_again(const struct sluice_node *n);
/* Put @n in.  0, or -ENOMEM where there is no table yet; one that cannot grow becomes slower. */
int sluice_table_put(struct sluice_table *t, struct sluice_node *n, uint64_t hash);
void sluice_table_drop(struct sluice_table *t, struct sluice_node *n);
/* All of them: start with *@pos = 0 and NULL. */
struct sluice_node *sluice_table_next(const struct sluice_table *t, uint64_t *pos,
				      const struct sluice_node *n);
/* The nodes are their owner's. */
void sluice_table_fini(struct sluice_table *t);

#endif
