/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_MODEL_KV_LOAD_INTERNAL_H
#define PENSTOCK_MODEL_KV_LOAD_INTERNAL_H

/*
 * What the files of the load share: kv_load.c, kv_load_synth.c, kv_load_rec.c, kv_load_burst.c,
 * kv_load_part.c, kv_plan.c.
 */
#include "load/model/kv_conv.h"
#include "load/model/kv_load.h"
#include "load/model/kv_queue.h"
#include "load/model/kv_rag.h"
#include "load/trace/trace.h"

#define KV_US           1000ull
#define KV_NEVER        (1ull << 62) /* 146 years; two of them can be added */
#define KV_LONG_CONTEXT 10000        /* from here on a request is prefill only */
#define KV_TRACE_USERS  1000         /* BurstGPT's requests belong to so many */
#define KV_PREPOP_EACH  10           /* entries per user that decode-only reads */

/* A user of the synthetic load. */
struct kv_user_state {
	uint64_t key;        /* of its streams */
	uint64_t at_ns;      /* arrival of its next request */
	uint64_t k;          /* number of that request */
	uint64_t conv_ms;    /* of the conversation it is in, or was in last */
	uint64_t arrived_ns; /* the same as the first two, but as of the clock: how many ... */
	uint64_t arrived_k;  /* ... have arrived, started or not */
	uint32_t conv;       /* slot of the manager */
	bool rag_due;        /* the extra request of number k is next */
	bool in_flight;      /* closed loop */
};

/* A place in a recorded input. */
struct kv_cursor {
	uint64_t pass;
	uint64_t n;    /* requests before this one, all passes together */
	uint32_t conv; /* place in the order of this pass */
	uint32_t turn; /* request of the conversation, from 0 */
	uint64_t at_ns;
	struct kv_burst_reader *reader; /* BurstGPT, where requests are not kept; kv_load_burst.c */
};

/* Of requests of BurstGPT, one after the other. */
struct kv_burst_clock {
	uint64_t nr;        /* so far, in this pass */
	double time_sec;    /* of the last, as recorded */
	double sec;         /* and in the run */
	uint64_t offset_ns; /* the same, never less than a step behind the one before */
};

struct kv_recorded {
	struct trace_request *v; /* NULL: they are not kept */
	size_t nr;
	bool share;        /* ShareGPT: conversations, shuffled on each pass */
	uint32_t *first;   /* of each conversation its first request, and the end; ShareGPT */
	uint32_t *name;    /* of each conversation the number of its text; ShareGPT */
	uint32_t *order;   /* of the first pass as upstream has it; NULL: ours */
	uint32_t nr_convs; /* BurstGPT: each request is one */
	uint64_t *offset;  /* of each request from the beginning of its pass, ns; BurstGPT */
	struct kv_burst_reader *readers;
	uint64_t step_ns;         /* between requests; BurstGPT: at least */
	uint64_t span_ns;         /* of a pass */
	uint64_t passes;          /* UINT64_MAX: no end */
	bool abandons;            /* the end of the input is the end of the run, whatever waits */
	struct kv_cursor *cursor; /* open: one per level, closed: one per user */
	uint32_t nr_cursors;
	struct trace_bad bad;
	struct kv_cursor arrived; /* as of the clock, whatever was started */
};

struct kv_load {
	const struct kv_params *p;
	struct kv_texts *texts;
	struct kv_queue queue;
	struct kv_convs convs;
	struct kv_rag rag;
	struct kv_user *users;
	struct kv_user_state *user_states;
	uint32_t nr_user_states, active;
	struct kv_recorded rec;

	double token_ns;    /* of generation */
	uint64_t period_ns; /* of one user at --request-rate; 0: no limit */
	uint64_t limit_ns;  /* nothing starts at or after this */
	uint32_t docs;      /* to be ingested */
	uint64_t started;   /* requests */
	uint64_t arrived;   /* as far as counted: kv_load_queued() */
	uint32_t in_flight; /* closed loop */
	uint32_t prefixes;  /* system prompts that were written: bits */

	/* the clock */
	uint64_t now_ns;  /* since the beginning */
	uint64_t zero_ns; /* the beginning; since the epoch, as the next */
	uint64_t row_ns;  /* of the next row */
	uint64_t pause_ns;
	bool begun;

	/* virtual workers */
	uint32_t workers;
	struct penstock_heap busy;
	struct kv_request current; /* started last; its worker is not in @busy yet */
	bool has_current;

	/* one of several parts: kv_load_part.c */
	struct kv_cache *undivided_cache; /* virtual: what one alone would have */
	bool own_only;                    /* live: others do not come into the queue */
	uint64_t max_requests;            /* 0: any number */
	uint64_t own_row_ns;              /* of the next row of this part */
	int part_error;
};

static inline bool kv_load_is_recorded(const struct kv_load *l)
{
	return l->p->burst_path || l->p->sharegpt_path;
}

/* Is it for this part to do? */
static inline bool kv_load_owns(const struct kv_load *l, uint64_t owner)
{
	return l->p->parts < 2 || owner % l->p->parts == l->p->part;
}

static inline uint64_t kv_ns(double sec)
{
	return sec <= 0 ? 0 : sec * 1e9 >= (double)KV_NEVER ? KV_NEVER : (uint64_t)(sec * 1e9);
}

/* Level of service by the mix of the configuration. */
int kv_qos_draw(const struct kv_params *p, struct penstock_random *r);
void kv_request_tokens(struct kv_request *r, uint64_t context, uint64_t generate);

/* One source of requests each: users that draw, and recorded inputs. */
int kv_synth_init(struct kv_load *l, struct penstock_err *err);
void kv_synth_fini(struct kv_load *l);
void kv_synth_begin(struct kv_load *l, uint32_t from, uint32_t to);
void kv_synth_take(struct kv_load *l, struct penstock_heap_item who, struct kv_request *r);
void kv_synth_done(struct kv_load *l, uint32_t user, uint64_t now_ns);
void kv_synth_count(struct kv_load *l, uint64_t now_ns);
void kv_synth_recount(struct kv_load *l);

int kv_part_init(struct kv_load *l); /* 0 or -ENOMEM */
/* Before the first request, with l->row_ns at the beginning of all. */
void kv_part_begin(struct kv_load *l, bool live);
/* A request of the whole was started: do to the whole's cache what it does. */
void kv_part_follow(struct kv_load *l, const struct kv_request *r);
/* Of @nr that wait in the whole. */
uint64_t kv_part_queued(const struct kv_load *l);

int kv_rec_init(struct kv_load *l, struct penstock_err *err);
void kv_rec_fini(struct kv_load *l);
void kv_rec_begin(struct kv_load *l);
void kv_rec_take(struct kv_load *l, struct penstock_heap_item who, struct kv_request *r);
void kv_rec_done(struct kv_load *l, uint32_t user, uint64_t now_ns);
void kv_rec_count(struct kv_load *l, uint64_t now_ns);
/* The request before @i of the same conversation: its turn; 0: none. */
uint32_t kv_rec_turn(const struct kv_load *l, uint32_t conv, uint32_t i);

/* Find out how many requests there are, and how long a pass takes: rec.nr, rec.span_ns. */
int kv_burst_init(struct kv_load *l, struct penstock_err *err);
/* For the cursors, and the one of the clock.  0 or -ENOMEM. */
int kv_burst_open_readers(struct kv_load *l);
void kv_burst_fini(struct kv_load *l);
/* The request at the cursor, and when it comes; for ever where reading has failed. */
const struct trace_request *kv_burst_at(const struct kv_load *l, const struct kv_cursor *c,
					uint64_t *ret_offset_ns);
/* 0, or why reading for this cursor has failed. */
int kv_burst_error(const struct kv_cursor *c, struct penstock_err *err);

#endif
