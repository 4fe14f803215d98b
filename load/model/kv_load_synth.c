/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users that draw: think, go on with a conversation or begin another, ask.  Request number k of a
 * user is a function of (seed, user, k) but for its conversation; so how many requests have
 * arrived can be counted without making them.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/util.h"
#include "load/model/kv_load_draw.h"
#include "load/model/kv_load_internal.h"
#include "load/model/kv_scale.h"

#define THINK_MIN (100 * KV_US) /* even a user without thoughts is not infinitely fast */
#define MAX_TURNS UINT16_MAX    /* of a key */

/* The draws of a request, in this order. */
struct draws {
	double think; /* seconds before it */
	bool end;     /* of the conversation before it */
	bool rag;     /* an extra request behind it */
	struct penstock_random random;
};

static struct draws synth_draw(const struct kv_load *l, uint32_t user, uint64_t k)
{
	const struct kv_params *p = l->p;
	struct draws d = {.random = kv_stream_at(l->user_states[user].key, k)};

	d.think = l->users[user].think * (0.8 + 0.4 * kv_unit(&d.random));
	d.end = kv_unit(&d.random) < p->config.end_conversation_probability;
	d.rag = kv_unit(&d.random) < p->config.rag_request_probability && l->docs;
	return d;
}

/* When request @k arrives: after a pause from @from_ns, and not too soon after @last_ns. */
static uint64_t arrival(const struct kv_load *l, uint32_t user, uint64_t k, uint64_t from_ns,
			uint64_t last_ns)
{
	uint64_t think = max_u64(kv_ns(synth_draw(l, user, k).think), THINK_MIN);

	return max_u64(from_ns + think, last_ns + l->period_ns);
}

/* Put the user into the queue. */
static void synth_put(struct kv_load *l, uint32_t user, uint64_t at_ns)
{
	l->user_states[user].at_ns = at_ns;
	penstock_heap_push(&l->queue.level[l->users[user].qos], at_ns, user);
}

/* The next request, once the user has time for it from @from_ns on. */
static void put_next(struct kv_load *l, uint32_t user, uint64_t from_ns)
{
	struct kv_user_state *s = &l->user_states[user];

	if (s->rag_due) {
		synth_put(l, user, from_ns);
		return;
	}
	s->k++;
	synth_put(l, user, arrival(l, user, s->k, from_ns, s->at_ns));
}

/* ----------------------------------------------------------------- conversations */

static uint32_t max_turns(const struct kv_load *l)
{
	return (uint32_t)min_u64((uint64_t)l->p->config.max_turns, MAX_TURNS);
}

/* Upstream reads turns that were registered since, too: those that arrived meanwhile. */
static uint32_t turns_since(const struct kv_load *l, uint32_t user, uint32_t turn)
{
	const struct kv_user_state *s = &l->user_states[user];
	uint64_t k = s->k, at = s->at_ns;
	uint32_t nr = 0;

	while (turn + nr < max_turns(l)) {
		at = arrival(l, user, ++k, at, at);
		if (at > l->now_ns || synth_draw(l, user, k).end)
			break;
		nr++;
	}
	return nr;
}

static uint32_t conversation(struct kv_load *l, uint32_t user, bool end)
{
	struct kv_user_state *s = &l->user_states[user];
	uint64_t ms = (l->zero_ns + s->at_ns) / 1000000;

	if (!end && kv_convs_has(&l->convs, s->conv, user, s->conv_ms) &&
	    l->convs.v[s->conv].turns < max_turns(l))
		return s->conv;
	s->conv_ms = max_u64(ms, s->conv_ms + 1); /* no two with the same name */
	s->conv = kv_convs_start(&l->convs, user, s->conv_ms);
	return s->conv;
}

static void take_turn(struct kv_load *l, uint32_t user, bool end, struct kv_request *r)
{
	r->conv = conversation(l, user, end);
	r->turn = r->turns = kv_convs_turn(&l->convs, r->conv);
	if (l->p->policy.sees_later_turns && !l->p->closed_loop)
		r->turns += turns_since(l, user, r->turn);
	r->key = (struct kv_key){
		.kind = KV_KEY_CONV,
		.user = user,
		.n = l->user_states[user].conv_ms,
		.turn = (uint16_t)r->turn,
	};
}

/* ---------------------------------------------------------------------- requests */

static uint64_t quarter(uint32_t n)
{
	return max_u64(1, n / 4);
}

static void make_normal(struct kv_load *l, uint32_t user, struct kv_request *r)
{
	struct kv_user_state *s = &l->user_states[user];
	const struct kv_user *u = &l->users[user];
	struct draws d = synth_draw(l, user, s->k);
	uint64_t context = kv_between(&d.random, quarter(u->context), u->context);

	kv_request_tokens(r, context, kv_between(&d.random, quarter(u->generation), u->generation));
	r->random = penstock_random_next(&d.random);
	if (l->p->multi_turn)
		take_turn(l, user, d.end, r);
	else
		r->key = (struct kv_key){.kind = KV_KEY_USER_REQ, .user = user, .n = s->k};
	s->rag_due = d.rag;
}

/* A question to a document: the chunks that were found are its context. */
static void make_rag(struct kv_load *l, uint32_t user, struct kv_request *r)
{
	struct kv_user_state *s = &l->user_states[user];
	struct penstock_random random = kv_stream(l->p->seed, KV_STREAM_RAG, user, s->k);
	uint64_t context = 0;

	r->type = KV_REQ_RAG;
	r->doc = kv_rag_any(&l->rag, &random);
	for (uint32_t nr = kv_rag_retrieve(&l->rag, r->doc, &random); nr; nr--)
		context += kv_rag_chunk_tokens(&l->rag, r->doc, kv_rag_chunk(&l->rag));
	kv_request_tokens(r, context, kv_between(&random, 50, 200));
	r->phase = KV_DECODE;
	r->random = penstock_random_next(&random);
	r->key = (struct kv_key){.kind = KV_KEY_DOC, .user = r->doc};
	s->rag_due = false;
}

void kv_synth_take(struct kv_load *l, struct penstock_heap_item who, struct kv_request *r)
{
	r->user = (uint32_t)who.value;
	r->owner = who.value;
	if (l->user_states[who.value].rag_due)
		make_rag(l, (uint32_t)who.value, r);
	else
		make_normal(l, (uint32_t)who.value, r);
	if (l->p->closed_loop)
		l->user_states[who.value].in_flight = true;
	else
		put_next(l, (uint32_t)who.value, who.key);
}

void kv_synth_done(struct kv_load *l, uint32_t user, uint64_t now_ns)
{
	l->user_states[user].in_flight = false;
	if (user < l->active)
		put_next(l, user, now_ns);
}

/* Does the user ever come into the queue? */
static bool may_enter_queue(const struct kv_load *l, uint32_t user)
{
	return !l->own_only || kv_load_owns(l, user);
}

/* ---------------------------------------------------------------------- counting */

void kv_synth_count(struct kv_load *l, uint64_t now_ns)
{
	for (uint32_t i = 0; i < l->active; i++) {
		struct kv_user_state *s = &l->user_states[i];

		if (!may_enter_queue(l, i))
			continue;
		while (s->arrived_ns <= now_ns) {
			l->arrived += 1 + (l->docs && synth_draw(l, i, s->arrived_k).rag);
			s->arrived_k++;
			s->arrived_ns = arrival(l, i, s->arrived_k, s->arrived_ns, s->arrived_ns);
		}
	}
}

/* Begin to count again, with what waits now. */
void kv_synth_recount(struct kv_load *l)
{
	l->arrived = l->started;
	for (uint32_t i = 0; i < l->active; i++) {
		struct kv_user_state *s = &l->user_states[i];

		if (!may_enter_queue(l, i))
			continue;
		s->arrived_k = s->k + s->rag_due;
		s->arrived_ns =
			s->rag_due ? arrival(l, i, s->arrived_k, s->at_ns, s->at_ns) : s->at_ns;
		l->arrived += s->rag_due;
	}
}

/* ------------------------------------------------------------------- begin and end */

/* Users [from, to) come in at l->now_ns; with a rate given, one after the other. */
void kv_synth_begin(struct kv_load *l, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct kv_user_state *s = &l->user_states[i];
		uint64_t turn = l->period_ns / l->active * i;

		if (s->in_flight || !may_enter_queue(l, i))
			continue;
		s->rag_due = false;
		synth_put(l, i,
			  l->period_ns ? l->now_ns + turn : arrival(l, i, s->k, l->now_ns, 0));
	}
}

int kv_synth_init(struct kv_load *l, struct penstock_err *err)
{
	struct kv_params p = *l->p;

	if (p.autoscale && !p.policy.scales_number_only)
		p.users = (uint32_t)max_u64(p.users, kv_scale_max(&p));
	l->nr_user_states = p.users;
	l->users = calloc(p.users, sizeof(*l->users));
	l->user_states = calloc(p.users, sizeof(*l->user_states));
	if (!l->users || !l->user_states ||
	    kv_convs_init(&l->convs, p.config.max_conversations) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory for %u users", p.users);
	kv_users_make(&p, l->users);
	for (uint32_t i = 0; i < p.users; i++) {
		l->user_states[i].key = kv_stream_key(p.seed, KV_STREAM_USER, i);
		l->user_states[i].conv = KV_NO_CONV;
	}
	return 0;
}

void kv_synth_fini(struct kv_load *l)
{
	kv_convs_fini(&l->convs);
	free(l->users);
	free(l->user_states);
}
