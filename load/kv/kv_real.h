/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_KV_KV_REAL_H
#define PENSTOCK_KV_KV_REAL_H

/*
 * The inside of kv_run_real().  Requests are started in order; a started one is planned on the
 * cache at once, and what the plan says becomes one chain of the flow.  So what is done depends
 * on the order of starts alone, and everything here runs in one thread.
 *
 *	kv_real.c	the run: begin, dispatch, end of the interval
 *	kv_real_open.c	places, limits, folder; what kv_check() looks at
 *	kv_real_plan.c	events of the cache -> operations of the flow
 *	kv_real_count.c	completions -> struct kv_result
 *	kv_real_fill.c	what is put in before the interval
 *	kv_real_scale.c	the autoscaler's samples
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "load/kv/kv.h"
#include "load/model/kv_scale.h"
#include "load/object/flow.h"

#define KV_REAL_SEC 1000000000ull

struct kv_real;
/* For tests: what was decided, and the state between two completions. */
struct kv_real_hook {
	void (*event)(void *arg, const struct kv_event *ev);
	void (*done)(void *arg, const struct kv_real *k, const struct flow_done *d);
	void (*end)(void *arg, const struct kv_real *k); /* nothing is under way any more */
	void *arg;
	uint64_t scale_ns; /* between the autoscaler's samples; 0: as long as upstream's */
};

/* An operation of the flow, and the event it carries out. */
struct real_op {
	struct real_work *work;
	struct real_object *object;
	struct flow_op flow; /* what it is to the flow, as it is handed over */
	struct kv_event ev;  /* of a move: its first half */
	uint8_t step;        /* enum kv_step */
};

enum real_kind {
	REAL_REQUEST,
	REAL_INGEST, /* all documents, one after the other: no request, takes no worker */
	REAL_FILL,   /* before the interval */
	REAL_CLEAN,  /* what is left of an entry that was lost */
};

/* A chain. */
struct real_work {
	enum real_kind kind;
	bool failed;
	bool prefilled, decoded; /* it had such a step */
	bool wrote;              /* the former made something */
	unsigned nr, room;
	struct real_op *ops;
	struct kv_request req;
	struct kv_planned planned;
	double storage_sec, generation_sec;
	double alloc_sec; /* of the allocation under way */
	double decode_sec;
	struct real_work *prev, *next; /* of all that run */
	struct real_work *later;       /* of those to be started */
};

/*
 * What stands behind an entry of the cache.  The cache is ahead of the I/O, and numbers of
 * entries are used again, so operations on their way hold on to the object.
 */
struct real_object {
	uint64_t number; /* in the flow: never used again; with a store that of its key */
	uint32_t refs;
	uint8_t tier; /* as planned */
	bool live;    /* in the cache */
	bool lost;    /* an operation failed: it is not there, whatever was planned */
};

struct real_places {
	struct place_opts opts[KV_TIERS];
	struct kv_cache_opts cache;
	const char *paths[1];
	uint64_t storage; /* bytes of the storage tier, which of a store the cache does not know */
	bool has_gpu, gpu_real;
	char gpu_how[200];
};

struct kv_real {
	const struct kv_job *job;
	const struct kv_params *p;
	const struct kv_real_hook *hook;
	struct kv_result *r;

	char *folder; /* of the storage tier */
	bool temporary;
	struct real_places pl;
	struct place *places[KV_TIERS];
	struct kv_texts *texts;
	struct kv_cache *cache;
	struct kv_load *load;
	struct flow *flow;

	struct real_object **entries; /* by the cache's numbers */
	uint32_t nr_entries;
	uint64_t objects; /* numbers given out */
	struct real_work *planning;
	uint8_t step;
	struct real_work *works;
	struct real_work *ingest; /* documents that are planned and not started */
	struct real_work *clean;  /* to be started */
	char *text;               /* names and shapes of operations on their way into the flow */
	size_t text_room;

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

int kv_real_run(const struct kv_job *job, const struct kv_real_hook *hook, struct kv_result *r,
		struct penstock_err *err);

/* The first reason why the run cannot go on; returns @code. */
int real_fail(struct kv_real *k, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- kv_real_open.c */
int real_open(struct kv_real *k, struct penstock_err *err);
int real_close(struct kv_real *k, struct penstock_err *err);

/* ---- kv_real_plan.c */
kv_emit real_emit;
void real_work_free(struct kv_real *k, struct real_work *w);
void real_forget_all(struct kv_real *k);
/* Plan it, and hand the operations over to the flow. */
int real_start_request(struct kv_real *k, const struct kv_request *req);
/* Plan one document more; the operations of all of them are one chain beside the requests. */
int real_add_document(struct kv_real *k, const struct kv_request *req);
int real_start_documents(struct kv_real *k);
int real_start_fill(struct kv_real *k, struct kv_key key, uint32_t tokens);
/* @op failed: its entry is no longer in the cache.  False: that was known. */
bool real_lose(struct kv_real *k, const struct real_op *op);
/* Delete what real_lose() left behind. */
int real_clean(struct kv_real *k);

/* ---- kv_real_count.c */
void real_count_op(struct kv_real *k, struct real_op *op, const struct flow_done *d);
void real_count_miss(struct kv_real *k, const struct kv_event *ev);
void real_count_request(struct kv_real *k, const struct real_work *w, uint64_t end_ns);
/* The seconds up to @now_ns are over. */
void real_count_seconds(struct kv_real *k, uint64_t now_ns);

/* ---- kv_real_fill.c */
int real_fill(struct kv_real *k);

/* ---- kv_real_scale.c */
int real_scale_begin(struct kv_real *k);
void real_scale_tick(struct kv_real *k, uint64_t now_ns);
uint64_t real_scale_due(const struct kv_real *k); /* when the next sample is */
void real_scale_end(struct kv_real *k);

/* ---- kv_real.c */
void real_work_end(struct kv_real *k, struct real_work *w, uint64_t end_ns);
/* Work until @until_ns or until a chain ends; then what has to follow.  -errno: cannot go on. */
int real_wait(struct kv_real *k, uint64_t until_ns);
bool real_stopped(const struct kv_real *k);

#endif
