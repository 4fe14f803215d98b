/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cache decides, as operations of the flow.  A demotion, two events, is one move; an
 * allocation is what it makes room by and its write, and holds a permit from the first to the last.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "load/kv/kv_run.h"
#include "load/object/content.h"

#define SHAPE_MAX 96

/* ---------------------------------------------------------------------- objects */

static void object_put(struct kv_run_object *o)
{
	if (o && !--o->refs)
		free(o);
}

static int entries_grow(struct kv_run *k, uint32_t entry)
{
	uint32_t had = k->nr_entries;
	int r = ARRAY_RESERVE(k->entries, k->nr_entries, (uint64_t)entry + 1);

	if (r == 0)
		memset(k->entries + had, 0, (k->nr_entries - had) * sizeof(*k->entries));
	return r;
}

/* A new entry has come into the cache. */
static int object_new(struct kv_run *k, const struct kv_event *ev)
{
	struct kv_run_object *o;

	if (ev->entry >= k->nr_entries && entries_grow(k, ev->entry) < 0)
		return -ENOMEM;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	object_put(k->entries[ev->entry]);
	*o = (struct kv_run_object){
		.number = ++k->objects, .refs = 1, .tier = ev->tier, .live = true};
	if (k->job->backend == KV_BACKEND_STORE)
		o->number = kv_key_hash(ev->key);
	k->entries[ev->entry] = o;
	return 0;
}

/* ----------------------------------------------------------------------- chains */

static struct kv_run_chain *chain_new(struct kv_run *k, enum kv_chain_kind kind)
{
	struct kv_run_chain *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->kind = kind;
	w->next = k->chains;
	if (w->next)
		w->next->prev = w;
	k->chains = w;
	return w;
}

void kv_run_chain_free(struct kv_run *k, struct kv_run_chain *w)
{
	for (unsigned i = 0; i < w->nr; i++)
		object_put(w->ops[i].object);
	if (w->next)
		w->next->prev = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		k->chains = w->next;
	free(w->ops);
	free(w);
}

void kv_run_free_all(struct kv_run *k)
{
	while (k->chains)
		kv_run_chain_free(k, k->chains);
	for (uint32_t i = 0; i < k->nr_entries; i++)
		object_put(k->entries[i]);
	free(k->entries);
	free(k->text);
}

static struct kv_run_op *op_add(struct kv_run_chain *w, uint8_t type, uint8_t step)
{
	struct kv_run_op *op;

	if (ARRAY_RESERVE(w->ops, w->capacity, w->nr + 1) < 0)
		return NULL;
	op = &w->ops[w->nr++];
	*op = (struct kv_run_op){.chain = w, .flow.type = type, .step = step};
	return op;
}

static void op_set(struct kv_run_op *op, struct kv_run_object *o, const struct kv_event *ev)
{
	op->ev = *ev;
	op->object = o;
	o->refs++;
	op->flow.place = ev->tier;
	op->flow.object = o->number;
	op->flow.size = ev->size;
}

/* Is the storage tier a store, and does @op ask it? */
static bool kv_run_asks_store(const struct kv_run *k, const struct kv_run_op *op)
{
	return k->job->backend == KV_BACKEND_STORE && op->flow.place == KV_NVME &&
	       op->flow.type != FLOW_MOVE && op->flow.type != FLOW_PAUSE;
}

/* What the model writes when it finds that it is missing is set when the store has not got it. */
static bool computed_again(const struct kv_run *k, const struct kv_run_op *op)
{
	return op->flow.type == FLOW_READ && !k->p->decode_only &&
	       (op->step == KV_STEP_PREFIX || op->step == KV_STEP_DECODE);
}

static int op_of_event(struct kv_run *k, struct kv_run_chain *w, enum flow_type type,
		       const struct kv_event *ev)
{
	struct kv_run_op *op = op_add(w, (uint8_t)type, k->step);

	if (!op)
		return -ENOMEM;
	op_set(op, k->entries[ev->entry], ev);
	op->flow.set_missed = kv_run_asks_store(k, op) && computed_again(k, op);
	return 0;
}

/* ----------------------------------------------------------------------- events */

/* From the first thing done to make room for it, the write needs a permit. */
static void allocation(struct kv_run_chain *w)
{
	unsigned i = w->nr - 1;

	if (w->kind == KV_CHAIN_INGEST)
		return; /* permits go by turns, and requests must not wait behind all documents */
	w->ops[i].flow.alloc_end = true;
	while (i &&
	       (w->ops[i - 1].flow.type == FLOW_MOVE || w->ops[i - 1].flow.type == FLOW_DELETE))
		i--;
	w->ops[i].flow.alloc_begin = true;
}

static int on_write(struct kv_run *k, struct kv_run_chain *w, const struct kv_event *ev)
{
	int r;

	if (ev->phase == KV_EVICT) {
		w->ops[w->nr - 1].flow.to = ev->tier;
		k->entries[ev->entry]->tier = ev->tier;
		return 0;
	}
	w->wrote |= k->step == KV_STEP_PREFILL;
	r = object_new(k, ev);
	if (r == 0)
		r = op_of_event(k, w, FLOW_WRITE, ev);
	if (r == 0)
		allocation(w);
	return r;
}

int kv_run_emit(void *arg, const struct kv_event *ev)
{
	struct kv_run *k = arg;
	struct kv_run_chain *w = k->planning;
	int r;

	if (k->hook && k->hook->event)
		k->hook->event(k->hook->arg, ev);
	if (ev->type == KV_EV_MISS) {
		kv_run_count_miss(k, ev);
		return 0;
	}
	if (!k->live)
		kv_load_row(k->load);
	switch (ev->type) {
	case KV_EV_WRITE:
		return on_write(k, w, ev);
	case KV_EV_DELETE:
		r = op_of_event(k, w, FLOW_DELETE, ev);
		k->entries[ev->entry]->live = false;
		return r;
	default:
		return op_of_event(k, w, ev->phase == KV_EVICT ? FLOW_MOVE : FLOW_READ, ev);
	}
}

static void on_step(void *arg, enum kv_step s)
{
	struct kv_run *k = arg;

	k->step = (uint8_t)s;
	k->planning->prefilled |= s == KV_STEP_PREFILL;
	k->planning->decoded |= s == KV_STEP_DECODE;
}

/* ---------------------------------------------------------------- into the flow */

static void shape(char out[SHAPE_MAX], const struct kv_run *k, const struct kv_event *ev)
{
	const struct kv_model *m = k->p->model;

	out[0] = 0;
	if (ev->size != kv_model_bytes_per_token(m) * ev->tokens)
		return; /* a shard: flat */
	if (kv_model_is_mla(m))
		snprintf(out, SHAPE_MAX, "(%u, %u, %u)", m->layers, ev->tokens,
			 m->kv_lora_rank + m->qk_rope_head_dim);
	else
		snprintf(out, SHAPE_MAX, "(%u, 2, %u, %u, %u)", m->layers, ev->tokens, m->kv_heads,
			 kv_model_head_dim(m));
}

/* Name and shape are put at @at; returns where the next text may begin. */
static char *write_texts(const struct kv_run *k, struct kv_run_op *op, char *at)
{
	struct flow_op *f = &op->flow;
	uint32_t element = kv_model_element_size(k->p->model);
	size_t len = kv_key_format(NULL, 0, op->ev.key, k->texts);

	kv_key_format(at, len + 1, op->ev.key, k->texts);
	f->name = at;
	f->name_len = (uint32_t)len;
	f->content = content_id(at, len);
	at += len + 1;
	shape(at, k, &op->ev);
	f->shape = at[0] ? at : NULL;
	f->element = (uint8_t)(op->ev.size % element ? 1 : element);
	return at + SHAPE_MAX;
}

static bool needs_texts(const struct kv_run *k, const struct kv_run_op *op)
{
	return op->flow.type == FLOW_WRITE || kv_run_asks_store(k, op);
}

static int reserve_texts(struct kv_run *k, const struct kv_run_chain *w)
{
	size_t need = 0;

	for (unsigned i = 0; i < w->nr; i++)
		if (needs_texts(k, &w->ops[i]))
			need += kv_key_format(NULL, 0, w->ops[i].ev.key, k->texts) + 1 + SHAPE_MAX;
	return ARRAY_RESERVE(k->text, k->text_capacity, max_u64(need, 1));
}

/* They do not move any more: what they point to and are known by. */
static int ops_seal(struct kv_run *k, struct kv_run_chain *w)
{
	char *text;

	if (reserve_texts(k, w) < 0)
		return -ENOMEM;
	text = k->text;
	for (unsigned i = 0; i < w->nr; i++) {
		struct kv_run_op *op = &w->ops[i];

		op->flow.tag = (uintptr_t)op;
		if (needs_texts(k, op))
			text = write_texts(k, op, text);
	}
	return 0;
}

static int chain_start(struct kv_run *k, struct kv_run_chain *w)
{
	struct penstock_err err;
	int r;

	if (w->kind == KV_CHAIN_REQUEST && w->planned.generation_ns) {
		struct kv_run_op *op = op_add(w, FLOW_PAUSE, KV_STEPS);

		if (!op)
			return kv_run_fail(k, -ENOMEM, "out of memory");
		op->flow.pause_ns = w->planned.generation_ns;
	}
	if (!w->nr) {
		kv_run_chain_end(k, w, clock_ns());
		return 0;
	}
	r = ops_seal(k, w);
	if (r < 0)
		return kv_run_fail(k, r, "out of memory");
	r = flow_start(k->flow, &w->ops->flow, w->nr, sizeof(*w->ops), (uintptr_t)w, false, &err);
	if (r < 0)
		return kv_run_fail(k, r, "%s", err.msg);
	k->pending += w->nr;
	k->documents += w->kind == KV_CHAIN_INGEST ? w->nr : 0;
	return 0;
}

static int plan(struct kv_run *k, struct kv_run_chain *w, const struct kv_request *req)
{
	int r;

	w->req = *req;
	k->planning = w;
	r = kv_plan(k->load, k->cache, req, on_step, k, &w->planned);
	k->planning = NULL;
	return r < 0 ? kv_run_fail(k, r, "cannot plan a request: %s", penstock_strerror(r)) : 0;
}

int kv_run_start_request(struct kv_run *k, const struct kv_request *req)
{
	struct kv_run_chain *w = chain_new(k, KV_CHAIN_REQUEST);
	int r;

	if (!w)
		return kv_run_fail(k, -ENOMEM, "out of memory");
	r = plan(k, w, req);
	if (r < 0)
		return r;
	k->active++;
	return chain_start(k, w);
}

int kv_run_add_document(struct kv_run *k, const struct kv_request *req)
{
	if (!k->ingest)
		k->ingest = chain_new(k, KV_CHAIN_INGEST);
	return k->ingest ? plan(k, k->ingest, req) : kv_run_fail(k, -ENOMEM, "out of memory");
}

int kv_run_start_documents(struct kv_run *k)
{
	struct kv_run_chain *w = TAKE_PTR(k->ingest);

	return w && !k->failed ? chain_start(k, w) : 0;
}

int kv_run_start_fill(struct kv_run *k, struct kv_key key, uint32_t tokens)
{
	struct kv_run_chain *w = chain_new(k, KV_CHAIN_FILL);
	int r;

	if (!w)
		return kv_run_fail(k, -ENOMEM, "out of memory");
	k->planning = w;
	k->step = KV_STEP_PREFILL;
	r = kv_cache_allocate(k->cache, key, tokens);
	k->planning = NULL;
	if (r < 0)
		return kv_run_fail(k, r, "cannot plan an entry: %s", penstock_strerror(r));
	k->active++;
	return chain_start(k, w);
}

/* ----------------------------------------------------------------------- losses */

/* The object of a failed read still takes up room. */
static void clean_later(struct kv_run *k, const struct kv_run_op *lost)
{
	struct kv_run_chain *w = chain_new(k, KV_CHAIN_CLEAN);
	struct kv_run_op *op = w ? op_add(w, FLOW_DELETE, KV_STEPS) : NULL;

	if (!op) {
		kv_run_fail(k, -ENOMEM, "out of memory");
		return;
	}
	op_set(op, lost->object, &lost->ev);
	op->ev.tier = op->flow.place = lost->object->tier;
	w->next_start = k->cleanups;
	k->cleanups = w;
}

int kv_run_clean(struct kv_run *k)
{
	int r = 0;

	while (k->cleanups && r == 0) {
		struct kv_run_chain *w = k->cleanups;

		k->cleanups = w->next_start;
		r = chain_start(k, w);
	}
	return r;
}

bool kv_run_drop_lost(struct kv_run *k, const struct kv_run_op *op)
{
	struct kv_run_object *o = op->object;

	if (o->lost)
		return false;
	o->lost = true;
	if (!o->live)
		return true; /* to be deleted anyway */
	o->live = false;
	kv_cache_drop(k->cache, op->ev.key);
	if (op->flow.type == FLOW_READ)
		clean_later(k, op);
	return true;
}
