/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_KVSTORE_TIER_H
#define SLUICE_KVSTORE_TIER_H

/* The object store below the directories; tier.c says how it works.  Without one, no-ops. */
#include <stdbool.h>
#include <stdint.h>

#include "kvstore/index.h"

struct sluice_err;
struct sluice_store;
struct store_op;

int store_tier_open(struct sluice_store *s, const char *uri, struct sluice_err *err);
/* Nothing is inside the store any more; workers and keeper still run. */
void store_tier_close(struct sluice_store *s);

/* With @lock, all of these. */

/* @e is about to be dropped for space: if there is room in the queue it is pinned, and put. */
void store_tier_demote(struct sluice_store *s, struct store_entry *e);
/* Bytes that are pinned for that: their space is free soon. */
uint64_t store_tier_unread(const struct sluice_store *s);
/* A get that found nothing: true: it is below, and the get is back in line when it is fetched. */
bool store_tier_want(struct sluice_store *s, struct store_op *op);
/* Length of what is below, or -ENOENT. */
int64_t store_tier_len(struct sluice_store *s, struct store_hash h);
/* What is below is out of date.  Was there anything? */
bool store_tier_forget(struct sluice_store *s, struct store_hash h);
/* Is it still this one? */
bool store_tier_has(struct sluice_store *s, struct store_hash h, uint64_t gen);

#endif
