/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KVSTORE_POLICY_H
#define PENSTOCK_KVSTORE_POLICY_H

/*
 * What goes when space is short.
 *
 * LRU: what was used last goes last.
 *
 * S3-FIFO (Yang and others, SOSP 2023): new values wait in a small queue, a tenth of the space.
 * One that is used there moves on to the main queue, one that is not goes, and is remembered for a
 * while: when it comes back it enters the main queue at once.  In the main queue a use, or a cost
 * that the caller has named, is worth another round.
 */
#include <penstock/store.h>

#include "kvstore/index.h"

enum store_policy_queue { STORE_POLICY_NONE = 0, STORE_POLICY_MAIN = 1, STORE_POLICY_SMALL = 2 };

struct store_list {
	uint32_t first, last; /* first: the next to go */
	uint64_t bytes;
};

/* Hashes that were seen lately; each has one place, where a later one may take it. */
struct store_seen {
	uint32_t *marks;
	uint32_t nr; /* a power of two, or 0 */
};

struct store_policy {
	uint32_t kind; /* enum penstock_store_policy */
	struct store_list list[3];
	struct store_seen ghosts; /* hashes that left the small queue unused */
};

int store_policy_init(struct store_policy *p, uint32_t kind);
void store_policy_fini(struct store_policy *p);
uint64_t store_policy_bytes(const struct store_policy *p);

void store_policy_add(struct store_policy *p, struct store_index *x, struct store_entry *e);
void store_policy_touch(struct store_policy *p, struct store_index *x, struct store_entry *e);
void store_policy_remove(struct store_policy *p, struct store_index *x, struct store_entry *e);
/* The next to go, which is still in its queue; NULL: all are pinned, or there is none. */
struct store_entry *store_policy_victim(struct store_policy *p, struct store_index *x);

/* Room for as many hashes as there are entries. */
int store_seen_fit(struct store_seen *s, uint32_t entries);
void store_seen_add(struct store_seen *s, struct store_hash h);
/* Is it there?  It is taken out. */
bool store_seen_take(struct store_seen *s, struct store_hash h);

#endif
