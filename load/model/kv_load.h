/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_LOAD_H
#define PENSTOCK_MODEL_KV_LOAD_H

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
 *		in the queue by (priority, arrival), as upstream.  Closed loops of a real run need
 *		this one.
 *
 * A request is made when it is started, not when it arrives: what waits takes no memory, however
 * far the workers are behind.
 *
 * Of several parts (p->parts), each of which has a cache of its own, one gets the requests of its
 * users, of recorded inputs its conversations, and every document.  All parts together do what one
 * would do alone.  On the virtual clock that is exact: each part runs the whole, with the cache
 * that it would have, and passes on what is its own.  Live, only its own come into the queue.
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
	uint64_t id;              /* 0, 1, ... in the order of starts; of INGEST: the document */
	uint64_t arrival_ns;      /* when it was put into the queue */
	uint64_t start_ns;        /* when a worker took it */
	uint8_t type, qos, phase; /* phase: KV_PREFILL: prefill only; KV_DECODE: decode only;
				     KV_PHASES: both */
	uint32_t user;
	uint32_t conv;  /* conversation: slot of the manager or number in the input; UINT32_MAX */
	uint32_t turn;  /* from 1 */
	uint32_t turns; /* registered of the conversation so far, this one included */
	uint32_t context, generate; /* tokens */
	uint32_t doc;               /* of RAG and INGEST */
	uint64_t owner;             /* user or conversation: by this it belongs to a part */
	struct kv_key key;
	uint64_t random; /* seed of the request's own draws */
};

struct kv_load;
struct trace_bad;
/*
 * @p and @texts stay the caller's and must outlive the load.  Returns 0, -ENOMEM, -EINVAL (a
 * setting makes no sense), or the error of reading the recorded input.
 */
int kv_load_new(struct kv_load **out, const struct kv_params *p, struct kv_texts *texts,
		struct penstock_err *err);
void kv_load_free(struct kv_load *l);
/* What of the recorded input cannot be used. */
const struct trace_bad *kv_load_bad(const struct kv_load *l);
/*
 * For when the load has ended: 0, or why the rest of the recorded input could not be read.  @err
 * may be NULL.
 */
int kv_load_error(const struct kv_load *l, struct penstock_err *err);

/*
 * Virtual: 1 and the next start; 0 when the load has ended (duration, max_requests, input).
 * KV_LOAD_PAUSE: nothing starts before the time kv_load_pause_at() was told; call again to go on.
 */
#define KV_LOAD_PAUSE 2
int kv_load_next(struct kv_load *l, struct kv_request *ret);
void kv_load_pause_at(struct kv_load *l, uint64_t at_ns);

/*
 * The virtual clock in rows: each operation of the cache takes a microsecond of its own, so rows
 * are in strict order and a flood comes to an end.  To be called for each event but KV_EV_MISS,
 * in a trace and in a real run on kv_load_next() alike, or the two will not do the same.  Returns
 * the time of the row, nanoseconds since the epoch (p->epoch_ns).
 */
uint64_t kv_load_row(struct kv_load *l);
/* When the virtual clock gets to the next row; the first request cannot start earlier. */
uint64_t kv_load_clock(const struct kv_load *l);

/*
 * Live: the time is @now_ns.  *@next_ns is when kv_load_pop() will have something: not after now
 * when it has, UINT64_MAX when that is not known (closed loops) or will not be.
 */
void kv_load_advance(struct kv_load *l, uint64_t now_ns, uint64_t *next_ns);
bool kv_load_pop(struct kv_load *l, struct kv_request *ret);
/* @r is done: a closed loop's user goes on. */
void kv_load_done(struct kv_load *l, const struct kv_request *r, uint64_t now_ns);
/* Nothing will ever start again: the time is over, or it is exhausted. */
bool kv_load_ended(const struct kv_load *l);
/* max_requests were started, or the recorded input is used up and nothing waits.  While requests
 * of a closed loop are in flight, more may come. */
bool kv_load_exhausted(const struct kv_load *l);
/* Nothing starts at this time or later: the duration, or less where a recorded input ends the run.
 */
uint64_t kv_load_limit(const struct kv_load *l);
/* The recorded input has no request that can be used. */
bool kv_load_is_empty(const struct kv_load *l);

/*
 * Requests that have arrived and not been started: now, or at a later time (which must not go
 * back) for those whose clock is ahead of the starts.
 */
uint64_t kv_load_queued(struct kv_load *l);
uint64_t kv_load_queued_at(struct kv_load *l, uint64_t now_ns);

/*
 * How many of the users are active, and workers with them; at most kv_load_max_users().  A user
 * that goes takes its waiting requests along.
 */
void kv_load_set_users(struct kv_load *l, uint32_t users, uint64_t now_ns);
uint32_t kv_load_max_users(const struct kv_load *l);
/* Bytes of memory the load uses, all told. */
uint64_t kv_load_memory(const struct kv_load *l);

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

/*
 * Carry a request out on the cache; its events come through the cache's emit function.  Returns 0,
 * or -errno of an emit.
 */
int kv_plan(struct kv_load *l, struct kv_cache *c, const struct kv_request *r,
	    void (*step)(void *arg, enum kv_step s), void *arg, struct kv_planned *ret);

/* The users' worker count: min(users, 500). */
uint32_t kv_load_workers(uint32_t users);

/*
 * What is put into the cache before the run, preconditioning first, then the entries decode-only
 * reads: entry @i, or false past the last.
 */
bool kv_prepop(const struct kv_params *p, uint64_t nvme_limit, uint64_t i, struct kv_key *key,
	       uint32_t *tokens);

#endif
