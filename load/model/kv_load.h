/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MODEL_KV_LOAD_H
#define SLUICE_MODEL_KV_LOAD_H

/*
 * Who asks for what, when: users (or a recorded input) make requests, a queue orders them,
 * workers start them, and a planner turns a started request into operations of the cache.
 *
 *	users -> struct kv_request -> queue -> kv_plan() -> struct kv_event...
 *
 * All of it is a function of struct kv_params alone: every user draws from its own stream of
 * random numbers, every request from one of its own.  Times are nanoseconds since the beginning.
 *
 * Two ways to use it:
 *   virtual	kv_load_next() gives started requests in order, on a clock of its own in which
 *		storage takes no time and workers are busy while they generate.  Trace mode, and the
 *		order of a real run.
 *   live	kv_load_advance(), kv_load_pop(), kv_load_done(): the caller's clock; requests wait
 *		in the queue by (priority, arrival), as upstream.  Closed loops need this one.
 */
#include <stdbool.h>
#include <stdint.h>

#include "load/model/kv_params.h"

struct kv_user {
	int kind, qos;
	uint32_t context, generation;
	double think; /* seconds */
};
/* The population: the same as upstream's for the same seed.  @users has room for p->users. */
void kv_users_make(const struct kv_params *p, struct kv_user *users);

enum kv_request_type {
	KV_REQ_NORMAL,
	KV_REQ_RAG,    /* the extra decode request on a document */
	KV_REQ_INGEST, /* one document put in: no worker's, not counted as a request */
};

struct kv_request {
	uint64_t id;              /* 0, 1, ... in the order of arrival */
	uint64_t arrival_ns;      /* when it was put into the queue */
	uint64_t start_ns;        /* when a worker took it; by kv_load_next() */
	uint8_t type, qos, phase; /* phase: KV_PREFILL: prefill only; KV_DECODE: decode only;
				     KV_PHASES: both */
	uint32_t user;
	uint32_t conv; /* slot of the conversation manager; UINT32_MAX: none */
	uint32_t turn;
	uint32_t context, generate; /* tokens */
	uint32_t doc;               /* of RAG and INGEST */
	struct kv_key key;
	uint64_t random; /* seed of the request's own draws */
};

struct kv_load;
int kv_load_new(struct kv_load **out, const struct kv_params *p, struct kv_texts *texts,
		struct sluice_err *err);
void kv_load_free(struct kv_load *l);

/* Virtual: 1 and the next start; 0 when the load has ended (duration, max_requests, input); -errno.
 */
int kv_load_next(struct kv_load *l, struct kv_request *ret, struct sluice_err *err);

/* Live: put what arrives up to @now_ns into the queue; *@next_ns is when the next one arrives
 * (UINT64_MAX: not known). */
int kv_load_advance(struct kv_load *l, uint64_t now_ns, uint64_t *next_ns, struct sluice_err *err);
bool kv_load_pop(struct kv_load *l, struct kv_request *ret);
void kv_load_done(struct kv_load *l, const struct kv_request *r, uint64_t now_ns);
/* The recorded input or max_requests is used up, and the queue is empty. */
bool kv_load_ended(const struct kv_load *l);
uint64_t kv_load_queued(const struct kv_load *l);

/* How many of the users are active; at most as many as were made at the start times the scaler's
 * cap. */
int kv_load_set_users(struct kv_load *l, uint32_t users, uint64_t now_ns);

/* What a request did, beside its events. */
struct kv_planned {
	uint64_t generation_ns;
	uint32_t tokens; /* generated */
	uint32_t turn_hits, turn_misses;
	bool prefix_hit; /* upstream's sense: a system prompt was chosen */
	uint64_t prefix_bytes_saved;
};

/*
 * Where the steps of a request begin, told before the events of the step: what is measured as
 * prefill and what as decode.
 */
enum kv_step {
	KV_STEP_PREFIX,
	KV_STEP_TURNS,
	KV_STEP_PREFILL,
	KV_STEP_RAG,
	KV_STEP_DECODE,
	KV_STEPS
};

/* Carry a request out on the cache; its events come through the cache's emit function. */
int kv_plan(struct kv_load *l, struct kv_cache *c, const struct kv_request *r,
	    void (*step)(void *arg, enum kv_step s), void *arg, struct kv_planned *ret);

/* The users' worker count: min(users, 500). */
uint32_t kv_load_workers(const struct kv_params *p);

/* Preconditioning and decode-only pre-population: entry @i, or false past the last. */
bool kv_prepop(const struct kv_params *p, uint64_t i, struct kv_key *key, uint32_t *tokens);

#endif
