/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_KVKIT_H
#define PENSTOCK_TESTS_KVKIT_H

/*
 * Small real runs of the KV-cache workload, watched while they go on.  One at a time: setup, change
 * kvkit.params and kvkit.job, run, look at kvkit.r, teardown.
 */
#include <stdatomic.h>

#include "load/kv/kv_run.h"

struct kvkit_op {
	uint8_t type, tier, to, kind, phase;
	bool alloc_begin, alloc_end;
	bool request; /* it belongs to one */
	bool missed;  /* at a store */
	int64_t result;
	uint64_t size, chain;    /* chain: of whichever request */
	uint64_t id, arrival_ns; /* of the request */
	uint32_t user;
	uint64_t begin_ns, start_ns, end_ns;
};

struct kvkit {
	struct kv_params params;
	struct kv_job job;
	struct kv_result r;
	struct penstock_err err;
	atomic_int stop;
	char dir[PATH_MAX], burst[PATH_MAX];

	/* what was seen */
	struct kv_event *events; /* as planned */
	size_t nr_events;
	struct kvkit_op *ops; /* as completed */
	size_t nr_ops;
	uint64_t begin_ns;
	uint64_t capacity[KV_TIERS], most[KV_TIERS]; /* bytes of places */
	uint32_t most_active;
	uint64_t objects[KV_TIERS], entries[KV_TIERS], place_used[KV_TIERS]; /* at the end */
	uint64_t running, chains;
	unsigned files; /* in the folder at the end, but for dot files */
	bool consistent;

	/* what to do meanwhile: after so many operations */
	size_t at;
	void (*act)(struct kvkit *);
	uint64_t scale_ns;
};
extern struct kvkit kvkit;

void kvkit_setup(void); /* 8 users, entries of 0.2 to 1.6 MB, tiers of 4, 6 and 8 MiB */
void kvkit_teardown(void);
/* kv_run_storage(); the result is what it returned. */
int kvkit_go(void);
/* The same, which must succeed. */
void kvkit_ok(void);
/* It did, without any error, and to its end. */
void kvkit_clean(void);
/* What left a tier arrived in the next one, and what is in a tier is what came and stayed. */
void kvkit_conserved(void);
/* Documents of a few small chunks. */
void kvkit_documents(uint32_t nr);
/* A recorded input of @nr requests of 10 to 17 and 20 tokens, 100 s apart. */
void kvkit_burst(unsigned nr);
/* More to do than can be done in the second that the run takes. */
void kvkit_overload(void);
void kvkit_stop(struct kvkit *k); /* for act */
/* Names in the folder, but for "." and "..". */
unsigned kvkit_names(const char *dir);
double kvkit_mib(double mib); /* in GiB, as parameters are */

#endif
