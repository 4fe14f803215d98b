/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load as a whole: its clock, its queue, its workers.  Where requests come from is the business
 * of kv_load_synth.c and kv_load_rec.c, what they do that of kv_plan.c.
 */
#include "load/model/kv_load.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/model/kv_load_draw.h"
#include "load/model/kv_load_internal.h"

#define MAX_WORKERS 500

uint32_t kv_load_workers(uint32_t users)
{
	return users < MAX_WORKERS ? users : MAX_WORKERS;
}

int kv_qos_draw(const struct kv_params *p, struct penstock_random *r)
{
	double u = kv_unit(r);

	return u < p->config.interactive_probability ? KV_INTERACTIVE
	       : u < p->config.responsive_threshold  ? KV_RESPONSIVE
						     : KV_BATCH;
}

void kv_request_tokens(struct kv_request *r, uint64_t context, uint64_t generate)
{
	r->context = (uint32_t)min_u64(context, UINT32_MAX);
	r->generate = (uint32_t)min_u64(generate, UINT32_MAX);
	r->phase = r->context >= KV_LONG_CONTEXT ? KV_PREFILL : KV_PHASES;
}

/* ------------------------------------------------------------------ begin and end */

static void set_period(struct kv_load *l)
{
	double rate = l->p->policy.ignores_rate ? 0 : l->p->request_rate;

	l->period_ns = rate > 0 ? kv_ns(l->active / rate) : 0;
}

static int load_init(struct kv_load *l, struct penstock_err *err)
{
	const struct kv_params *p = l->p;
	bool recorded = p->burst_path || p->sharegpt_path;
	uint32_t sources;
	int r;

	l->active = p->users;
	l->workers = kv_load_workers(p->users);
	l->limit_ns = p->duration_ns;
	l->row_ns = p->epoch_ns;
	l->pause_ns = UINT64_MAX;
	l->token_ns = 1e9 * p->config.generation_sec[p->generation];
	l->docs = p->rag && !(recorded && p->policy.recordings_only) ? p->rag_docs : 0;
	set_period(l);
	if (kv_part_init(l) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = kv_rag_init(&l->rag, p, err);
	if (r == 0)
		r = recorded ? kv_rec_init(l, err) : kv_synth_init(l, err);
	if (r < 0)
		return r;
	sources = recorded ? l->rec.nr_cursors : l->nr_user_states;
	if (kv_queue_init(&l->queue, p, sources) < 0 ||
	    penstock_heap_reserve(&l->busy, MAX_WORKERS + 1) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory for %u users", p->users);
	return 0;
}

int kv_load_new(struct kv_load **out, const struct kv_params *p, struct kv_texts *texts,
		struct penstock_err *err)
{
	struct kv_load *l;
	int r = kv_config_check(&p->config, err);

	if (r == 0 && !p->users)
		r = penstock_fail(err, -EINVAL, "num-users: 0 is less than 1");
	if (r < 0)
		return r;
	l = calloc(1, sizeof(*l));
	if (!l)
		return penstock_fail(err, -ENOMEM, "out of memory");
	l->p = p;
	l->texts = texts;
	r = load_init(l, err);
	if (r < 0) {
		kv_load_free(l);
		return r;
	}
	*out = l;
	return 0;
}

void kv_load_free(struct kv_load *l)
{
	if (!l)
		return;
	kv_synth_fini(l);
	kv_rec_fini(l);
	kv_rag_fini(&l->rag);
	kv_queue_fini(&l->queue);
	kv_cache_free(l->undivided_cache);
	penstock_heap_fini(&l->busy);
	free(l);
}

uint64_t kv_load_memory(const struct kv_load *l)
{
	uint64_t capacity = l->busy.capacity + l->rag.candidate.capacity;

	for (int i = 0; i < KV_QOS; i++)
		capacity += l->queue.level[i].capacity;
	return sizeof(*l) + capacity * sizeof(struct penstock_heap_item) +
	       l->nr_user_states * (sizeof(*l->user_states) + sizeof(*l->users)) +
	       l->convs.capacity * sizeof(*l->convs.v) +
	       (l->rec.v ? l->rec.nr * (sizeof(*l->rec.v) + 8) : 0) +
	       l->rec.nr_cursors * sizeof(*l->rec.cursor) +
	       (l->undivided_cache ? kv_cache_memory(l->undivided_cache) : 0);
}

/* ------------------------------------------------------------------------- clock */

/* What came before, preconditioning, took its time on the clock. */
static void load_begin(struct kv_load *l, bool live)
{
	if (l->begun)
		return;
	l->begun = true;
	kv_part_begin(l, live);
	l->zero_ns = l->row_ns;
	if (kv_load_is_recorded(l))
		kv_rec_begin(l);
	else
		kv_synth_begin(l, 0, l->active);
	if (!kv_load_is_recorded(l))
		kv_synth_recount(l);
}

uint64_t kv_load_row(struct kv_load *l)
{
	uint64_t *row_ns = l->undivided_cache ? &l->own_row_ns : &l->row_ns;
	uint64_t at = l->undivided_cache ? max_u64(*row_ns, l->zero_ns + l->now_ns) : *row_ns;

	*row_ns = at + KV_US;
	return at;
}

uint64_t kv_load_clock(const struct kv_load *l)
{
	return l->begun ? l->row_ns - l->zero_ns : 0;
}

static void set_clock(struct kv_load *l, uint64_t now_ns)
{
	l->now_ns = now_ns;
	l->row_ns = max_u64(l->row_ns, l->zero_ns + now_ns);
}

/* ----------------------------------------------------------------------- starting */

static bool used_up(const struct kv_load *l)
{
	return l->max_requests && l->started >= l->max_requests;
}

/* Documents come first. */
static bool take_document(struct kv_load *l, struct kv_request *r)
{
	uint32_t doc = l->rag.end;

	if (doc >= l->docs)
		return false;
	kv_rag_add(&l->rag);
	*r = (struct kv_request){
		.id = doc,
		.type = KV_REQ_INGEST,
		.arrival_ns = l->now_ns,
		.start_ns = l->now_ns,
		.qos = KV_BATCH,
		.phase = KV_PREFILL,
		.conv = KV_NO_CONV,
		.doc = doc,
		.key = {.kind = KV_KEY_DOC, .user = doc},
	};
	return true;
}

/* Whoever is first in the queue at l->now_ns. */
static bool take_request(struct kv_load *l, struct kv_request *r)
{
	struct penstock_heap_item who;
	int level = kv_queue_take(&l->queue, l->now_ns, &who);

	if (level < 0)
		return false;
	*r = (struct kv_request){
		.id = l->started++,
		.arrival_ns = who.key,
		.start_ns = l->now_ns,
		.qos = (uint8_t)level,
		.conv = KV_NO_CONV,
		.turn = 1,
		.turns = 1,
	};
	if (kv_load_is_recorded(l))
		kv_rec_take(l, who, r);
	else
		kv_synth_take(l, who, r);
	l->in_flight += l->p->closed_loop;
	return true;
}

void kv_load_done(struct kv_load *l, const struct kv_request *r, uint64_t now_ns)
{
	if (!l->p->closed_loop || r->type == KV_REQ_INGEST)
		return;
	l->in_flight--;
	if (kv_load_is_recorded(l))
		kv_rec_done(l, r->user, now_ns);
	else
		kv_synth_done(l, r->user, now_ns);
}

/* ------------------------------------------------------------------------ virtual */

void kv_load_pause_at(struct kv_load *l, uint64_t at_ns)
{
	l->pause_ns = at_ns;
}

/* The request handed out last has made its rows; now its worker generates. */
static void finish_current(struct kv_load *l)
{
	uint64_t end;

	if (!l->has_current)
		return;
	l->has_current = false;
	if (kv_load_clock(l) == l->current.start_ns)
		l->row_ns += KV_US; /* even what makes no rows takes time */
	end = kv_load_clock(l) + (uint64_t)(l->current.generate * l->token_ns);
	penstock_heap_push(&l->busy, end, 0);
	kv_load_done(l, &l->current, end);
}

/* When there is both a request and a worker for it; UINT64_MAX: never. */
static uint64_t next_start(struct kv_load *l, uint64_t until_ns)
{
	uint64_t t = kv_load_clock(l), next;

	for (;;) {
		if (t >= until_ns)
			return t;
		while (l->busy.nr && l->busy.v[0].key <= t)
			penstock_heap_pop(&l->busy);
		next = l->busy.nr < l->workers ? kv_queue_first(&l->queue) : l->busy.v[0].key;
		if (next <= t || next == UINT64_MAX)
			return max_u64(next, t);
		t = next;
	}
}

static int start_next(struct kv_load *l, struct kv_request *ret)
{
	uint64_t at;

	finish_current(l);
	set_clock(l, kv_load_clock(l));
	if (take_document(l, ret))
		return 1;
	if (used_up(l))
		return 0;
	at = next_start(l, min_u64(l->pause_ns, l->limit_ns));
	if (at == UINT64_MAX)
		return 0;
	if (at >= l->pause_ns && l->pause_ns < l->limit_ns) {
		set_clock(l, l->pause_ns);
		l->pause_ns = UINT64_MAX;
		return KV_LOAD_PAUSE;
	}
	if (at >= l->limit_ns)
		return 0;
	set_clock(l, at);
	if (!take_request(l, ret))
		return 0;
	l->current = *ret;
	l->has_current = true;
	return 1;
}

int kv_load_next(struct kv_load *l, struct kv_request *ret)
{
	int r;

	load_begin(l, false);
	do {
		r = start_next(l, ret);
		if (r != 1 || !l->undivided_cache)
			return r;
		kv_part_follow(l, ret);
		if (l->part_error)
			return 0;
	} while (ret->type != KV_REQ_INGEST && !kv_load_owns(l, ret->owner));
	return 1;
}

/* --------------------------------------------------------------------------- live */

void kv_load_advance(struct kv_load *l, uint64_t now_ns, uint64_t *next_ns)
{
	load_begin(l, true);
	set_clock(l, now_ns);
	if (l->rag.end < l->docs)
		*next_ns = now_ns;
	else
		*next_ns = kv_load_ended(l) ? UINT64_MAX : kv_queue_first(&l->queue);
}

bool kv_load_pop(struct kv_load *l, struct kv_request *ret)
{
	if (take_document(l, ret))
		return true;
	return !used_up(l) && l->now_ns < l->limit_ns && take_request(l, ret);
}

bool kv_load_exhausted(const struct kv_load *l)
{
	return used_up(l) || (l->begun && !l->rec.abandons && l->rag.end >= l->docs &&
			      !l->in_flight && kv_queue_first(&l->queue) == UINT64_MAX);
}

bool kv_load_ended(const struct kv_load *l)
{
	return l->now_ns >= l->limit_ns || kv_load_exhausted(l);
}

uint64_t kv_load_limit(const struct kv_load *l)
{
	return l->limit_ns;
}

bool kv_load_is_empty(const struct kv_load *l)
{
	return kv_load_is_recorded(l) && !l->rec.nr;
}

/* -------------------------------------------------------------------------- users */

/* Closed loop: whoever waits is in the queue. */
static uint64_t waiting(const struct kv_load *l, uint64_t now_ns)
{
	uint64_t nr = 0;

	for (int i = 0; i < KV_QOS; i++)
		for (uint32_t j = 0; j < l->queue.level[i].nr; j++)
			nr += l->queue.level[i].v[j].key <= now_ns;
	return nr;
}

uint64_t kv_load_queued_at(struct kv_load *l, uint64_t now_ns)
{
	load_begin(l, true);
	if (l->p->closed_loop)
		return waiting(l, now_ns);
	if (kv_load_is_recorded(l))
		kv_rec_count(l, now_ns);
	else
		kv_synth_count(l, now_ns);
	return kv_part_queued(l);
}

uint64_t kv_load_queued(struct kv_load *l)
{
	return kv_load_queued_at(l, l->now_ns);
}

uint32_t kv_load_max_users(const struct kv_load *l)
{
	return kv_load_is_recorded(l) ? UINT32_MAX : l->nr_user_states;
}

void kv_load_set_users(struct kv_load *l, uint32_t users, uint64_t now_ns)
{
	uint32_t old = l->active;

	load_begin(l, true);
	l->active = (uint32_t)min_u64(max_u64(users, 1), kv_load_max_users(l));
	l->workers = kv_load_workers(l->active);
	if (kv_load_is_recorded(l))
		return;
	l->now_ns = now_ns;
	set_period(l);
	for (int i = 0; i < KV_QOS; i++)
		penstock_heap_remove_from(&l->queue.level[i], l->active);
	kv_synth_begin(l, old, l->active);
	kv_synth_recount(l);
}
