/* SPDX-License-Identifier: Apache-2.0 */
/* Work that several do together: the parts are what one would do alone. */
#include "common/kvparams.h"
#include "common/t.h"
#include "load/replay/replay_internal.h"

#define SEC 1000000000ull

static const char burst[] = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
			    "0,ChatGPT,100,20,120,API log\n"
			    "1,ChatGPT,200,30,230,API log\n"
			    "1,ChatGPT,300,40,340,API log\n"
			    "2,GPT-4,250,60,310,API log\n"
			    "4,GPT-4,400,50,450,API log\n";
#define TURN "{\"from\": \"human\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"2\"}"
static const char share[] = "[{\"id\": \"one\", \"conversations\": [" TURN ", " TURN ", " TURN "]},"
			    "{\"id\": \"two\", \"conversations\": [" TURN "]},"
			    "{\"id\": \"three\", \"conversations\": [" TURN ", " TURN "]}]";

/* What was started: how many, and a sum in which the order does not count. */
struct started {
	uint64_t nr, sum;
};

static uint64_t hash_of(const struct kv_request *r)
{
	uint64_t sum = t_sum(T_SUM, &r->id, sizeof(r->id));

	sum = t_sum(sum, &r->start_ns, sizeof(r->start_ns));
	sum = t_sum(sum, &r->context, sizeof(r->context));
	sum = t_sum(sum, &r->random, sizeof(r->random));
	return t_sum(sum, &r->key, sizeof(r->key));
}

static int count_row(void *arg, const struct kv_event *ev)
{
	uint64_t *last = arg, at;

	if (ev->type == KV_EV_MISS)
		return 0;
	at = kv_load_row(t_kv.load);
	T_OK(at > *last);
	*last = at;
	return 0;
}

static void fill(struct kv_cache *c)
{
	struct kv_key key;
	uint32_t tokens;

	for (uint64_t i = 0; kv_prepop(&t_kv.params, kv_cache_limit(c, KV_NVME), i, &key, &tokens);
	     i++)
		T_OK(kv_cache_allocate(c, key, tokens) >= 0);
}

/* All that one part does, on a cache of its own. */
static struct started run_part(uint32_t part, uint32_t parts)
{
	struct started s = {0};
	struct kv_cache_opts o;
	struct kv_planned planned;
	struct kv_cache *c;
	struct kv_request r;
	uint64_t last = 0;

	t_kv.params.part = part;
	t_kv.params.parts = parts;
	kv_params_cache(&t_kv.params, kv_params_storage(&t_kv.params), true, &o);
	T_EQ(kv_cache_new(&c, &o, count_row, &last), 0);
	t_kv_begin();
	fill(c);
	while (t_kv_next(&r)) {
		T_EQ(kv_plan(t_kv.load, c, &r, NULL, NULL, &planned), 0);
		if (r.type == KV_REQ_INGEST)
			continue;
		s.nr++;
		s.sum += hash_of(&r);
	}
	T_EQ(kv_load_error(t_kv.load, NULL), 0);
	kv_cache_free(c);
	return s;
}

static void check_parts(void)
{
	static const uint32_t numbers[] = {2, 3, 7};
	struct started whole = run_part(0, 1);

	T_OK(whole.nr > 0);
	for (unsigned i = 0; i < T_COUNT(numbers); i++) {
		struct started all = {0};

		for (uint32_t k = 0; k < numbers[i]; k++) {
			struct started one = run_part(k, numbers[i]);

			T_OK(one.nr < whole.nr);
			all.nr += one.nr;
			all.sum += one.sum;
		}
		T_EQ(all.nr, whole.nr);
		T_EQ(all.sum, whole.sum);
	}
}

static void parts_of_users_are_what_one_does(void)
{
	check_parts();
}

/* Who starts is then decided by workers that are free, to the microsecond. */
static void so_they_are_when_there_is_too_much_to_do(void)
{
	t_kv.params.generation = KV_GEN_REALISTIC;
	t_kv.params.gpu_gb = t_kv.params.cpu_gb = 0.1; /* and rows of evictions among them */
	t_kv.params.storage_gb = 1;
	check_parts();
}

static void so_they_are_with_documents_a_rate_and_a_limit(void)
{
	t_kv.params.rag = true;
	t_kv.params.request_rate = 30;
	t_kv.params.max_requests = 500;
	check_parts();
}

static void so_they_are_behind_what_is_put_in_before(void)
{
	t_kv.params.decode_only = true;
	t_kv.params.precondition = true;
	t_kv.params.precondition_gb = 1;
	check_parts();
}

/* What a machine has of memory does not change who starts when. */
static void so_they_are_on_machines_with_less_memory(void)
{
	struct started whole, all = {0};

	t_kv.params.generation = KV_GEN_REALISTIC;
	whole = run_part(0, 1);
	t_kv.params.asked_cpu_gb = t_kv.params.cpu_gb;
	for (uint32_t k = 0; k < 3; k++) {
		struct started one;

		t_kv.params.cpu_gb = 0.1 * k;
		one = run_part(k, 3);
		all.nr += one.nr;
		all.sum += one.sum;
	}
	T_EQ(all.nr, whole.nr);
	T_EQ(all.sum, whole.sum);
}

static void use(const char **path, const char *name, const char *text)
{
	static char at[PATH_MAX];
	FILE *f;

	snprintf(at, sizeof(at), "%s", t_path(name));
	f = fopen(at, "w");
	T_OK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	*path = at;
	t_kv.params.replay_cycles = 9;
}

static void parts_of_recorded_requests_are_what_one_does(void)
{
	t_kv.params.generation = KV_GEN_REALISTIC;
	use(&t_kv.params.burst_path, "burst.csv", burst);
	check_parts();
}

static void a_recorded_conversation_belongs_to_one_part(void)
{
	uint32_t owner[3] = {9, 9, 9};
	struct kv_request r;

	use(&t_kv.params.sharegpt_path, "share.json", share);
	check_parts();
	for (uint32_t k = 0; k < 2; k++) {
		t_kv.params.part = k;
		t_kv.params.parts = 2;
		for (t_kv_begin(); t_kv_next(&r);) {
			T_OK(r.conv < 3);
			T_OK(owner[r.conv] == 9 || owner[r.conv] == k);
			owner[r.conv] = k;
		}
	}
}

/* On the caller's clock: each user's requests are those it has alone, and all come. */
static void live_parts_have_their_own_users(void)
{
	uint64_t seen[20] = {0};
	struct kv_request r;
	uint64_t next;

	t_kv.params.closed_loop = true;
	t_kv.params.max_requests = 101;
	t_kv.params.parts = 3;
	for (uint32_t k = 0, all = 0; k < 3; k++) {
		t_kv.params.part = k;
		t_kv_begin();
		for (uint64_t now = 0; now < 60 * SEC; now += SEC / 10) {
			kv_load_advance(t_kv.load, now, &next);
			while (kv_load_pop(t_kv.load, &r)) {
				T_EQ(r.user % 3, k);
				seen[r.user]++;
				all++;
				kv_load_done(t_kv.load, &r, now);
			}
		}
		T_EQ(all, k == 0 ? 34 : k == 1 ? 68 : 101);
	}
	for (unsigned i = 0; i < T_COUNT(seen); i++)
		T_OK(seen[i] > 0);
}

/* Those that were made ahead of the clock are not more than none that wait. */
static void starts_ahead_of_the_clock_are_no_queue(void)
{
	struct kv_request r;

	for (uint32_t parts = 1; parts < 4; parts += 2) {
		t_kv.params.parts = parts;
		t_kv_begin();
		for (unsigned i = 0; i < 10; i++)
			T_OK(t_kv_next(&r));
		T_OK(r.start_ns > 0);
		T_EQ(kv_load_queued_at(t_kv.load, 0), 0);
	}
}

/* ------------------------------------------------------------------------ traces */

static uint32_t owner_of(const char *key, uint64_t number)
{
	struct replay_job job = {.parts = 5};
	struct trace_row row = TRACE_ROW_INIT;
	uint32_t owner = 5;

	row.key = key;
	row.key_len = (uint32_t)strlen(key);
	for (job.part = 0; job.part < job.parts; job.part++) {
		if (!replay_owns(&job, &row, number))
			continue;
		T_EQ(owner, 5);
		owner = job.part;
	}
	T_OK(owner < 5);
	return owner;
}

static void rows_of_a_trace_have_one_owner_each(void)
{
	unsigned count[5] = {0};
	char key[64];

	for (unsigned i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "block-%u", i);
		count[owner_of(key, i)]++;
		T_EQ(owner_of("", i), i % 5);
	}
	for (unsigned i = 0; i < 5; i++)
		T_OK(count[i] > 100);
}

static void what_belongs_together_has_one_owner(void)
{
	unsigned different = 0;

	for (unsigned i = 0; i < 50; i++) {
		char a[64], b[64];

		snprintf(a, sizeof(a), "conv_user_%04u_17_turn_1", i);
		snprintf(b, sizeof(b), "conv_user_%04u_17_turn_12", i);
		T_EQ(owner_of(a, i), owner_of(b, 0));
		different += owner_of(a, i) != owner_of("conv_user_0000_17_turn_3", 0);
		snprintf(a, sizeof(a), "rag_doc_%04u_chunk_0", i);
		snprintf(b, sizeof(b), "rag_doc_%04u", i);
		T_EQ(owner_of(a, i), owner_of(b, 0));
	}
	T_OK(different > 20);
}

static const struct t_case cases[] = {
	T_CASE(parts_of_users_are_what_one_does),
	T_CASE(so_they_are_when_there_is_too_much_to_do),
	T_CASE(so_they_are_with_documents_a_rate_and_a_limit),
	T_CASE(so_they_are_behind_what_is_put_in_before),
	T_CASE(so_they_are_on_machines_with_less_memory),
	T_CASE(parts_of_recorded_requests_are_what_one_does),
	T_CASE(a_recorded_conversation_belongs_to_one_part),
	T_CASE(starts_ahead_of_the_clock_are_no_queue),
	T_CASE(live_parts_have_their_own_users),
	T_CASE(rows_of_a_trace_have_one_owner_each),
	T_CASE(what_belongs_together_has_one_owner),
};

static const struct t_group groups[] = {
	{"parts", t_kv_setup, t_kv_teardown, cases, T_COUNT(cases)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
