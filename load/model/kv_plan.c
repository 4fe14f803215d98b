/* SPDX-License-Identifier: Apache-2.0 */
/* What a started request does to the cache: prefix, earlier turns, prefill, retrieval, decode. */
#include <errno.h>

#include "base/util.h"
#include "load/model/kv_load_draw.h"
#include "load/model/kv_load_internal.h"

/* The system prompts, as numbers of words; KV_KEY_SYSTEM knows their names. */
static const uint32_t prompt_words[] = {5, 9, 6};

#define PREFETCH 16 /* keys; as many cache lines as can be on their way at once */

struct plan {
	struct kv_load *l;
	struct kv_cache *c;
	const struct kv_request *r;
	void (*step)(void *arg, enum kv_step s);
	void *arg;
	struct kv_planned *ret;
	struct penstock_random random;
	uint32_t context;  /* tokens that are left to prefill */
	enum kv_kind kind; /* of decode reads */
};

static void begin_step(const struct plan *p, enum kv_step s)
{
	if (p->step)
		p->step(p->arg, s);
}

/* 1: read, 0: it is not there, or -errno. */
static int read_entry(const struct plan *p, struct kv_key key, enum kv_kind kind)
{
	int r = kv_cache_access(p->c, key, KV_DECODE, kind);

	return r >= 0 ? 1 : r == -ENOENT ? 0 : r;
}

static int write_entry(const struct plan *p, struct kv_key key, uint32_t tokens)
{
	int r = kv_cache_allocate(p->c, key, tokens);

	return r < 0 ? r : 0;
}

/* ------------------------------------------------------------------------ prefix */

/* May this prompt be kept?  At most so many are. */
static bool keep_prompt(struct kv_load *l, uint32_t prompt)
{
	uint32_t with = l->prefixes | 1u << prompt;

	if (__builtin_popcount(with) > l->p->config.max_prefix_entries)
		return false;
	l->prefixes = with;
	return true;
}

static bool choose_prompt(struct plan *p, uint32_t *prompt)
{
	const struct kv_params *o = p->l->p;

	if (!o->prefix || kv_unit(&p->random) >= o->config.system_prompt_hit_probability)
		return false;
	*prompt = (uint32_t)penstock_random_below(&p->random, ARRAY_SIZE(prompt_words));
	return p->context >= o->config.min_prefix_length;
}

/*
 * Upstream never writes the prompt it then wants to read, and counts its bytes as saved all the
 * same.  Where nothing is to be written it is missing here, too.
 */
static int prefix(struct plan *p)
{
	const struct kv_params *o = p->l->p;
	struct kv_key key = {.kind = KV_KEY_SYSTEM};
	uint32_t prompt, words;
	int r;

	if (!choose_prompt(p, &prompt))
		return 0;
	begin_step(p, KV_STEP_PREFIX);
	key.n = prompt;
	words = prompt_words[prompt];
	r = read_entry(p, key, KV_SYSTEM);
	if (r > 0 || (r == 0 && o->policy.counts_missed_prefixes))
		p->ret->prefix_bytes_saved = words * kv_model_bytes_per_token(o->model);
	if (r == 0 && !o->decode_only && keep_prompt(p->l, prompt))
		r = write_entry(p, key, words);
	p->ret->prefix_hit = true;
	p->kind = KV_SYSTEM;
	p->context -= words < p->context ? words : p->context;
	return r < 0 ? r : 0;
}

/* ------------------------------------------------------------------ earlier turns */

static struct kv_key turn_key(const struct plan *p, uint32_t turn)
{
	struct kv_key key = p->r->key;

	key.turn = (uint16_t)turn;
	return key;
}

static int read_turn(struct plan *p, uint32_t turn)
{
	int r = read_entry(p, turn_key(p, turn), KV_MULTI_TURN);

	p->ret->turn_hits += r > 0;
	p->ret->turn_misses += r == 0;
	return r < 0 ? r : 0;
}

static bool reads_turns(const struct plan *p)
{
	return !p->l->p->decode_only && p->r->turn > 1 && p->r->conv != KV_NO_CONV;
}

/* All it will need of the cache's tables, while there is other work to do. */
static void prefetch(const struct plan *p)
{
	struct kv_key keys[PREFETCH] = {p->r->key};
	uint32_t turn = p->r->turn;
	unsigned nr = 1;

	if (reads_turns(p))
		while (nr < PREFETCH && --turn)
			keys[nr++] = turn_key(p, turn);
	kv_cache_prefetch(p->c, keys, nr);
}

/* Of recorded conversations some numbers may be missing. */
static int recorded_turns(struct plan *p)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i + 1 < p->r->turns; i++)
		r = read_turn(p, kv_rec_turn(p->l, p->r->conv, i));
	return r;
}

static int earlier_turns(struct plan *p)
{
	int r = 0;

	if (!reads_turns(p))
		return 0;
	begin_step(p, KV_STEP_TURNS);
	if (kv_load_is_recorded(p->l))
		return recorded_turns(p);
	for (uint32_t turn = 1; r == 0 && turn <= p->r->turns; turn++)
		if (turn != p->r->turn)
			r = read_turn(p, turn);
	return r;
}

/* ------------------------------------------------------------- prefill and decode */

static int plan_prefill(struct plan *p)
{
	if (p->l->p->decode_only || p->r->phase == KV_DECODE)
		return 0;
	begin_step(p, KV_STEP_PREFILL);
	return write_entry(p, p->r->key, p->context);
}

static struct kv_key chunk_key(uint32_t doc, uint32_t chunk)
{
	return (struct kv_key){.kind = KV_KEY_CHUNK, .user = doc, .n = chunk};
}

static int retrieve(struct plan *p)
{
	struct kv_load *l = p->l;
	uint32_t doc;
	int r = 0;

	if (!l->rag.end || kv_unit(&p->random) >= l->p->config.rag_request_probability)
		return 0;
	begin_step(p, KV_STEP_RAG);
	doc = kv_rag_any(&l->rag, &p->random);
	for (uint32_t nr = kv_rag_retrieve(&l->rag, doc, &p->random); r >= 0 && nr; nr--)
		r = read_entry(p, chunk_key(doc, kv_rag_chunk(&l->rag)), KV_USER);
	return r < 0 ? r : 0;
}

static uint64_t batches(const struct plan *p)
{
	uint64_t size = (uint64_t)p->l->p->config.decode_batch;

	return max_u64(1, (p->r->generate + size - 1) / size);
}

static int decode(struct plan *p)
{
	const struct kv_params *o = p->l->p;
	struct kv_key key = p->r->key;
	int r;

	if (o->prefill_only || p->r->phase == KV_PREFILL)
		return 0;
	begin_step(p, KV_STEP_DECODE);
	if (o->decode_only)
		key = (struct kv_key){
			.kind = KV_KEY_PREPOP,
			.n = penstock_random_below(&p->random, (uint64_t)o->users * KV_PREPOP_EACH),
		};
	r = read_entry(p, key, p->kind);
	if (r == 0 && !o->decode_only)
		r = write_entry(p, key, p->context);
	else if (r > 0)
		for (uint64_t i = batches(p); r > 0 && i; i--)
			r = read_entry(p, key, p->kind);
	return r < 0 ? r : 0;
}

/* -------------------------------------------------------------------- documents */

/* What was forgotten need not be kept either; upstream keeps it. */
static int plan_forget(struct plan *p, uint32_t doc)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < kv_rag_doc_chunks(&p->l->rag, doc); i++) {
		r = kv_cache_delete(p->c, chunk_key(doc, i));
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

static int ingest(struct plan *p)
{
	const struct kv_rag *g = &p->l->rag;
	uint32_t doc = p->r->doc, gone;
	int r = 0;

	begin_step(p, KV_STEP_PREFILL);
	if (!p->l->p->policy.keeps_forgotten_documents && kv_rag_replaces(g, doc, &gone))
		r = plan_forget(p, gone);
	for (uint32_t i = 0; r == 0 && i < kv_rag_doc_chunks(g, doc); i++)
		r = write_entry(p, chunk_key(doc, i), kv_rag_chunk_tokens(g, doc, i));
	return r;
}

int kv_plan(struct kv_load *l, struct kv_cache *c, const struct kv_request *r,
	    void (*step)(void *arg, enum kv_step s), void *arg, struct kv_planned *ret)
{
	struct plan p = {l, c, r, step, arg, ret, {{0}}, r->context, KV_USER};
	int e;

	*ret = (struct kv_planned){0};
	if (r->type == KV_REQ_INGEST)
		return ingest(&p);
	prefetch(&p);
	penstock_random_seed(&p.random, r->random);
	ret->tokens = r->generate;
	ret->generation_ns = (uint64_t)(r->generate * l->token_ns);
	e = prefix(&p);
	if (e == 0)
		e = earlier_turns(&p);
	if (e == 0)
		e = plan_prefill(&p);
	if (e == 0)
		e = retrieve(&p);
	if (e == 0)
		e = decode(&p);
	return e;
}

/* ------------------------------------------------------------ before the run begins */

#define PREPOP_TOKENS 2048

static uint64_t precond_entries(const struct kv_params *p, uint64_t nvme_limit)
{
	uint64_t each = kv_model_object_bytes(p->model, PREPOP_TOKENS, kv_params_shards(p));
	double bytes = p->precondition_gb * 0x1p30;

	if (!p->precondition || (bytes <= 0 && nvme_limit == KV_UNLIMITED))
		return 0;
	if (bytes <= 0)
		bytes = 2.0 * (double)nvme_limit;
	return each ? (uint64_t)((bytes + (double)each - 1) / (double)each) : 0;
}

bool kv_prepop(const struct kv_params *p, uint64_t nvme_limit, uint64_t i, struct kv_key *key,
	       uint32_t *tokens)
{
	uint64_t before = precond_entries(p, nvme_limit);

	*key = (struct kv_key){.kind = KV_KEY_PRECOND, .n = i};
	*tokens = PREPOP_TOKENS;
	if (i < before)
		return true;
	*key = (struct kv_key){.kind = KV_KEY_PREPOP, .n = i - before};
	return p->decode_only && i - before < (uint64_t)p->users * KV_PREPOP_EACH;
}
