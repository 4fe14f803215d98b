/* SPDX-License-Identifier: Apache-2.0 */
/* What a request does to the cache, and what is put in before the run. */
#include "common/kvparams.h"
#include "common/t.h"
#include "load/model/kv_conv.h"

#define EVENTS 4096

static struct kv_cache *cache;
static struct kv_cache_opts opts;
static struct kv_event events[EVENTS];
static unsigned nr_events;
static enum kv_step steps[16];
static unsigned nr_steps;
static int emit_error;
static struct kv_planned planned;

static int emit(void *arg, const struct kv_event *ev)
{
	(void)arg;
	T_OK(nr_events < EVENTS);
	events[nr_events++] = *ev;
	return emit_error;
}

static void on_step(void *arg, enum kv_step s)
{
	(void)arg;
	steps[nr_steps++] = s;
}

static void setup(void)
{
	t_kv_setup();
	t_kv.params.prefix = false;
	emit_error = 0;
}

static void teardown(void)
{
	kv_cache_free(cache);
	cache = NULL;
	t_kv_teardown();
}

/* After changes of the parameters. */
static void begin(uint64_t nvme_limit)
{
	t_kv_begin();
	kv_cache_free(cache);
	cache = NULL;
	kv_params_cache(&t_kv.params, nvme_limit, true, &opts);
	T_EQ(kv_cache_new(&cache, &opts, emit, NULL), 0);
}

static int try_plan(const struct kv_request *r)
{
	nr_events = nr_steps = 0;
	return kv_plan(t_kv.load, cache, r, on_step, NULL, &planned);
}

static void plan(const struct kv_request *r)
{
	T_EQ(try_plan(r), 0);
}

/* Events of a type and phase. */
static unsigned count(uint8_t type, uint8_t phase)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < nr_events; i++)
		nr += events[i].type == type && events[i].phase == phase;
	return nr;
}

static unsigned reads(void)
{
	return count(KV_EV_READ, KV_DECODE);
}

static unsigned writes(void)
{
	return count(KV_EV_WRITE, KV_PREFILL);
}

static unsigned misses(void)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < nr_events; i++)
		nr += events[i].type == KV_EV_MISS;
	return nr;
}

/* Turn @turn of a conversation of user 5. */
static struct kv_request turn_of(uint32_t turn, uint32_t context, uint32_t generate)
{
	return (struct kv_request){
		.phase = KV_PHASES,
		.user = 5,
		.conv = 0,
		.turn = turn,
		.turns = turn,
		.context = context,
		.generate = generate,
		.key = {.kind = KV_KEY_CONV, .user = 5, .n = 1000, .turn = (uint16_t)turn},
		.random = turn,
	};
}

/* --------------------------------------------------------------- ordinary requests */

static void a_request_reads_once_and_then_per_32_tokens(void)
{
	static const struct {
		uint32_t generate, reads;
	} cases[] = {{0, 2}, {1, 2}, {32, 2}, {33, 3}, {64, 3}, {65, 4}, {800, 26}};

	for (unsigned i = 0; i < T_COUNT(cases); i++) {
		struct kv_request r = turn_of(1, 100, cases[i].generate);

		begin(KV_UNLIMITED);
		plan(&r);
		T_EQ(writes(), 1);
		T_EQ(reads(), cases[i].reads);
		T_EQ(misses(), 0);
		T_EQ(planned.tokens, cases[i].generate);
		T_OK(t_kv_is_key(events[0].key, "conv_user_0005_1000_turn_1"));
		T_EQ(events[0].type, KV_EV_WRITE);
		T_EQ(events[0].tokens, 100);
	}
}

static void the_batch_size_comes_from_the_configuration(void)
{
	struct kv_request r = turn_of(1, 100, 100);

	t_kv.params.config.decode_batch = 10;
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(reads(), 11);
}

static void every_turn_reads_all_turns_before_it(void)
{
	unsigned all_reads = 0, all_writes = 0;

	begin(KV_UNLIMITED);
	for (uint32_t turn = 1; turn <= 4; turn++) {
		struct kv_request r = turn_of(turn, 10, 20);

		plan(&r);
		for (uint32_t i = 0; i + 1 < turn; i++) {
			T_EQ(events[i].key.turn, i + 1);
			T_EQ(events[i].kind, KV_MULTI_TURN);
		}
		T_EQ(planned.turn_hits, turn - 1);
		T_EQ(planned.turn_misses, 0);
		all_reads += reads();
		all_writes += writes();
	}
	T_EQ(all_writes, 4);
	T_EQ(all_reads, 4 * 2 + 6);
	T_EQ(kv_cache_entries(cache, KV_GPU), 4);
}

static void turns_that_are_gone_are_missed(void)
{
	unsigned hits = 0, missed = 0;

	t_kv.params.gpu_gb = t_kv.params.cpu_gb = 0;
	begin(3 * 100 * 24576);
	for (uint32_t turn = 1; turn <= 6; turn++) {
		struct kv_request r = turn_of(turn, 100, 20);

		plan(&r);
		hits += planned.turn_hits;
		missed += planned.turn_misses;
		T_EQ(planned.turn_hits + planned.turn_misses, turn - 1);
		T_OK(kv_cache_entries(cache, KV_NVME) <= 3);
	}
	T_OK(hits > 0 && missed > 0);
}

/* Turns that were registered later are asked for, and not there. */
static void upstream_reads_turns_of_the_future(void)
{
	struct kv_request r;

	kv_params_as_upstream(&t_kv.params);
	begin(KV_UNLIMITED);
	for (uint32_t turn = 1; turn <= 2; turn++) {
		r = turn_of(turn, 10, 20);
		plan(&r);
	}
	r = turn_of(3, 10, 20);
	r.turns = 5;
	plan(&r);
	T_EQ(planned.turn_hits, 2);
	T_EQ(planned.turn_misses, 2);
	r = turn_of(1, 10, 20); /* not the first one */
	r.turns = 5;
	plan(&r);
	T_EQ(planned.turn_hits + planned.turn_misses, 0);
}

static void a_long_request_is_written_and_not_read(void)
{
	struct kv_request r = turn_of(1, 10000, 100);

	r.phase = KV_PREFILL;
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(writes(), 1);
	T_EQ(reads(), 0);
	T_EQ(planned.tokens, 100);
}

static void generation_takes_its_time(void)
{
	struct kv_request r = turn_of(1, 10, 100);

	t_kv.params.generation = KV_GEN_REALISTIC;
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(planned.generation_ns, 3000000000);
	t_kv.params.config.generation_sec[KV_GEN_REALISTIC] = 1;
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(planned.generation_ns, 100000000000);
	kv_params_as_upstream(&t_kv.params);
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(planned.generation_ns, 3000000000);
}

static void steps_are_told_in_order(void)
{
	struct kv_request r = turn_of(2, 100, 20);

	t_kv.params.prefix = true;
	t_kv.params.config.system_prompt_hit_probability = 1;
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(nr_steps, 4);
	T_EQ(steps[0], KV_STEP_PREFIX);
	T_EQ(steps[1], KV_STEP_TURNS);
	T_EQ(steps[2], KV_STEP_PREFILL);
	T_EQ(steps[3], KV_STEP_DECODE);
}

static void an_error_ends_the_request(void)
{
	struct kv_request r = turn_of(1, 100, 20);

	begin(KV_UNLIMITED);
	emit_error = -ENOSPC;
	T_EQ(try_plan(&r), -ENOSPC);
	T_EQ(nr_events, 1);
}

/* ------------------------------------------------------------------------- prefix */

static void use_prefix(double probability)
{
	t_kv.params.prefix = true;
	t_kv.params.config.system_prompt_hit_probability = probability;
}

/* So many requests of one turn; how often a prompt was read, written, missed. */
static void many(unsigned nr, uint32_t context, unsigned *hit, unsigned *written, unsigned *missed)
{
	*hit = *written = *missed = 0;
	for (unsigned i = 0; i < nr; i++) {
		struct kv_request r = turn_of(1, context, 20);

		r.key.n = r.random = 1000 + i;
		plan(&r);
		for (unsigned j = 0; j < nr_events; j++) {
			if (events[j].key.kind != KV_KEY_SYSTEM)
				continue;
			*hit += events[j].type == KV_EV_READ;
			*written += events[j].type == KV_EV_WRITE;
			*missed += events[j].type == KV_EV_MISS;
		}
	}
}

static void a_prompt_is_written_once_and_then_read(void)
{
	unsigned hit, written, missed;

	use_prefix(1);
	begin(KV_UNLIMITED);
	many(1000, 100, &hit, &written, &missed);
	T_EQ(written, 3);
	T_EQ(missed, 3);
	T_EQ(hit, 997);
	T_OK(planned.prefix_hit);
	T_OK(planned.prefix_bytes_saved % 24576 == 0 && planned.prefix_bytes_saved > 0);
}

static void one_request_in_five_has_a_prompt(void)
{
	unsigned hit, written, missed;

	use_prefix(0.2);
	begin(KV_UNLIMITED);
	many(1000, 100, &hit, &written, &missed);
	T_OK(hit + missed > 150 && hit + missed < 250);
}

static void its_words_are_not_prefilled(void)
{
	static const uint32_t words[] = {5, 9, 6};
	struct kv_request r = turn_of(1, 100, 20);

	use_prefix(1);
	t_kv.params.config.min_prefix_length = 0;
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(events[0].type, KV_EV_MISS);
	T_EQ(events[1].type, KV_EV_WRITE);
	T_EQ(events[1].tokens, words[events[1].key.n]);
	T_EQ(events[2].tokens, 100 - words[events[1].key.n]);
	T_EQ(events[3].kind, KV_SYSTEM);
	T_EQ(planned.prefix_bytes_saved, 0); /* nothing was there yet */
	r = turn_of(1, 3, 20);
	r.key.n = 7;
	plan(&r);
	T_EQ(count(KV_EV_WRITE, KV_PREFILL), 1);
	T_EQ(events[1].tokens, 0);
}

static void upstream_never_finds_a_prompt(void)
{
	unsigned hit, written, missed;

	use_prefix(1);
	kv_params_as_upstream(&t_kv.params);
	begin(KV_UNLIMITED);
	many(100, 10, &hit, &written, &missed);
	T_EQ(hit + written, 0);
	T_EQ(missed, 100);
	T_OK(planned.prefix_hit && planned.prefix_bytes_saved);
}

static void short_requests_have_no_prompt(void)
{
	unsigned hit, written, missed;

	use_prefix(1);
	begin(KV_UNLIMITED);
	many(100, 49, &hit, &written, &missed);
	T_EQ(hit + missed, 0);
	T_OK(!planned.prefix_hit);
	many(100, 50, &hit, &written, &missed);
	T_EQ(hit + missed, 100);
}

static void so_many_prompts_are_kept_and_no_more(void)
{
	unsigned hit, written, missed;

	use_prefix(1);
	t_kv.params.config.max_prefix_entries = 2;
	begin(KV_UNLIMITED);
	many(1000, 100, &hit, &written, &missed);
	T_EQ(written, 2);
	T_OK(missed > 250 && missed < 420);
}

/* ------------------------------------------------------------------- restricted modes */

static void prefill_only_does_not_decode(void)
{
	t_kv.params.prefill_only = true;
	begin(KV_UNLIMITED);
	for (uint32_t turn = 1; turn <= 3; turn++) {
		struct kv_request r = turn_of(turn, 100, 100);

		plan(&r);
		T_EQ(writes(), 1);
		T_EQ(reads(), turn - 1);
	}
}

static void put_before(void)
{
	struct kv_key key;
	uint32_t tokens;
	unsigned nr = 0;

	for (; kv_prepop(&t_kv.params, KV_UNLIMITED, nr, &key, &tokens); nr++) {
		T_EQ(tokens, 2048);
		T_OK(kv_cache_allocate(cache, key, tokens) >= 0);
	}
	T_EQ(nr, t_kv.params.users * 10);
	T_OK(t_kv_is_key(key, "prepop_200"));
}

static void decode_only_reads_what_was_there_before(void)
{
	bool seen[200] = {false};
	unsigned kinds = 0;

	t_kv.params.decode_only = true;
	begin(KV_UNLIMITED);
	put_before();
	for (unsigned i = 0; i < 1000; i++) {
		struct kv_request r = turn_of(2, 100, 100);

		r.random = i;
		plan(&r);
		T_EQ(nr_events, 5);
		T_EQ(reads(), 5);
		for (unsigned j = 0; j < 5; j++) {
			T_EQ(events[j].key.kind, KV_KEY_PREPOP);
			T_EQ(events[j].key.n, events[0].key.n);
		}
		kinds += !seen[events[0].key.n];
		seen[events[0].key.n] = true;
	}
	T_OK(kinds > 150);
}

static void decode_only_does_nothing_for_long_requests(void)
{
	struct kv_request r = turn_of(2, 20000, 100);

	r.phase = KV_PREFILL;
	t_kv.params.decode_only = true;
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(nr_events, 0);
}

static void what_decode_only_misses_is_not_written(void)
{
	struct kv_request r = turn_of(1, 100, 100);

	t_kv.params.decode_only = true;
	begin(KV_UNLIMITED);
	plan(&r);
	T_EQ(misses(), 1);
	T_EQ(nr_events, 1);
}

/* ---------------------------------------------------------------------- before the run */

static uint64_t prepops(uint64_t nvme_limit)
{
	struct kv_key key;
	uint32_t tokens;
	uint64_t nr = 0;

	while (kv_prepop(&t_kv.params, nvme_limit, nr, &key, &tokens))
		nr++;
	return nr;
}

static void preconditioning_writes_twice_the_storage_or_what_is_asked_for(void)
{
	uint64_t each = 2048 * 24576;

	T_EQ(prepops(10 * each), 0);
	t_kv.params.precondition = true;
	T_EQ(prepops(10 * each), 20);
	T_EQ(prepops(10 * each + 1), 21);
	T_EQ(prepops(KV_UNLIMITED), 0);
	t_kv.params.precondition_gb = 1;
	T_EQ(prepops(KV_UNLIMITED), 22); /* 21.3 */
	t_kv.params.tensor_parallel = 2;
	T_EQ(prepops(KV_UNLIMITED), 43);
}

static void preconditioning_comes_before_what_decode_only_reads(void)
{
	struct kv_key key;
	uint32_t tokens;

	t_kv.params.precondition = t_kv.params.decode_only = true;
	t_kv.params.precondition_gb = 1;
	T_OK(kv_prepop(&t_kv.params, KV_UNLIMITED, 0, &key, &tokens));
	T_OK(t_kv_is_key(key, "precond_0"));
	T_OK(kv_prepop(&t_kv.params, KV_UNLIMITED, 22, &key, &tokens));
	T_OK(t_kv_is_key(key, "prepop_0"));
	T_EQ(prepops(KV_UNLIMITED), 22 + 200);
}

static const struct t_case ordinary[] = {
	T_CASE(a_request_reads_once_and_then_per_32_tokens),
	T_CASE(the_batch_size_comes_from_the_configuration),
	T_CASE(every_turn_reads_all_turns_before_it),
	T_CASE(turns_that_are_gone_are_missed),
	T_CASE(upstream_reads_turns_of_the_future),
	T_CASE(a_long_request_is_written_and_not_read),
	T_CASE(generation_takes_its_time),
	T_CASE(steps_are_told_in_order),
	T_CASE(an_error_ends_the_request),
};

static const struct t_case prefixes[] = {
	T_CASE(a_prompt_is_written_once_and_then_read),
	T_CASE(one_request_in_five_has_a_prompt),
	T_CASE(its_words_are_not_prefilled),
	T_CASE(upstream_never_finds_a_prompt),
	T_CASE(short_requests_have_no_prompt),
	T_CASE(so_many_prompts_are_kept_and_no_more),
};

static const struct t_case restricted[] = {
	T_CASE(prefill_only_does_not_decode),
	T_CASE(decode_only_reads_what_was_there_before),
	T_CASE(decode_only_does_nothing_for_long_requests),
	T_CASE(what_decode_only_misses_is_not_written),
	T_CASE(preconditioning_writes_twice_the_storage_or_what_is_asked_for),
	T_CASE(preconditioning_comes_before_what_decode_only_reads),
};

static const struct t_group groups[] = {
	{"ordinary", setup, teardown, ordinary, T_COUNT(ordinary)},
	{"prefix", setup, teardown, prefixes, T_COUNT(prefixes)},
	{"restricted", setup, teardown, restricted, T_COUNT(restricted)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
