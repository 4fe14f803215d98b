/* SPDX-License-Identifier: Apache-2.0 */
/* The cache one operation at a time: tiers, events, what they count, and what it costs. */
#include "load/model/kv_cache.h"

#include "base/random.h"
#include "base/util.h"
#include "tests/common/t.h"

enum { MANY = 200000 };

static struct kv_cache_opts o;
static struct kv_cache *cache;
static struct kv_event events[64];
static unsigned nr_events, fail_at;
static struct kv_counts counts;

/* Remembers the first ones, counts all; fails at number fail_at. */
static int on_event(void *arg, const struct kv_event *ev)
{
	(void)arg;
	kv_count(&counts, ev, &o);
	if (nr_events < ARRAY_SIZE(events))
		events[nr_events] = *ev;
	return ++nr_events == fail_at ? -EIO : 0;
}

static void setup(void)
{
	kv_cache_opts_defaults(&o);
	o.model = kv_model_builtin(0); /* 24576 bytes per token */
	nr_events = fail_at = 0;
	counts = (struct kv_counts){0};
}

static void teardown(void)
{
	kv_cache_free(cache);
	cache = NULL;
}

/* Limits in tokens of the model. */
static void open_cache(uint64_t gpu, uint64_t cpu, uint64_t nvme)
{
	o.limit[KV_GPU] = gpu * 24576;
	o.limit[KV_CPU] = cpu * 24576;
	o.limit[KV_NVME] = nvme == KV_UNLIMITED ? nvme : nvme * 24576;
	T_EQ(kv_cache_new(&cache, &o, on_event, NULL), 0);
}

static struct kv_key key(uint64_t n)
{
	return (struct kv_key){.kind = KV_KEY_PREPOP, .n = n};
}

static int allocate(uint64_t n, uint32_t tokens)
{
	return kv_cache_allocate(cache, key(n), tokens);
}

static int read_it(uint64_t n)
{
	return kv_cache_access(cache, key(n), KV_DECODE, KV_USER);
}

static void is_event(unsigned i, enum kv_event_type type, enum kv_tier tier, enum kv_phase phase,
		     uint64_t n)
{
	T_OK(i < nr_events);
	T_EQ(events[i].type, type);
	T_EQ(events[i].tier, tier);
	T_EQ(events[i].phase, phase);
	T_EQ(events[i].key.n, n);
}

static void a_tier_fills_to_four_fifths_and_the_oldest_moves_down(void)
{
	open_cache(100, 100, 100);
	T_EQ(allocate(0, 40), KV_GPU);
	T_EQ(allocate(1, 40), KV_GPU);
	T_EQ(read_it(0), KV_GPU);
	nr_events = 0;
	T_EQ(allocate(2, 40), KV_GPU);
	is_event(0, KV_EV_READ, KV_GPU, KV_EVICT, 1);
	is_event(1, KV_EV_WRITE, KV_CPU, KV_EVICT, 1);
	is_event(2, KV_EV_WRITE, KV_GPU, KV_PREFILL, 2);
	T_EQ(nr_events, 3);
	T_EQ(kv_cache_where(cache, key(1)), KV_CPU);
	T_EQ(kv_cache_used(cache, KV_GPU), 80 * 24576);
	T_EQ(kv_cache_used(cache, KV_CPU), 40 * 24576);
	T_EQ(kv_cache_entries(cache, KV_GPU), 2);
	T_EQ(kv_cache_limit(cache, KV_CPU), 100 * 24576);
}

static void the_last_tier_fills_up_and_drops(void)
{
	open_cache(0, 0, 100);
	T_EQ(allocate(0, 60), KV_NVME);
	T_EQ(allocate(1, 40), KV_NVME);
	nr_events = 0;
	T_EQ(allocate(2, 30), KV_NVME);
	is_event(0, KV_EV_DELETE, KV_NVME, KV_EVICT, 0);
	is_event(1, KV_EV_WRITE, KV_NVME, KV_PREFILL, 2);
	T_EQ(kv_cache_where(cache, key(0)), -ENOENT);
	T_EQ(kv_cache_used(cache, KV_NVME), 70 * 24576);
}

/* What moved down keeps its age: it is older than what was put in below meanwhile. */
static void an_entry_from_above_may_be_the_oldest_below(void)
{
	open_cache(100, 100, KV_UNLIMITED);
	T_EQ(allocate(0, 30), KV_GPU);
	T_EQ(allocate(1, 96), KV_NVME); /* too large for the others */
	T_EQ(allocate(2, 50), KV_GPU);
	T_EQ(allocate(3, 50), KV_GPU); /* 0 and 2 move down */
	T_EQ(kv_cache_where(cache, key(0)), KV_CPU);
	T_EQ(read_it(2), KV_CPU);
	nr_events = 0;
	T_EQ(allocate(4, 50), KV_GPU); /* 3 moves down; of 0 and 2 only 0 makes way */
	is_event(0, KV_EV_READ, KV_CPU, KV_EVICT, 0);
	is_event(1, KV_EV_WRITE, KV_NVME, KV_EVICT, 0);
	is_event(2, KV_EV_READ, KV_CPU, KV_EVICT, 2);
	is_event(4, KV_EV_READ, KV_GPU, KV_EVICT, 3);
}

static void an_entry_that_is_there_is_left_alone(void)
{
	open_cache(100, 100, 100);
	allocate(0, 10);
	allocate(1, 10);
	nr_events = 0;
	T_EQ(allocate(0, 99), KV_GPU);
	T_EQ(nr_events, 0);
	allocate(2, 61); /* 0 is still the oldest */
	is_event(0, KV_EV_READ, KV_GPU, KV_EVICT, 0);
}

static void without_a_gpu_the_second_tier_is_the_first(void)
{
	o.has_gpu = false;
	open_cache(100, 100, 100);
	T_EQ(allocate(0, 10), KV_CPU);
	T_EQ(kv_cache_used(cache, KV_GPU), 0);
}

static void what_fits_nowhere_goes_to_the_last_tier(void)
{
	open_cache(10, 10, 10);
	T_EQ(allocate(0, 1000), KV_NVME);
	T_EQ(kv_cache_used(cache, KV_NVME), 1000 * 24576);
	T_EQ(allocate(1, 10), KV_NVME);
	T_EQ(kv_cache_where(cache, key(0)), -ENOENT);
}

static void of_an_entry_that_is_divided_one_part_is_kept(void)
{
	o.shards = 4;
	open_cache(25, 25, KV_UNLIMITED);
	T_EQ(allocate(0, 60), KV_GPU);
	T_EQ(kv_cache_used(cache, KV_GPU), 15 * 24576);
	T_EQ(events[0].size, 15 * 24576);
	T_EQ(allocate(1, 60), KV_GPU);
	T_EQ(kv_cache_used(cache, KV_GPU), 15 * 24576);
	T_EQ(kv_cache_used(cache, KV_CPU), 15 * 24576);
}

static void a_miss_is_an_event_and_no_more(void)
{
	open_cache(100, 100, 100);
	T_EQ(kv_cache_access(cache, key(9), KV_DECODE, KV_MULTI_TURN), -ENOENT);
	T_EQ(nr_events, 1);
	T_OK(events[0].type == KV_EV_MISS && events[0].kind == KV_MULTI_TURN);
	T_EQ(events[0].key.n, 9);
	T_EQ(events[0].size, 0);
	T_EQ(counts.misses, 1);
}

static void a_dropped_entry_is_gone_without_an_event(void)
{
	open_cache(100, 100, 100);
	allocate(0, 50);
	nr_events = 0;
	T_EQ(kv_cache_drop(cache, key(0)), 0);
	T_EQ(kv_cache_drop(cache, key(0)), -ENOENT);
	T_EQ(nr_events, 0);
	T_EQ(kv_cache_used(cache, KV_GPU), 0);
	T_EQ(read_it(0), -ENOENT);
	T_EQ(allocate(0, 50), KV_GPU);
}

static void a_deleted_entry_is_an_event_but_no_eviction(void)
{
	open_cache(100, 100, 100);
	allocate(0, 50);
	allocate(1, 50); /* 0 moves down */
	counts = (struct kv_counts){0};
	nr_events = 0;
	T_EQ(kv_cache_delete(cache, key(0)), 0);
	is_event(0, KV_EV_DELETE, KV_CPU, KV_PREFILL, 0);
	T_EQ(events[0].size, 50 * 24576);
	T_EQ(counts.evictions, 0);
	T_EQ(counts.tier_deleted[KV_CPU], 50 * 24576);
	T_EQ(kv_cache_delete(cache, key(0)), -ENOENT);
	T_EQ(nr_events, 1);
	T_EQ(kv_cache_used(cache, KV_CPU), 0);
	fail_at = 2;
	T_EQ(kv_cache_delete(cache, key(1)), -EIO);
	T_EQ(kv_cache_where(cache, key(1)), -ENOENT);
}

static void entries_come_in_the_order_of_allocation(void)
{
	static const uint64_t want[] = {2, 3, 4, 1};
	struct kv_event ev;
	uint64_t pos = 0;

	open_cache(1000, 100, 100);
	for (uint64_t n = 0; n < 5; n++)
		allocate(n, 1);
	read_it(2);
	kv_cache_drop(cache, key(0));
	kv_cache_drop(cache, key(1));
	allocate(1, 7);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		T_OK(kv_cache_next(cache, &pos, &ev));
		T_EQ(ev.key.n, want[i]);
		T_EQ(ev.tokens, want[i] == 1 ? 7 : 1);
	}
	T_OK(!kv_cache_next(cache, &pos, &ev));
}

static void live_entries_have_numbers_of_their_own(void)
{
	static bool taken[64];

	open_cache(0, 0, 10);
	memset(taken, 0, sizeof(taken));
	for (uint64_t n = 0; n < 30; n++) {
		nr_events = 0;
		allocate(n, 3);
		for (unsigned i = 0; i < nr_events; i++) {
			T_OK(taken[events[i].entry] == (events[i].type == KV_EV_DELETE));
			taken[events[i].entry] = events[i].type != KV_EV_DELETE;
		}
	}
}

static void a_failed_event_ends_the_call_and_leaves_the_cache_sound(void)
{
	struct penstock_err err;
	int r;

	/* of the last allocation: two demotions, a deletion, the write */
	for (unsigned at = 1; at <= 12; at++) {
		nr_events = fail_at = 0;
		open_cache(10, 10, 10);
		for (uint64_t n = 0; n < 6; n++)
			allocate(n, 4);
		nr_events = 0;
		fail_at = at;
		r = allocate(6, 8);
		T_EQ(r, nr_events >= at ? -EIO : KV_GPU);
		T_ERR(kv_cache_check(cache, &err), 0, &err);
		fail_at = 0;
		T_OK(allocate(7, 1) >= 0);
		T_ERR(kv_cache_check(cache, &err), 0, &err);
		teardown();
	}
}

static void sizes_that_do_not_add_up_are_refused(void)
{
	struct kv_model m = {"huge", "", 1u << 14, 1, 1, 1u << 14, 1, "int8", "mha", 0, 0};

	o.model = &m; /* 2^29 bytes per token */
	open_cache(0, 0, KV_UNLIMITED);
	for (uint64_t n = 0; n < 8; n++)
		T_EQ(allocate(n, UINT32_MAX), KV_NVME);
	T_EQ(allocate(8, UINT32_MAX), -EOVERFLOW);
	T_EQ(kv_cache_entries(cache, KV_NVME), 8);
	T_EQ(allocate(9, 1), KV_NVME);
}

/* ---- counts ---- */

static void events_add_up_in_upstreams_words(void)
{
	open_cache(100, 100, 100);
	allocate(0, 80);
	allocate(1, 80); /* 0 to the second tier */
	allocate(2, 80); /* 0 to the third, 1 to the second */
	allocate(3, 80); /* 0 dropped, 1 to the third, 2 to the second */
	kv_cache_access(cache, key(3), KV_DECODE, KV_SYSTEM);
	kv_cache_access(cache, key(2), KV_PREFILL, KV_MULTI_TURN);
	T_EQ(counts.storage_tokens_float, false);
	kv_cache_access(cache, key(1), KV_DECODE, KV_USER);
	read_it(0);
	T_EQ(counts.hits, 3);
	T_EQ(counts.misses, 1);
	T_EQ(counts.kind_hits[KV_SYSTEM], 1);
	T_EQ(counts.kind_hits[KV_COMMON], 0);
	T_EQ(counts.decode_reads, 2);
	T_EQ(counts.read_ops, 3);
	T_EQ(counts.write_ops, 4);
	T_EQ(counts.prefill_writes, 4);
	T_EQ(counts.evictions, 6);
	T_EQ(counts.offloads_cpu, 3);
	T_EQ(counts.offloads_storage, 2);
	T_EQ(counts.total_write_bytes, 320 * 24576);
	T_EQ(counts.total_read_bytes, 240 * 24576);
	T_EQ(counts.tier_deleted[KV_NVME], 80 * 24576);
	T_OK(counts.storage_tokens == 240 && counts.storage_tokens_float);
	for (int t = 0; t < 2; t++)
		T_EQ(counts.tier_evicted_out[t], counts.tier_evicted_in[t + 1]);
	T_EQ(counts.tier_written[KV_CPU], 240 * 24576);
	T_EQ(counts.tier_read[KV_CPU], (160 + 80) * 24576);
}

static void a_token_counts_once_however_it_is_cut(void)
{
	for (uint32_t tp = 1; tp <= 4; tp *= 2) {
		setup();
		o.shards = tp;
		open_cache(0, 100, KV_UNLIMITED);
		allocate(0, 64);
		T_OK(counts.storage_tokens == 0);
		T_EQ(allocate(1, 4 * 96), KV_NVME);
		T_OK(counts.storage_tokens == 4 * 96);
		read_it(1);
		T_OK(counts.storage_tokens == 8 * 96);
		teardown();
	}
}

/* ---- many ---- */

static void memory_stays_below_100_bytes_per_entry(void)
{
	open_cache(0, 0, KV_UNLIMITED);
	for (uint64_t n = 0; n < MANY; n++) {
		T_EQ(allocate(n, 1), KV_NVME);
		/* three chunks are always there */
		T_OK(kv_cache_memory(cache) < 100 * (n + 1) + (13 << 19));
	}
	T_EQ(kv_cache_entries(cache, KV_NVME), MANY);
	for (uint64_t n = 0; n < MANY; n++)
		T_EQ(kv_cache_where(cache, key(n)), KV_NVME);
}

static void what_was_dropped_is_used_again(void)
{
	uint64_t memory = 0;

	open_cache(0, 0, MANY / 10);
	for (uint64_t n = 0; n < MANY; n++) {
		allocate(n, 1);
		if (n == MANY / 5)
			memory = kv_cache_memory(cache);
	}
	T_EQ(kv_cache_memory(cache), memory);
	T_EQ(kv_cache_entries(cache, KV_NVME), MANY / 10);
}

/* Keys come and go at random: buckets split, overflow and shrink again. */
static void every_entry_is_found_whatever_came_and_went(void)
{
	enum { KEYS = MANY / 4 };
	static bool there[KEYS];
	struct penstock_random rnd;
	struct penstock_err err;
	uint64_t seed = t_seed(), live = 0;

	penstock_random_seed(&rnd, seed);
	memset(there, 0, sizeof(there));
	open_cache(0, 0, KV_UNLIMITED);
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < KEYS; i++) {
			uint64_t n = penstock_random_below(&rnd, KEYS);

			/* mostly in, then mostly out */
			if (penstock_random_below(&rnd, 10) < (round % 2 ? 1 : 9)) {
				T_EQ(allocate(n, 1), KV_NVME);
				live += !there[n];
				there[n] = true;
			} else {
				T_EQ(kv_cache_drop(cache, key(n)), there[n] ? 0 : -ENOENT);
				live -= there[n];
				there[n] = false;
			}
		}
		for (uint64_t n = 0; n < KEYS; n++)
			T_EQ(kv_cache_where(cache, key(n)), there[n] ? KV_NVME : -ENOENT);
		T_EQ(kv_cache_entries(cache, KV_NVME), live);
		T_ERR(kv_cache_check(cache, &err), 0, &err);
	}
}

static void a_prefetch_changes_nothing(void)
{
	struct kv_key keys[50];

	open_cache(100, 100, 100);
	allocate(0, 50);
	for (uint64_t n = 0; n < ARRAY_SIZE(keys); n++)
		keys[n] = key(n);
	kv_cache_prefetch(cache, keys, ARRAY_SIZE(keys));
	kv_cache_prefetch(cache, keys, 1);
	kv_cache_prefetch(cache, NULL, 0);
	T_EQ(nr_events, 1);
	T_EQ(kv_cache_where(cache, key(0)), KV_GPU);
}

int main(int argc, char **argv)
{
	const struct t_case cases[] = {
		T_CASE(a_tier_fills_to_four_fifths_and_the_oldest_moves_down),
		T_CASE(the_last_tier_fills_up_and_drops),
		T_CASE(an_entry_from_above_may_be_the_oldest_below),
		T_CASE(an_entry_that_is_there_is_left_alone),
		T_CASE(without_a_gpu_the_second_tier_is_the_first),
		T_CASE(what_fits_nowhere_goes_to_the_last_tier),
		T_CASE(of_an_entry_that_is_divided_one_part_is_kept),
		T_CASE(a_miss_is_an_event_and_no_more),
		T_CASE(a_dropped_entry_is_gone_without_an_event),
		T_CASE(a_deleted_entry_is_an_event_but_no_eviction),
		T_CASE(entries_come_in_the_order_of_allocation),
		T_CASE(live_entries_have_numbers_of_their_own),
		T_CASE(a_failed_event_ends_the_call_and_leaves_the_cache_sound),
		T_CASE(sizes_that_do_not_add_up_are_refused),
		T_CASE(events_add_up_in_upstreams_words),
		T_CASE(a_token_counts_once_however_it_is_cut),
		T_CASE(memory_stays_below_100_bytes_per_entry),
		T_CASE(what_was_dropped_is_used_again),
		T_CASE(every_entry_is_found_whatever_came_and_went),
		T_CASE(a_prefetch_changes_nothing),
	};
	const struct t_group group = {"cache", setup, teardown, cases, ARRAY_SIZE(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
