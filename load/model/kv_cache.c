/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waterfall.  A tier makes room by moving the entry that was not touched for longest to the
 * tier below, which makes room first; the last one drops it.
 *
 * The order of touch without sorting: within a tier, entries are in one list per tier of their
 * last touch (here, or above before they came down).  New touches are the youngest of all,
 * and a tier gives entries away oldest first; so each list is in order by itself when appended to,
 * and the oldest entry of a tier is the oldest of at most three heads.
 */
#include "load/model/kv_cache.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/util.h"
#include "load/model/kv_cache_internal.h"

const char *const kv_tier_names[KV_TIERS] = {"gpu", "cpu", "nvme"};
const char *const kv_phase_names[KV_PHASES] = {"Prefill", "Decode", "Evict"};

/* Shares of a tier that nobody configures. */
#define NEARLY_EMPTY 0.05 /* takes what fits the limit, though not the goal */
#define SPARSE       0.2  /* and most of it asked for: not worth emptying */
#define MOST         0.5

void kv_cache_opts_defaults(struct kv_cache_opts *o)
{
	*o = (struct kv_cache_opts){
		.shards = 1,
		.has_gpu = true,
		.limit = {0, 0, KV_UNLIMITED},
		.max_recursion_depth = 10,
		.target_usage_ratio = 0.8,
		.large_entry_limit_ratio = 0.95,
		.max_evictions_hard_cap = 5000,
		.max_evictions_min = 1000,
	};
}

/* The least whole number that is greater than @x. */
static uint64_t next_integer(double x)
{
	if (!(x >= 0))
		return 0;
	return x < 0x1p63 ? (uint64_t)x + 1 : UINT64_MAX;
}

/* The least whole number that is not less than @x. */
static uint64_t not_below(double x)
{
	if (!(x > 0))
		return 0;
	return x < 0x1p63 ? (uint64_t)ceil(x) : UINT64_MAX;
}

static void tier_init(struct kv_tier_state *t, const struct kv_cache_opts *o, enum kv_tier i)
{
	double limit = (double)o->limit[i], soft = limit * o->target_usage_ratio;

	t->exists = i != KV_GPU || o->has_gpu;
	t->last = i == KV_NVME;
	t->unlimited = t->last && o->limit[i] == KV_UNLIMITED;
	t->limit = o->limit[i];
	t->fits = next_integer(t->last ? limit : soft);
	t->empty = not_below(limit * NEARLY_EMPTY);
	t->too_large = t->last ? UINT64_MAX : next_integer(limit * o->large_entry_limit_ratio);
	t->sparse = t->last ? 0 : not_below(limit * SPARSE);
	t->large_need = next_integer(soft * MOST);
	for (int k = 0; k < KV_TIERS; k++)
		t->lists[k] = (struct kv_list){KV_NONE, KV_NONE};
}

int kv_cache_new(struct kv_cache **out, const struct kv_cache_opts *o, kv_emit *emit, void *arg)
{
	CLEANUP_FREE struct kv_cache *c = calloc(1, sizeof(*c));

	if (!c || kv_entries_init(&c->s) < 0)
		return -ENOMEM;
	c->o = *o;
	c->emit = emit;
	c->arg = arg;
	for (int i = 0; i < KV_TIERS; i++)
		tier_init(&c->tiers[i], o, (enum kv_tier)i);
	*out = TAKE_PTR(c);
	return 0;
}

void kv_cache_free(struct kv_cache *c)
{
	if (!c)
		return;
	kv_entries_fini(&c->s);
	free(c);
}

/* ---- lists ---- */

static struct kv_entry *entry(const struct kv_cache *c, uint32_t i)
{
	return kv_entry(&c->s, i);
}

static void line_append(struct kv_cache *c, uint32_t i)
{
	struct kv_entry *e = entry(c, i);
	struct kv_list *l = &c->tiers[e->tier].lists[e->touched];

	e->prev = l->tail;
	e->next = KV_NONE;
	if (l->tail == KV_NONE)
		l->head = i;
	else
		entry(c, l->tail)->next = i;
	l->tail = i;
}

static void cache_take_out(struct kv_cache *c, uint32_t i)
{
	const struct kv_entry *e = entry(c, i);
	struct kv_list *l = &c->tiers[e->tier].lists[e->touched];

	if (e->prev == KV_NONE)
		l->head = e->next;
	else
		entry(c, e->prev)->next = e->next;
	if (e->next == KV_NONE)
		l->tail = e->prev;
	else
		entry(c, e->next)->prev = e->prev;
}

/* Ask memory for what taking it out of its list will look at. */
static void prefetch_neighbours(const struct kv_cache *c, const struct kv_entry *e)
{
	if (e->prev != KV_NONE)
		__builtin_prefetch(entry(c, e->prev));
	if (e->next != KV_NONE)
		__builtin_prefetch(entry(c, e->next));
}

/* The one not touched for longest, or KV_NONE. */
static uint32_t oldest(const struct kv_cache *c, int tier)
{
	uint32_t best = KV_NONE;
	uint64_t least = UINT64_MAX;

	for (int k = 0; k <= tier; k++) {
		uint32_t i = c->tiers[tier].lists[k].head;

		if (i != KV_NONE && entry(c, i)->stamp < least) {
			least = entry(c, i)->stamp;
			best = i;
		}
	}
	return best;
}

/* ---- events ---- */

static int cache_emit(struct kv_cache *c, const struct kv_event *ev)
{
	int r;

	if (KV_CACHE_CHECKED)
		kv_cache_checked_event(c, ev);
	r = c->emit ? c->emit(c->arg, ev) : 0;
	c->event_failed |= r < 0;
	return r;
}

static struct kv_event event_of(const struct kv_entry *e, uint32_t i)
{
	return (struct kv_event){
		.tier = e->tier, .entry = i, .tokens = e->tokens, .size = e->size, .key = e->key};
}

static void cache_leave(struct kv_cache *c, uint32_t i)
{
	struct kv_entry *e = entry(c, i);
	struct kv_tier_state *t = &c->tiers[e->tier];

	cache_take_out(c, i);
	t->used -= e->size;
	t->entries--;
	/* The next ones of the list leave next. */
	if (e->next != KV_NONE) {
		kv_entries_prefetch(&c->s, entry(c, e->next)->hash);
		prefetch_neighbours(c, entry(c, e->next));
	}
}

static void cache_forget(struct kv_cache *c, uint32_t i)
{
	cache_leave(c, i);
	c->ceiling -= entry(c, i)->size;
	kv_entries_remove(&c->s, i);
}

/* Forget it and say so. */
static int drop_out(struct kv_cache *c, uint32_t i, enum kv_phase why)
{
	struct kv_event ev = event_of(entry(c, i), i);

	ev.type = KV_EV_DELETE;
	ev.phase = (uint8_t)why;
	cache_forget(c, i);
	return cache_emit(c, &ev);
}

/* Move it one tier down, where room was made for it.  The touch stays where it was. */
static int demote(struct kv_cache *c, uint32_t i, int to)
{
	struct kv_entry *e = entry(c, i);
	struct kv_event ev = event_of(e, i);
	int r;

	cache_leave(c, i);
	e->tier = (uint8_t)to;
	line_append(c, i);
	c->tiers[to].entries++;
	ev.type = KV_EV_READ;
	ev.phase = KV_EVICT;
	r = cache_emit(c, &ev);
	if (r < 0)
		return r;
	ev.type = KV_EV_WRITE;
	ev.tier = (uint8_t)to;
	return cache_emit(c, &ev);
}

/* ---- making room ---- */

static int ensure(struct kv_cache *c, int tier, uint64_t size, uint32_t depth);

/*
 * What to do about @size bytes at attempt number @attempts, the oldest entry being @victim:
 * 1 yes, 0 no, -EAGAIN to move that entry and look again.
 */
static int tier_verdict(const struct kv_tier_state *t, uint64_t size, uint32_t attempts,
			uint32_t victim)
{
	if (t->used + size < t->fits || t->used < t->empty)
		return 1;
	if (victim == KV_NONE)
		return t->last;
	if (!attempts && t->used < t->sparse && size >= t->large_need)
		return 0;
	return -EAGAIN;
}

/* Take the oldest entry @i out of the tier: 1 done, 0 the tier below has no room, -errno. */
static int evict(struct kv_cache *c, int tier, uint32_t i, uint32_t depth)
{
	int r;

	if (c->tiers[tier].last) {
		r = drop_out(c, i, KV_EVICT);
		return r < 0 ? r : 1;
	}
	r = ensure(c, tier + 1, entry(c, i)->size, depth + 1);
	if (r <= 0)
		return r;
	r = demote(c, i, tier + 1);
	return r < 0 ? r : 1;
}

/* Make room in a tier and reserve it: 1 done, 0 no room can be made, -errno. */
static int ensure(struct kv_cache *c, int tier, uint64_t size, uint32_t depth)
{
	struct kv_tier_state *t = &c->tiers[tier];
	uint64_t budget;
	int r = t->last;

	if (t->unlimited) {
		t->used += size;
		return 1;
	}
	if (depth > c->o.max_recursion_depth || size >= t->too_large)
		return 0;
	budget = min_u64(c->o.max_evictions_hard_cap,
			 max_u64(c->o.max_evictions_min, t->entries + 100));
	for (uint32_t attempts = 0; attempts < budget; attempts++) {
		uint32_t victim = oldest(c, tier);

		r = tier_verdict(t, size, attempts, victim);
		if (r == -EAGAIN)
			r = evict(c, tier, victim, depth);
		else
			break;
		if (r <= 0)
			return r;
		r = t->last; /* if this was the last attempt */
	}
	if (r > 0)
		t->used += size;
	return r;
}

/* The first tier that takes it, with room reserved; or -errno. */
static int cache_place(struct kv_cache *c, uint64_t size)
{
	for (int i = 0; i < KV_TIERS; i++) {
		int r = c->tiers[i].exists ? ensure(c, i, size, 0) : 0;

		if (r)
			return r < 0 ? r : i;
	}
	c->tiers[KV_NVME].used += size;
	return KV_NVME;
}

/* ---- the interface ---- */

static uint32_t cache_find(const struct kv_cache *c, struct kv_key key)
{
	return kv_entries_find(&c->s, key, (uint32_t)kv_key_hash(key));
}

/* Every operation ends with this. */
static int finish_op(struct kv_cache *c, int r)
{
	if (KV_CACHE_CHECKED)
		kv_cache_checked_done(c);
	return r;
}

static int allocate(struct kv_cache *c, struct kv_key key, uint32_t hash, uint32_t tokens)
{
	uint64_t size = kv_model_object_bytes(c->o.model, tokens, c->o.shards), sum;
	struct kv_event ev;
	struct kv_entry *e;
	uint32_t i;
	int tier;

	if (__builtin_add_overflow(c->ceiling, size, &sum))
		return -EOVERFLOW;
	tier = cache_place(c, size);
	if (tier < 0)
		return tier;
	i = kv_entries_add(&c->s, key, hash);
	if (i == KV_NONE) {
		c->tiers[tier].used -= size;
		return -ENOMEM;
	}
	c->ceiling = sum;
	c->tiers[tier].entries++;
	e = entry(c, i);
	e->size = size;
	e->tokens = tokens;
	e->tier = e->touched = (uint8_t)tier;
	e->stamp = ++c->now;
	line_append(c, i);
	ev = event_of(e, i);
	ev.type = KV_EV_WRITE;
	ev.phase = KV_PREFILL;
	return cache_emit(c, &ev);
}

int kv_cache_allocate(struct kv_cache *c, struct kv_key key, uint32_t tokens)
{
	uint32_t hash = (uint32_t)kv_key_hash(key), i = kv_entries_find(&c->s, key, hash);
	int r;

	if (i != KV_NONE)
		return entry(c, i)->tier;
	r = allocate(c, key, hash, tokens);
	return finish_op(c, r < 0 ? r : entry(c, c->s.newest)->tier);
}

int kv_cache_access(struct kv_cache *c, struct kv_key key, enum kv_phase phase, enum kv_kind kind)
{
	uint32_t i = cache_find(c, key);
	struct kv_event ev = {.type = KV_EV_MISS, .key = key};
	struct kv_entry *e;
	int r;

	if (i != KV_NONE) {
		e = entry(c, i);
		cache_take_out(c, i);
		e->stamp = ++c->now;
		e->touched = e->tier;
		line_append(c, i);
		ev = event_of(e, i);
		ev.type = KV_EV_READ;
	}
	ev.phase = (uint8_t)phase;
	ev.kind = (uint8_t)kind;
	r = cache_emit(c, &ev);
	if (r == 0)
		r = i == KV_NONE ? -ENOENT : ev.tier;
	return finish_op(c, r);
}

/* In steps, each of which needs what the one before has asked for. */
void kv_cache_prefetch(const struct kv_cache *c, const struct kv_key *keys, unsigned n)
{
	uint32_t hash[32], found[32];

	n = (unsigned)min_u64(n, ARRAY_SIZE(hash));
	for (unsigned k = 0; k < n; k++) {
		hash[k] = (uint32_t)kv_key_hash(keys[k]);
		kv_entries_prefetch(&c->s, hash[k]);
	}
	for (unsigned k = 0; k < n; k++)
		found[k] = kv_entries_prefetch_entry(&c->s, hash[k]);
	for (unsigned k = 0; k < n; k++)
		if (found[k] != KV_NONE)
			prefetch_neighbours(c, entry(c, found[k]));
}

int kv_cache_where(const struct kv_cache *c, struct kv_key key)
{
	uint32_t i = cache_find(c, key);

	return i == KV_NONE ? -ENOENT : entry(c, i)->tier;
}

int kv_cache_drop(struct kv_cache *c, struct kv_key key)
{
	uint32_t i = cache_find(c, key);

	if (i == KV_NONE)
		return -ENOENT;
	if (KV_CACHE_CHECKED)
		kv_cache_checked_drop(c, i);
	cache_forget(c, i);
	return finish_op(c, 0);
}

int kv_cache_delete(struct kv_cache *c, struct kv_key key)
{
	uint32_t i = cache_find(c, key);

	return i == KV_NONE ? -ENOENT : finish_op(c, drop_out(c, i, KV_PREFILL));
}

uint64_t kv_cache_used(const struct kv_cache *c, enum kv_tier t)
{
	return c->tiers[t].used;
}

uint64_t kv_cache_entries(const struct kv_cache *c, enum kv_tier t)
{
	return c->tiers[t].entries;
}

uint64_t kv_cache_limit(const struct kv_cache *c, enum kv_tier t)
{
	return c->tiers[t].limit;
}

/* *@pos is 1 more than the entry before. */
bool kv_cache_next(const struct kv_cache *c, uint64_t *pos, struct kv_event *ret)
{
	uint32_t i = *pos ? entry(c, (uint32_t)(*pos - 1))->newer : c->s.oldest;

	if (i == KV_NONE)
		return false;
	*ret = event_of(entry(c, i), i);
	*pos = (uint64_t)i + 1;
	return true;
}

uint64_t kv_cache_memory(const struct kv_cache *c)
{
	return sizeof(*c) + kv_entries_memory(&c->s);
}
