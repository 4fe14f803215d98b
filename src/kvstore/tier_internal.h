/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KVSTORE_TIER_INTERNAL_H
#define PENSTOCK_KVSTORE_TIER_INTERNAL_H

/* What tier.c, tier_demote.c and tier_records.c share. */
#include <pthread.h>

#include <penstock/s3.h>

#include "kvstore/kvstore.h"

enum {
	TIER_JOBS = 64,       /* values on their way down */
	TIER_FETCHES = 1024,  /* gets that wait */
	TIER_FETCHERS = 4,    /* threads that fetch for them */
	TIER_PAUSE_AFTER = 4, /* failures in a row */
	TIER_SWEEP = 256,     /* objects deleted in one call */
	TIER_URI_BYTES = 96,  /* behind the prefix */
	TIER_NO_LOG = 0xff,   /* directory of an entry that no log knows of */
};

#define TIER_PAUSE_NS  10000000000ull
#define TIER_JOB_BYTES (256ull << 20)

struct tier_job {
	struct store_entry *from; /* pinned, until it is read */
	struct store_hash hash;
	uint64_t gen, len;
	void *buf; /* what was read */
	int code;
};

/* Names one object for ever: a run is one opening of the store. */
struct tier_object {
	struct store_hash hash;
	uint64_t gen, run;
};

struct store_tier {
	struct penstock_store *store;
	struct penstock_s3 *client;
	char *prefix; /* URI before the names of all runs; ends with a slash */
	pthread_t threads[3 + TIER_FETCHERS];
	unsigned nr_threads;
	/* With the store's lock: */
	pthread_cond_t work_read, work_put, work_fetch;
	bool stop;
	struct store_index index; /* @dir: whose log knows of it; @recent: which run's it is */
	struct store_policy policy;
	uint64_t *runs; /* of entries; the first is this one's */
	uint64_t nr_runs, runs_capacity;
	uint64_t limit, bytes;
	struct tier_job jobs[TIER_JOBS];
	unsigned first_job, nr_jobs; /* circular */
	unsigned nr_read;            /* of these, the first: only to be put */
	uint64_t job_bytes, unread;
	struct store_op_queue fetches;
	unsigned nr_fetches;
	struct tier_object *deletes; /* objects to delete */
	uint64_t nr_deletes, deletes_capacity;
	unsigned failures;
	uint64_t paused_until;
};

/* With the store's lock: it has failed, and is left alone for a while. */
bool tier_is_paused(const struct store_tier *t);
/* Count whether a request succeeded; too many failures pause the tier. */
void tier_count_result(struct store_tier *t, int code);
/* An object that is to be deleted. */
void tier_queue_delete(struct store_tier *t, struct tier_object o);
/* The object of @e is there; what is above the limit goes. */
void tier_add(struct store_tier *t, struct store_entry *e);
/* An entry of t->index; and its object and its record. */
void tier_remove(struct store_tier *t, struct store_entry *e);
void tier_drop(struct store_tier *t, struct store_entry *e);

/* Write a record of @e to a log with space for it; and that @e is gone. */
void tier_write_record(struct store_tier *t, struct store_entry *e);
void tier_write_drop(struct store_tier *t, const struct store_entry *e);

struct tier_object tier_object_of(const struct store_tier *t, const struct store_entry *e);
/* Name of an object, to be freed; NULL without memory. */
char *tier_uri(const struct store_tier *t, struct tier_object o);

/* Threads, and what they leave. */
void *tier_read_run(void *arg);
void *tier_put_run(void *arg);
void *tier_sweep_run(void *arg);
void tier_drop_jobs(struct store_tier *t);

#endif
