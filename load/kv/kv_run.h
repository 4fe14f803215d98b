/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KV_KV_RUN_H
#define PENSTOCK_KV_KV_RUN_H

/*
 * The inside of kv_run_storage().  Requests are started in order; a started one is planned on the
 * cache at once, and what the plan says becomes one chain of the flow.  So what is done depends
 * on the order of starts alone, and everything here runs in one thread.
 *
 *	kv_run.c	the run: begin, dispatch, end of the interval
 *	kv_run_open.c	places, limits, folder; what kv_check() looks at
 *	kv_run_plan.c	events of the cache -> operations of the flow
 *	kv_run_count.c	completions -> struct kv_result
 *	kv_run_fill.c	what is put in before the interval
 *	kv_run_scale.c	the autoscaler's samples
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "load/kv/kv.h"
#include "load/model/kv_scale.h"
#include "load/object/flow.h"

#define KV_RUN_SEC 1000000000ull

struct kv_run;
/* For tests: what was decided, and the state between two completions. */
struct kv_run_hook {
	void (*event)(void *arg, const struct kv_event *ev);
	void (*done)(void *arg, const struct kv_run *k, const struct flow_done *d);
	void (*end)(void *arg, const struct kv_run *k); /* nothing is under way any more */
	void *arg;
	uint64_t scale_ns; /* between the autoscaler's samples; 0: as long as upstream's */
};

/* An operation of the flow, and the event it carries out. */
struct kv_run_op {
	struct kv_run_chain *chain;
	struct kv_run_object *object;
	struct flow_op flow; /* what it is to the flow, as it is handed over */
	struct kv_event ev;  /* of a move: its first half */
	uint8_t step;        /* enum kv_step */
};

enum kv_chain_kind {
	KV_CHAIN_REQUEST,
	KV_CHAIN_INGEST, /* all documents, one after the other: no request, takes no worker */
	KV_CHAIN_FILL,   /* before the interval */
	KV_CHAIN_CLEAN,  /* what is left of an entry that was lost */
};

/* A chain. */
struct kv_run_chain {
	enum kv_chain_kind kind;
	bool failed;
	bool prefilled, decoded; /* it had such a step */
	bool wrote;              /* the former made something */
	unsigned nr, capacity;
	struct kv_run_op *ops;
	struct kv_request req;
	struct kv_planned planned;
	double storage_sec, generation_sec;
	double alloc_sec; /* of the allocation under way */
	double decode_sec;
	struct kv_run_chain *prev, *next; /* of all that run */
	struct kv_run_chain *next_start;  /* of those to be started */
};

/*
 * What stands behind an entry of the cache.  The cache is ahead of the I/O, and numbers of
 * entries are used again, so operations on their way hold on to the object.
 */
struct kv_run_object {
	uint64_t number; /* in the flow: never used again; with a store that of its key */
	uint32_t refs;
	uint8_t tier; /* as planned */
	bool live;    /* in the cache */
	bool lost;    /* an operation failed: it is not there, whatever was planned */
};

struct kv_run_places {
	struct place_opts opts[KV_TIERS];
	struct kv_cache_opts cache;
	const char *paths[1];
	uint64_t storage; /* bytes of the storage tier, which of a store the cache does not know */
	bool has_gpu, gpu_real;
	char gpu_how[200];
};

struct kv_run {
	const struct kv_job *job;
	const struct kv_params *p;
	const struct kv_run_hook *hook;
	struct kv_result *r;

	char *folder; /* of the storage tier */
	bool temporary;
	struct kv_run_places pl;
	struct place *places[KV_TIERS];
	struct kv_texts *texts;
	struct kv_cache *cache;
	struct kv_load *load;
	struct flow *flow;

	struct kv_run_object **entries; /* by the cache's numbers */
	uint32_t nr_entries;
	uint64_t objects; /* numbers given out */
	struct kv_run_chain *planning;
	uint8_t step;
	struct kv_run_chain *chains;
	struct kv_run_chain *ingest;   /* documents that are planned and not started */
	struct kv_run_chain *cleanups; /* to be started */
	char *text; /* names and shapes of operations on their way into the flow */
	size_t text_capacity;

	bool live;     /* the queue by priority, on the real clock */
	bool has_next; /* seed order: @next waits for its time or a worker */
	bool load_over;
	struct kv_request next;
	uint32_t workers, active;
	uint64_t pending; /* operations in the flow, of documents, too */
	uint64_t documents;

	bool measuring;
	uint64_t begin_ns;
	uint64_t until_ns;    /* what completes later is late */
	uint64_t last_end_ns; /* of a chain */
	uint64_t tick_sec;    /* the next second to be closed */
	uint64_t progress_ns;
	struct rusage before;
	struct flow_stats stats; /* as they were at the beginning */
	unsigned fill_failures;  /* in a row */
	int failed;              /* -errno: the run cannot go on */
	struct penstock_err err;

	struct kv_scale scale;
	bool scaling, scale_stop;
	uint64_t scale_at_ns, scale_tokens;
	struct samples window[2]; /* storage tier since the last sample */
};

int kv_run_hooked(const struct kv_job *job, const struct kv_run_hook *hook, struct kv_result *r,
		  struct penstock_err *err);

/* The first reason why the run cannot go on; returns @code. */
int kv_run_fail(struct kv_run *k, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- kv_run_open.c */
int kv_run_open(struct kv_run *k, struct penstock_err *err);
int kv_run_close(struct kv_run *k, struct penstock_err *err);

/* ---- kv_run_plan.c */
kv_emit kv_run_emit;
void kv_run_chain_free(struct kv_run *k, struct kv_run_chain *w);
void kv_run_free_all(struct kv_run *k);
/* Plan it, and hand the operations over to the flow. */
int kv_run_start_request(struct kv_run *k, const struct kv_request *req);
/* Plan one document more; the operations of all of them are one chain beside the requests. */
int kv_run_add_document(struct kv_run *k, const struct kv_request *req);
int kv_run_start_documents(struct kv_run *k);
int kv_run_start_fill(struct kv_run *k, struct kv_key key, uint32_t tokens);
/* @op failed: its entry is no longer in the cache.  False: that was known. */
bool kv_run_drop_lost(struct kv_run *k, const struct kv_run_op *op);
/* Delete what kv_run_drop_lost() left behind. */
int kv_run_clean(struct kv_run *k);

/* ---- kv_run_count.c */
void kv_run_count_op(struct kv_run *k, struct kv_run_op *op, const struct flow_done *d);
void kv_run_count_miss(struct kv_run *k, const struct kv_event *ev);
void kv_run_count_request(struct kv_run *k, const struct kv_run_chain *w, uint64_t end_ns);
/* The seconds up to @now_ns are over. */
void kv_run_count_seconds(struct kv_run *k, uint64_t now_ns);

/* ---- kv_run_fill.c */
int kv_run_fill(struct kv_run *k);

/* ---- kv_run_scale.c */
int kv_run_scale_begin(struct kv_run *k);
void kv_run_scale_tick(struct kv_run *k, uint64_t now_ns);
uint64_t kv_run_scale_due(const struct kv_run *k); /* when the next sample is */
void kv_run_scale_end(struct kv_run *k);

/* ---- kv_run.c */
void kv_run_chain_end(struct kv_run *k, struct kv_run_chain *w, uint64_t end_ns);
/* Work until @until_ns or until a chain ends; then what has to follow.  -errno: cannot go on. */
int kv_run_wait(struct kv_run *k, uint64_t until_ns);
bool kv_run_stopped(const struct kv_run *k);

#endif
