/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded inputs.  Open loop: one cursor per level of service walks over the input and stops at
 * the requests of its level; closed loop: one cursor per user.  When a request arrives follows from
 * its number, so nothing has to be kept of those that wait.
 *
 * BurstGPT is a list of requests at given times; ShareGPT a list of conversations, shuffled anew on
 * each pass.  A request of BurstGPT counts as a conversation of one turn here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "load/model/kv_load_draw.h"
#include "load/model/kv_load_internal.h"
#include "load/model/mt.h"

/* ------------------------------------------------------------------------ order */

/* A permutation of 0 .. nr - 1 of its own for each pass: a Feistel network with cycle walking. */
static uint32_t shuffled(const struct kv_load *l, uint64_t pass, uint32_t place)
{
	uint32_t nr = l->rec.nr_convs, half = 1, x = place, mask;

	while (half < 16 && (uint64_t)1 << (2 * half) < nr)
		half++;
	mask = (1u << half) - 1;
	do {
		uint32_t high = x >> half, low = x & mask;

		for (uint64_t round = 0; round < 4; round++) {
			struct penstock_random r =
				kv_stream(l->p->seed, KV_STREAM_SHUFFLE, pass, round << 32 | low);
			uint32_t next = high ^ ((uint32_t)penstock_random_next(&r) & mask);

			high = low;
			low = next;
		}
		x = high << half | low;
	} while (x >= nr);
	return x;
}

/* The conversation at the cursor, as numbered in the input. */
static uint32_t conv_at(const struct kv_load *l, const struct kv_cursor *c)
{
	if (l->rec.order && !c->pass)
		return l->rec.order[c->conv];
	return l->rec.share ? shuffled(l, c->pass, c->conv) : c->conv;
}

/* What its requests belong to, where no user does it. */
static uint64_t owner_at(const struct kv_load *l, const struct kv_cursor *c)
{
	return l->rec.share ? conv_at(l, c) : c->n;
}

static uint32_t conv_len(const struct kv_load *l, uint32_t conv)
{
	return l->rec.share ? l->rec.first[conv + 1] - l->rec.first[conv] : 1;
}

static uint64_t recorded_at(const struct kv_load *l, const struct kv_cursor *c)
{
	const struct kv_recorded *v = &l->rec;
	uint64_t offset;

	if (v->share)
		return c->n * v->step_ns;
	kv_burst_at(l, c, &offset);
	return c->pass * v->span_ns + offset;
}

static bool cursor_at_end(const struct kv_load *l, const struct kv_cursor *c)
{
	return c->pass >= l->rec.passes || kv_burst_error(c, NULL) < 0;
}

/* Go on by @convs conversations. */
static void skip_convs(const struct kv_load *l, struct kv_cursor *c, uint64_t convs)
{
	uint64_t to = c->conv + convs;

	c->turn = 0;
	c->pass += to / l->rec.nr_convs;
	c->conv = (uint32_t)(to % l->rec.nr_convs);
}

/* The next request; @convs: how far it is to the next conversation. */
static void cursor_step(const struct kv_load *l, struct kv_cursor *c, uint64_t convs)
{
	if (c->turn + 1 < conv_len(l, conv_at(l, c)))
		c->turn++;
	else
		skip_convs(l, c, convs);
	c->n = l->rec.share ? c->n + 1 : c->pass * l->rec.nr + c->conv;
}

/*
 * The turns of a conversation belong to one level, or the later ones would overtake the earlier
 * ones.  Upstream draws for each request.
 */
static int level_at(const struct kv_load *l, const struct kv_cursor *c)
{
	struct penstock_random r = l->rec.share && !l->p->policy.recordings_only
					   ? kv_stream(l->p->seed, KV_STREAM_CONV, c->pass, c->conv)
					   : kv_stream(l->p->seed, KV_STREAM_RECORDED, 0, c->n);

	return kv_qos_draw(l->p, &r);
}

/* ---------------------------------------------------------------------- the queue */

static bool has_level(const struct kv_params *p, int level)
{
	double i = p->config.interactive_probability, r = p->config.responsive_threshold;

	return level == KV_INTERACTIVE ? i > 0 : level == KV_RESPONSIVE ? r > i : i < 1 && r < 1;
}

static bool stops_at(const struct kv_load *l, const struct kv_cursor *c, uint32_t level)
{
	return level_at(l, c) == (int)level && (!l->own_only || kv_load_owns(l, owner_at(l, c)));
}

/*
 * Open loop: on to the first request of its level at or behind the cursor, or to the end of time.
 */
static void put_level(struct kv_load *l, uint32_t level)
{
	struct kv_cursor *c = &l->rec.cursor[level];

	if (!has_level(l->p, (int)level))
		return;
	while (!cursor_at_end(l, c) && recorded_at(l, c) < l->limit_ns && !stops_at(l, c, level))
		cursor_step(l, c, 1);
	if (!cursor_at_end(l, c))
		penstock_heap_push(&l->queue.level[level], recorded_at(l, c), level);
}

/* Closed loop: the user's next request, not before @from_ns. */
static void put_user(struct kv_load *l, uint32_t user, uint64_t from_ns)
{
	struct kv_cursor *c = &l->rec.cursor[user];

	if (cursor_at_end(l, c))
		return;
	if (!l->rec.share)
		from_ns = max_u64(from_ns, recorded_at(l, c));
	c->at_ns = from_ns;
	penstock_heap_push(&l->queue.level[level_at(l, c)], from_ns, user);
}

void kv_rec_begin(struct kv_load *l)
{
	for (uint32_t i = 0; i < l->rec.nr_cursors; i++) {
		struct kv_cursor *c = &l->rec.cursor[i];

		if (!l->p->closed_loop) {
			put_level(l, i);
			continue;
		}
		if (l->own_only && !kv_load_owns(l, i))
			continue;
		skip_convs(l, c, i);
		c->n = l->rec.share ? 0 : i;
		put_user(l, i, l->period_ns / l->rec.nr_cursors * i);
	}
}

void kv_rec_done(struct kv_load *l, uint32_t user, uint64_t now_ns)
{
	struct kv_cursor *c = &l->rec.cursor[user];

	cursor_step(l, c, l->rec.nr_cursors);
	put_user(l, user, max_u64(now_ns, c->at_ns + l->period_ns));
}

/* ----------------------------------------------------------------------- requests */

uint32_t kv_rec_turn(const struct kv_load *l, uint32_t conv, uint32_t i)
{
	return l->rec.v[l->rec.first[conv] + i].turn;
}

static void name_share(const struct kv_load *l, const struct kv_cursor *c, uint32_t conv,
		       struct kv_request *r)
{
	r->turn = kv_rec_turn(l, conv, c->turn);
	r->key = (struct kv_key){
		.kind = KV_KEY_TEXT,
		.n = l->rec.name[conv],
		.turn = (uint16_t)r->turn,
	};
	if (l->p->multi_turn && !l->p->policy.recordings_only) {
		r->conv = conv;
		r->turns = c->turn + 1;
	}
}

void kv_rec_take(struct kv_load *l, struct penstock_heap_item who, struct kv_request *r)
{
	struct kv_cursor *c = &l->rec.cursor[who.value];
	uint32_t conv = conv_at(l, c);
	uint64_t offset;
	const struct trace_request *t =
		l->rec.share ? &l->rec.v[l->rec.first[conv] + c->turn] : kv_burst_at(l, c, &offset);
	struct penstock_random random = kv_stream(l->p->seed, KV_STREAM_RECORDED, c->pass + 1,
						  (uint64_t)conv << 32 | c->turn);

	r->random = penstock_random_next(&random);
	r->user = l->p->closed_loop
			  ? (uint32_t)who.value
			  : (uint32_t)(c->n % (l->rec.share ? l->p->users : KV_TRACE_USERS));
	r->owner = l->p->closed_loop ? who.value : owner_at(l, c);
	kv_request_tokens(r, t->context, t->generate);
	if (l->rec.share)
		name_share(l, c, conv, r);
	else
		r->key = (struct kv_key){.kind = KV_KEY_TRACE_REQ, .user = r->user, .n = c->n};
	if (!l->p->closed_loop) {
		cursor_step(l, c, 1);
		put_level(l, (uint32_t)who.value);
	}
}

void kv_rec_count(struct kv_load *l, uint64_t now_ns)
{
	struct kv_recorded *v = &l->rec;
	struct kv_cursor *c = &v->arrived;

	if (v->share) {
		uint64_t all = v->passes > UINT64_MAX / v->nr ? UINT64_MAX : v->passes * v->nr;

		l->arrived = v->nr ? min_u64(now_ns / v->step_ns + 1, all) : 0;
		return;
	}
	while (!cursor_at_end(l, c) && recorded_at(l, c) <= now_ns) {
		l->arrived++;
		cursor_step(l, c, 1);
	}
}

/* ------------------------------------------------------------------------ loading */

static uint64_t pace(const struct kv_params *p)
{
	double rate = p->policy.ignores_rate && !p->sharegpt_path ? 0 : p->request_rate;

	return rate > 0 ? max_u64(kv_ns(1 / rate), KV_US) : KV_US;
}

static bool begins_conv(const struct trace_request *v, size_t i)
{
	return i == 0 || strcmp(v[i].id, v[i - 1].id) != 0 || v[i].turn <= v[i - 1].turn;
}

static int find_convs(struct kv_load *l, struct penstock_err *err)
{
	struct kv_recorded *v = &l->rec;

	v->first = calloc(v->nr + 1, sizeof(*v->first));
	v->name = calloc(v->nr, sizeof(*v->name));
	if (!v->first || !v->name)
		return penstock_fail(err, -ENOMEM, "out of memory for %zu requests", v->nr);
	for (size_t i = 0; i < v->nr; i++) {
		int64_t text;

		if (v->v[i].turn > UINT16_MAX)
			return penstock_fail(err, -EINVAL,
					     "%s: conversation '%s': has over %u turns",
					     l->p->sharegpt_path, v->v[i].id, UINT16_MAX);
		if (!begins_conv(v->v, i))
			continue;
		text = kv_texts_add(l->texts, v->v[i].id, strlen(v->v[i].id));
		if (text < 0)
			return penstock_fail(err, (int)text, "out of memory");
		v->first[v->nr_convs] = (uint32_t)i;
		v->name[v->nr_convs++] = (uint32_t)text;
	}
	v->first[v->nr_convs] = (uint32_t)v->nr;
	if (__builtin_mul_overflow(v->nr, v->step_ns, &v->span_ns))
		v->span_ns = KV_NEVER;
	return 0;
}

/*
 * Python's random.shuffle() with the seed, which upstream's loader sets unless it is 0.  Later
 * passes depend on what its threads have drawn meanwhile: they are ours.
 */
static int order_as_upstream(struct kv_load *l, struct penstock_err *err)
{
	struct kv_recorded *v = &l->rec;
	struct mt m;

	if (!l->p->policy.recordings_only || !l->p->seed)
		return 0;
	v->order = calloc(v->nr_convs, sizeof(*v->order));
	if (!v->order)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < v->nr_convs; i++)
		v->order[i] = i;
	mt_seed(&m, l->p->seed);
	for (uint32_t i = v->nr_convs - 1; i > 0; i--) {
		uint32_t k = (uint32_t)mt_below(&m, i + 1), was = v->order[i];

		v->order[i] = v->order[k];
		v->order[k] = was;
	}
	return 0;
}

static int load_share(struct kv_load *l, struct penstock_err *err)
{
	const struct kv_config *c = &l->p->config;
	struct trace_sharegpt_opts o = {
		.max_conversations = l->p->sharegpt_conversations,
		.max_context = (uint32_t)min_u64((uint64_t)c->sharegpt_max_context, UINT32_MAX),
		.max_generation =
			(uint32_t)min_u64((uint64_t)c->sharegpt_max_generation, UINT32_MAX),
		.chars_per_token =
			(uint32_t)min_u64((uint64_t)c->sharegpt_chars_per_token, UINT32_MAX),
	};

	l->rec.share = true;
	return trace_sharegpt_load(&l->rec.v, &l->rec.nr, l->p->sharegpt_path, &o, &l->rec.bad,
				   err);
}

/* Upstream stops when the last request of the last pass has been put into the queue. */
static void end_with_input(struct kv_load *l)
{
	uint64_t end;

	if (!l->p->policy.recordings_only || l->p->closed_loop ||
	    __builtin_mul_overflow(l->rec.passes, l->rec.span_ns, &end))
		return;
	l->limit_ns = min_u64(l->limit_ns, end);
	l->rec.abandons = true;
}

int kv_rec_init(struct kv_load *l, struct penstock_err *err)
{
	struct kv_recorded *v = &l->rec;
	const char *path = l->p->sharegpt_path ? l->p->sharegpt_path : l->p->burst_path;
	int r;

	v->bad.strict = l->p->input == KV_INPUT_STRICT;
	v->step_ns = pace(l->p);
	r = l->p->sharegpt_path ? load_share(l, err) : kv_burst_init(l, err);
	if (r < 0)
		return r;
	if (v->nr == 0 && v->bad.nr && l->p->input != KV_INPUT_ANY)
		return penstock_fail(err, -EINVAL, "%s: has no request that can be used: %s", path,
				     v->bad.text[0]);
	if (v->nr == 0 && !v->share)
		return 0; /* no request ever, as upstream */
	if (v->nr == 0)
		return penstock_fail(err, -EINVAL,
				     "%s: has no conversation that can be used; it takes a user's "
				     "turn and an answer",
				     path);
	if (v->nr >= UINT32_MAX)
		return penstock_fail(err, -EINVAL, "%s: has %zu requests; at most %u are possible",
				     path, v->nr, UINT32_MAX - 1);
	v->passes = l->p->replay_cycles ? l->p->replay_cycles : UINT64_MAX;
	r = v->share ? find_convs(l, err) : 0;
	if (r == 0 && v->share)
		r = order_as_upstream(l, err);
	if (r < 0)
		return r;
	v->nr_cursors = l->p->closed_loop ? l->p->users : KV_QOS;
	v->cursor = calloc(v->nr_cursors, sizeof(*v->cursor));
	if (!v->cursor || (!v->share && kv_burst_open_readers(l) < 0))
		return penstock_fail(err, -ENOMEM, "out of memory for %u users", l->p->users);
	end_with_input(l);
	return 0;
}

const struct trace_bad *kv_load_bad(const struct kv_load *l)
{
	return &l->rec.bad;
}

int kv_load_error(const struct kv_load *l, struct penstock_err *err)
{
	int r = l->part_error ? penstock_fail(err, l->part_error, "out of memory")
			      : kv_burst_error(&l->rec.arrived, err);

	for (uint32_t i = 0; r == 0 && i < l->rec.nr_cursors; i++)
		r = kv_burst_error(&l->rec.cursor[i], err);
	return r;
}

void kv_rec_fini(struct kv_load *l)
{
	kv_burst_fini(l);
	if (l->rec.v)
		trace_requests_free(l->rec.v, l->rec.nr);
	free(l->rec.first);
	free(l->rec.order);
	free(l->rec.name);
	free(l->rec.cursor);
}
