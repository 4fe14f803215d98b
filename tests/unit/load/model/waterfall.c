/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waterfall against a model that takes the contract at its word: a snapshot of the tier,
 * sorted, with every call; counters as numbers, limits as fractions.  Random operations,
 * limits and settings; every event and the whole state must be the same after every operation.
 */
#include <inttypes.h>

#include "base/random.h"
#include "base/util.h"
#include "load/model/kv_cache.h"
#include "tests/common/t.h"

enum { KEYS = 600, EVENTS = 4096 };

struct item {
	bool there;
	int tier;
	uint32_t tokens;
	uint64_t size, last_access, access_count, order;
};

struct model {
	const struct kv_cache_opts *o;
	struct item items[KEYS];
	uint64_t used[KV_TIERS];
	uint64_t clock, order;
	struct kv_event events[EVENTS];
	unsigned nr_events;
};

static void record(struct kv_event *events, unsigned *nr, struct kv_event ev)
{
	if (*nr >= EVENTS)
		T_FAIL("more events than there is room for");
	events[(*nr)++] = ev;
}

static void model_event(struct model *m, int type, int tier, int phase, int kind, unsigned key)
{
	const struct item *it = &m->items[key];

	record(m->events, &m->nr_events,
	       (struct kv_event){.type = (uint8_t)type,
				 .tier = (uint8_t)tier,
				 .phase = (uint8_t)phase,
				 .kind = (uint8_t)kind,
				 .tokens = it->there ? it->tokens : 0,
				 .size = it->there ? it->size : 0,
				 .key = {.kind = KV_KEY_PREPOP, .n = key}});
}

static const struct model *sorting;

static int by_age(const void *a, const void *b)
{
	const struct item *x = &sorting->items[*(const unsigned *)a];
	const struct item *y = &sorting->items[*(const unsigned *)b];

	if (x->last_access != y->last_access)
		return x->last_access < y->last_access ? -1 : 1;
	if (x->access_count != y->access_count)
		return x->access_count < y->access_count ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static unsigned snapshot(const struct model *m, int tier, unsigned *keys)
{
	unsigned n = 0;

	for (unsigned k = 0; k < KEYS; k++)
		if (m->items[k].there && m->items[k].tier == tier)
			keys[n++] = k;
	sorting = m;
	qsort(keys, n, sizeof(*keys), by_age);
	return n;
}

static uint64_t sum(const struct model *m, int tier)
{
	uint64_t v = 0;

	for (unsigned k = 0; k < KEYS; k++)
		if (m->items[k].there && m->items[k].tier == tier)
			v += m->items[k].size;
	return v;
}

static bool model_ensure(struct model *m, int tier, uint64_t size, uint32_t depth);

/* Steps d to f; false: the whole call is no. */
static bool model_evict(struct model *m, int tier, unsigned key, uint32_t depth)
{
	struct item *it = &m->items[key];

	if (tier == KV_NVME) {
		model_event(m, KV_EV_DELETE, tier, KV_EVICT, 0, key);
		m->used[tier] -= it->size;
		it->there = false;
		return true;
	}
	if (!model_ensure(m, tier + 1, it->size, depth + 1))
		return false;
	model_event(m, KV_EV_READ, tier, KV_EVICT, 0, key);
	model_event(m, KV_EV_WRITE, tier + 1, KV_EVICT, 0, key);
	it->tier = tier + 1;
	m->used[tier] -= it->size;
	return true;
}

static bool model_loop(struct model *m, int tier, uint64_t need, uint32_t depth)
{
	const struct kv_cache_opts *o = m->o;
	bool last = tier == KV_NVME;
	double limit = (double)o->limit[tier], soft = limit * o->target_usage_ratio;
	double goal = last ? limit : soft;
	unsigned keys[KEYS], n = snapshot(m, tier, keys), cursor = 0;
	uint64_t budget = min_u64(o->max_evictions_hard_cap,
				  max_u64(o->max_evictions_min, (uint64_t)n + 100));

	for (uint64_t attempts = 0; attempts < budget; attempts++) {
		if ((double)(m->used[tier] + need) <= goal)
			return true;
		if ((double)m->used[tier] < 0.05 * limit)
			return true;
		if (cursor >= n) {
			n = snapshot(m, tier, keys);
			cursor = 0;
			if (!n) {
				m->used[tier] = sum(m, tier);
				return (double)(m->used[tier] + need) <= goal || last;
			}
		}
		if (cursor == 0 && !last && (double)sum(m, tier) < 0.2 * limit &&
		    (double)need > 0.5 * soft)
			return false;
		if (!model_evict(m, tier, keys[cursor++], depth))
			return false;
	}
	return last;
}

static bool model_ensure(struct model *m, int tier, uint64_t size, uint32_t depth)
{
	const struct kv_cache_opts *o = m->o;
	uint64_t need = size;
	bool yes;

	if (tier == KV_NVME && o->limit[tier] == KV_UNLIMITED)
		yes = true;
	else if (depth > o->max_recursion_depth)
		yes = false;
	else if (tier != KV_NVME &&
		 (double)need > (double)o->limit[tier] * o->large_entry_limit_ratio)
		yes = false;
	else
		yes = model_loop(m, tier, need, depth);
	if (yes)
		m->used[tier] += need;
	return yes;
}

static int model_allocate(struct model *m, unsigned key, uint32_t tokens)
{
	struct item *it = &m->items[key];
	uint64_t size = kv_model_bytes_per_token(m->o->model) * tokens;
	int tier;

	if (it->there)
		return it->tier;
	size /= m->o->shards;
	for (tier = m->o->has_gpu ? KV_GPU : KV_CPU; tier < KV_TIERS; tier++)
		if (model_ensure(m, tier, size, 0))
			break;
	if (tier == KV_TIERS) {
		tier = KV_NVME;
		m->used[tier] += size;
	}
	*it = (struct item){true, tier, tokens, size, ++m->clock, 1, ++m->order};
	model_event(m, KV_EV_WRITE, tier, KV_PREFILL, 0, key);
	return tier;
}

static int model_access(struct model *m, unsigned key, int phase, int kind)
{
	struct item *it = &m->items[key];

	if (!it->there) {
		model_event(m, KV_EV_MISS, 0, phase, kind, key);
		return -ENOENT;
	}
	it->last_access = ++m->clock;
	it->access_count++;
	model_event(m, KV_EV_READ, it->tier, phase, kind, key);
	return it->tier;
}

static int model_drop(struct model *m, unsigned key, bool with_event)
{
	struct item *it = &m->items[key];

	if (!it->there)
		return -ENOENT;
	if (with_event)
		model_event(m, KV_EV_DELETE, it->tier, KV_PREFILL, 0, key);
	m->used[it->tier] -= it->size;
	it->there = false;
	return 0;
}

/* ---- both at once ---- */

static struct model model;
static struct kv_cache *cache;
static struct kv_event told[EVENTS];
static unsigned nr_told;
static struct penstock_random rnd;

static int on_event(void *arg, const struct kv_event *ev)
{
	(void)arg;
	record(told, &nr_told, *ev);
	return 0;
}

static bool same_event(const struct kv_event *a, const struct kv_event *b)
{
	return a->type == b->type && a->phase == b->phase && a->kind == b->kind &&
	       a->tokens == b->tokens && a->size == b->size && kv_key_equal(a->key, b->key) &&
	       (a->type == KV_EV_MISS || a->tier == b->tier);
}

static void same_events(unsigned long op)
{
	for (unsigned i = 0; i < nr_told && i < model.nr_events; i++)
		if (!same_event(&told[i], &model.events[i]))
			T_FAIL("operation %lu, event %u: type %u of entry %" PRIu64
			       " in tier %u, not type %u of entry %" PRIu64 " in tier %u",
			       op, i, told[i].type, told[i].key.n, told[i].tier,
			       model.events[i].type, model.events[i].key.n, model.events[i].tier);
	if (nr_told != model.nr_events)
		T_FAIL("operation %lu: %u events, not %u", op, nr_told, model.nr_events);
	nr_told = model.nr_events = 0;
}

static void same_state(void)
{
	struct penstock_err err;
	struct kv_event ev;
	uint64_t pos = 0, order = 0, n = 0;

	for (int t = 0; t < KV_TIERS; t++)
		T_EQ(kv_cache_used(cache, (enum kv_tier)t), model.used[t]);
	while (kv_cache_next(cache, &pos, &ev)) {
		const struct item *it = &model.items[ev.key.n];

		T_OK(it->there && it->tier == ev.tier && it->size == ev.size);
		T_OK(it->order > order);
		order = it->order;
		n++;
	}
	for (unsigned k = 0; k < KEYS; k++)
		n -= model.items[k].there;
	T_EQ(n, 0);
	T_ERR(kv_cache_check(cache, &err), 0, &err);
}

static uint64_t below(uint64_t n)
{
	return penstock_random_below(&rnd, n);
}

static double share(double lo, double hi)
{
	return lo + (hi - lo) * (double)below(1001) / 1000;
}

/* Of one byte and of two bytes a token: every edge is met to the byte. */
static const struct kv_model small[] = {
	{"one", "", 1, 1, 1, 1, 0, "int8", "mla", 1, 0},
	{"two", "", 1, 1, 1, 1, 0, "int8", "mha", 0, 0},
};

static void random_opts(struct kv_cache_opts *o, uint32_t most)
{
	uint64_t bytes;

	kv_cache_opts_defaults(o);
	o->model = below(2) ? &small[below(2)] : kv_model_builtin((unsigned)below(9));
	o->shards = 1u << below(4);
	o->has_gpu = below(4) != 0;
	bytes = kv_model_object_bytes(o->model, most, o->shards);
	for (int t = 0; t < KV_TIERS; t++)
		o->limit[t] = below(6) ? bytes * below(50) / (1 + below(4)) + below(bytes + 1) : 0;
	if (below(3) == 0)
		o->limit[KV_NVME] = KV_UNLIMITED;
	if (below(2))
		return;
	o->max_recursion_depth = (uint32_t)below(4);
	o->target_usage_ratio = share(0, 1.1);
	o->large_entry_limit_ratio = share(0, 1.1);
	o->max_evictions_hard_cap = (uint32_t)below(below(2) ? 5 : 200);
	o->max_evictions_min = (uint32_t)below(20);
}

/* Many small ones, some large ones, and exact shares of a limit. */
static uint32_t random_tokens(const struct kv_cache_opts *o, uint32_t most)
{
	static const int percent[] = {1, 5, 20, 40, 41, 50, 79, 80, 81, 94, 95, 96, 99, 100};
	uint64_t limit = o->limit[below(KV_TIERS)];

	if (below(4) || !limit || limit == KV_UNLIMITED)
		return (uint32_t)below(below(3) ? most / 10 + 1 : most + 1);
	limit = limit / 100 * (uint64_t)percent[below(ARRAY_SIZE(percent))] /
		kv_model_bytes_per_token(o->model);
	return (uint32_t)min_u64(limit + below(3), 100 * most);
}

static void one_operation(const struct kv_cache_opts *o, unsigned keys, uint32_t most)
{
	unsigned key = (unsigned)below(keys);
	struct kv_key k = {.kind = KV_KEY_PREPOP, .n = key};
	uint64_t what = below(100);

	if (what < 45) {
		uint32_t tokens = random_tokens(o, most);

		T_EQ(kv_cache_allocate(cache, k, tokens), model_allocate(&model, key, tokens));
	} else if (what < 97) {
		enum kv_phase phase = below(10) ? KV_DECODE : KV_PREFILL;
		enum kv_kind kind = (enum kv_kind)below(KV_KINDS);

		T_EQ(kv_cache_access(cache, k, phase, kind),
		     model_access(&model, key, (int)phase, (int)kind));
	} else if (what < 98) {
		T_EQ(kv_cache_drop(cache, k), model_drop(&model, key, false));
	} else {
		T_EQ(kv_cache_delete(cache, k), model_drop(&model, key, true));
	}
}

static void one_cache(unsigned long ops)
{
	static const uint32_t sizes[] = {3, 60, 2000};
	uint32_t most = sizes[below(ARRAY_SIZE(sizes))];
	unsigned keys = (unsigned)(below(2) ? 20 : KEYS);
	struct kv_cache_opts o;

	random_opts(&o, most);
	memset(&model, 0, sizeof(model));
	model.o = &o;
	T_EQ(kv_cache_new(&cache, &o, on_event, NULL), 0);
	for (unsigned long i = 0; i < ops; i++) {
		one_operation(&o, keys, most);
		same_events(i);
		if (i % 16 == 0 || keys < KEYS)
			same_state();
	}
	same_state();
	kv_cache_free(cache);
	cache = NULL;
}

static void every_decision_is_that_of_the_simple_model(void)
{
	unsigned long caches = t_ops(T_ASAN || T_TSAN ? 100 : 2000);
	uint64_t seed = t_seed();

	for (unsigned long i = 0; i < caches; i++) {
		penstock_random_seed(&rnd, seed + i);
		one_cache(600);
	}
}

static void teardown(void)
{
	kv_cache_free(cache);
	cache = NULL;
	nr_told = 0;
}

int main(int argc, char **argv)
{
	const struct t_case cases[] = {
		T_CASE(every_decision_is_that_of_the_simple_model),
	};
	const struct t_group group = {"waterfall", NULL, teardown, cases, ARRAY_SIZE(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
