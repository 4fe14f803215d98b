/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KVSTORE_TIER_H
#define PENSTOCK_KVSTORE_TIER_H

/* The object store below the directories; tier.c says how it works.  Without one, no-ops. */
#include <stdbool.h>
#include <stdint.h>

#include "kvstore/index.h"
#include "kvstore/record.h"

struct penstock_err;
struct penstock_store;
struct store_op;
struct store_dir;

/* Before logs are read; its threads are started when all else is. */
int store_tier_init(struct penstock_store *s, const char *uri, struct penstock_err *err);
int store_tier_start(struct penstock_store *s, struct penstock_err *err);
/* Nothing is inside the store any more; workers and log writer still run. */
void store_tier_stop(struct penstock_store *s);
/* Neither do. */
void store_tier_fini(struct penstock_store *s);

/* With @lock, all of these. */

/* @e is about to be dropped for space: if there is room in the queue it is pinned, and put. */
void store_tier_demote(struct penstock_store *s, struct store_entry *e);
/* Bytes that are pinned for that: their space is free soon. */
uint64_t store_tier_unread(const struct penstock_store *s);
/* A get that found nothing: true: it is below, and the get is queued again when it is fetched. */
bool store_tier_queue_fetch(struct penstock_store *s, struct store_op *op);
/* Length of what is below, or -ENOENT. */
int64_t store_tier_len(struct penstock_store *s, struct store_hash h);
/* What is below is out of date.  Was there anything? */
bool store_tier_forget(struct penstock_store *s, struct store_hash h);
/* All is, with every record of it. */
void store_tier_clear(struct penstock_store *s);
/* Memory of the index of it. */
uint64_t store_tier_index_bytes(const struct penstock_store *s);
/* What the index of it says, of any state, or NULL. */
const struct store_entry *store_tier_find(const struct penstock_store *s, struct store_hash h);

/* Logs (tier_records.c); the first three while they are read. */

/* A record BELOW.  0 or -ENOMEM. */
int store_tier_load_record(struct store_dir *d, const struct store_record *r);
/* A record DROP. */
void store_tier_load_drop(struct store_dir *d, const struct store_record *r);
/* There is a record SET of @gen: is what is below newer?  If not it goes. */
bool store_tier_is_newer(struct store_dir *d, struct store_hash h, uint64_t gen);
/* The log is no longer used; was what it said so far true? */
void store_tier_drop_records(struct store_dir *d, bool is_valid);
/* Is it still this one? */
bool store_tier_has(struct penstock_store *s, struct store_hash h, uint64_t gen);

#endif
