/* SPDX-License-Identifier: Apache-2.0 */
/* BurstGPT and ShareGPT as the load's input. */
#include "common/kvparams.h"
#include "common/t.h"
#include "load/model/kv_conv.h"

#define SEC 1000000000ull
#define US  1000ull

/* Eight requests at 0, 1, 1, 2, 4, 3 (a step back), 6 and 7 seconds; 2700 tokens. */
static const char burst[] = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
			    "0,ChatGPT,100,20,120,API log\n"
			    "1,ChatGPT,200,30,230,API log\n"
			    "1,ChatGPT,300,40,340,API log\n"
			    "2,GPT-4,250,60,310,API log\n"
			    "nonsense,,,,,\n"
			    "4,GPT-4,400,50,450,API log\n"
			    "3,GPT-4,300,50,350,API log\n"
			    "6,GPT-4,350,50,400,API log\n"
			    "7,GPT-4,400,100,500,API log\n";
static const double times[] = {0, 1, 1, 2, 4, 4, 7, 8};

/* Conversations of 3, 1 and 2 turns; in the last, turn 2 is missing. */
static const char share[] =
	"[{\"id\": \"one\", \"conversations\": ["
	"{\"from\": \"human\", \"value\": \"12345678\"}, {\"from\": \"gpt\", \"value\": \"1234\"},"
	"{\"from\": \"human\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"1234567890ab\"},"
	"{\"from\": \"human\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"2\"}]},"
	"{\"id\": \"two\", \"conversations\": ["
	"{\"from\": \"human\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"2\"}]},"
	"{\"id\": \"three\", \"conversations\": ["
	"{\"from\": \"human\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"2\"},"
	"{\"from\": \"gpt\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"2\"},"
	"{\"from\": \"human\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"2\"}]}]";
#define SHARE_TURNS 6

static char path[PATH_MAX];

static const char *make(const char *name, const char *text)
{
	FILE *f;

	snprintf(path, sizeof(path), "%s", t_path(name));
	f = fopen(path, "w");
	T_OK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	return path;
}

static void use_burst(uint32_t cycles)
{
	t_kv.params.burst_path = make("burst.csv", burst);
	t_kv.params.replay_cycles = cycles;
}

static void use_share(uint32_t cycles)
{
	t_kv.params.sharegpt_path = make("share.json", share);
	t_kv.params.replay_cycles = cycles;
}

static int by_arrival(const void *a, const void *b)
{
	const struct kv_request *x = a, *y = b;

	return (x->arrival_ns > y->arrival_ns) - (x->arrival_ns < y->arrival_ns);
}

/* All requests, by arrival. */
static unsigned all(struct kv_request *r, unsigned room)
{
	unsigned nr = 0;

	for (t_kv_begin(); nr < room && t_kv_next(&r[nr]); nr++)
		;
	qsort(r, nr, sizeof(*r), by_arrival);
	return nr;
}

/* ---------------------------------------------------------------------- BurstGPT */

static void every_usable_row_is_a_request_at_its_time(void)
{
	struct kv_request r[10];
	uint64_t tokens = 0;

	use_burst(1);
	T_EQ(all(r, 10), 8);
	for (unsigned i = 0; i < 8; i++) {
		tokens += r[i].context + r[i].generate;
		T_EQ(r[i].arrival_ns / SEC, times[i]);
		T_OK(r[i].arrival_ns % SEC < 10 * US);
		T_EQ(r[i].turn, 1);
		T_EQ(r[i].conv, KV_NO_CONV);
	}
	T_EQ(tokens, 2700);
	T_EQ(r[0].context, 100);
	T_EQ(r[0].generate, 20);
	T_OK(t_kv_is_key(r[0].key, "trace_user_0_req_0000"));
	T_OK(t_kv_is_key(r[7].key, "trace_user_7_req_0007"));
	T_OK(kv_load_exhausted(t_kv.load));
}

static void passes_follow_each_other_without_a_gap(void)
{
	struct kv_request r[20];

	use_burst(2);
	T_EQ(all(r, 20), 16);
	T_EQ(r[8].context, 100);
	T_EQ(r[8].arrival_ns, r[7].arrival_ns + US);
	T_EQ(r[15].arrival_ns / SEC, 16);
	T_OK(t_kv_is_key(r[15].key, "trace_user_15_req_0015"));
}

static void speedup_divides_the_gaps(void)
{
	struct kv_request r[10];

	use_burst(1);
	t_kv.params.trace_speedup = 4;
	T_EQ(all(r, 10), 8);
	T_EQ(r[7].arrival_ns, 2 * SEC);
	t_kv.params.trace_speedup = 0;
	T_EQ(all(r, 10), 8);
	T_EQ(r[7].arrival_ns, 7 * US);
}

static void endless_passes_end_with_the_time(void)
{
	use_burst(0);
	t_kv.params.trace_speedup = 0;
	t_kv.params.duration_ns = 10000000;
	T_EQ(t_kv_count(), 10000);
	T_OK(!kv_load_exhausted(t_kv.load));
}

static void upstream_abandons_the_queue_at_the_end_of_the_input(void)
{
	use_burst(1);
	t_kv.params.generation = KV_GEN_REALISTIC;
	t_kv.params.users = 1;
	T_EQ(t_kv_count(), 8);
	kv_params_as_upstream(&t_kv.params);
	T_OK(t_kv_count() < 8);
	T_EQ(kv_load_limit(t_kv.load) / SEC, 8);
}

static void a_rate_holds_back_what_comes_too_fast(void)
{
	struct kv_request r[10];

	use_burst(1);
	t_kv.params.trace_speedup = 0;
	t_kv.params.request_rate = 10;
	T_EQ(all(r, 10), 8);
	for (unsigned i = 0; i < 8; i++)
		T_EQ(r[i].arrival_ns, i * SEC / 10);
	kv_params_as_upstream(&t_kv.params); /* upstream: of ShareGPT alone */
	all(r, 10);
	T_OK(r[1].arrival_ns < SEC / 10);
}

static void from_10000_tokens_on_a_request_is_prefill_only(void)
{
	struct kv_request r[2];

	t_kv.params.burst_path = make("long.csv", "Timestamp,Request tokens,Response tokens\n"
						  "0,9999,1\n1,10000,1\n");
	t_kv.params.replay_cycles = 1;
	T_EQ(all(r, 2), 2);
	T_EQ(r[0].phase, KV_PHASES);
	T_EQ(r[1].phase, KV_PREFILL);
}

static void a_rate_of_once_in_an_age_is_one_request(void)
{
	t_kv.params.request_rate = 1e-12;
	use_burst(3);
	T_EQ(t_kv_count(), 1);
	t_kv.params.burst_path = NULL;
	use_share(3);
	T_EQ(t_kv_count(), 1);
	t_kv.params.sharegpt_path = NULL;
	T_EQ(t_kv_count(), 1);
}

static void levels_of_service_are_drawn_for_each_request(void)
{
	struct kv_request r[2000];
	unsigned nr[KV_QOS] = {0};

	use_burst(200);
	t_kv.params.trace_speedup = 0;
	T_EQ(all(r, 2000), 1600);
	for (unsigned i = 0; i < 1600; i++)
		nr[r[i].qos]++;
	T_OK(nr[KV_INTERACTIVE] > 160 && nr[KV_INTERACTIVE] < 320);
	T_OK(nr[KV_RESPONSIVE] > 460 && nr[KV_RESPONSIVE] < 660);
}

static void a_level_that_never_occurs_is_not_waited_for(void)
{
	use_burst(0);
	t_kv.params.trace_speedup = 0;
	t_kv.params.duration_ns = 100000000000000;
	t_kv.params.max_requests = 100;
	t_kv.params.config.interactive_probability = 0;
	t_kv.params.config.responsive_threshold = 1;
	T_EQ(t_kv_count(), 100);
}

static void what_waits_of_a_flood_is_counted(void)
{
	struct kv_request r;

	use_burst(3);
	t_kv.params.trace_speedup = 0;
	t_kv.params.users = 1;
	t_kv.params.generation = KV_GEN_FAST;
	t_kv_begin();
	T_OK(t_kv_next(&r));
	T_EQ(kv_load_queued(t_kv.load), 0);
	T_OK(t_kv_next(&r));
	T_EQ(kv_load_queued(t_kv.load), 22);
}

static void documents_are_there_for_recorded_requests_too(void)
{
	struct kv_request r;

	use_burst(1);
	t_kv.params.rag = true;
	T_EQ(t_kv_count(), 18);
	t_kv_begin();
	T_OK(t_kv_next(&r));
	T_EQ(r.type, KV_REQ_INGEST);
	kv_params_as_upstream(&t_kv.params);
	t_kv_begin();
	T_OK(t_kv_next(&r));
	T_EQ(r.type, KV_REQ_NORMAL);
}

#define LONG 70000 /* more than are kept */

static uint32_t long_context(uint64_t i)
{
	return (uint32_t)(1 + i * 7919 % 1999);
}

/* A request each 100 us. */
static void use_long(uint32_t cycles)
{
	FILE *f;

	snprintf(path, sizeof(path), "%s", t_path("long.csv"));
	f = fopen(path, "w");
	T_OK(f && fputs("Timestamp,Request tokens,Response tokens\n", f) >= 0);
	for (unsigned i = 0; i < LONG; i++)
		fprintf(f, "%.4f,%u,1\n", i / 1e4, long_context(i));
	T_OK(fclose(f) == 0);
	t_kv.params.burst_path = path;
	t_kv.params.replay_cycles = cycles;
}

static void a_long_input_is_read_when_it_is_needed(void)
{
	uint64_t span = (LONG - 1) * 100 * US + US;
	struct kv_request *r = calloc(3 * LONG, sizeof(*r));

	use_long(2);
	T_EQ(all(r, 3 * LONG), 2 * LONG);
	for (uint64_t i = 0; i < 2 * LONG; i++) {
		uint64_t at = i / LONG * span + i % LONG * 100 * US;

		T_EQ(r[i].context, long_context(i % LONG));
		T_EQ(r[i].key.n, i);
		T_OK(r[i].arrival_ns + US > at && r[i].arrival_ns < at + US);
	}
	T_OK(kv_load_exhausted(t_kv.load) && kv_load_error(t_kv.load, NULL) == 0);
	T_EQ(kv_load_queued(t_kv.load), 0);
	T_OK(kv_load_memory(t_kv.load) < LONG);
	free(r);
}

static void an_input_that_becomes_shorter_is_an_error(void)
{
	struct kv_request *r = calloc(LONG, sizeof(*r));
	struct penstock_err err;
	unsigned nr = 0;

	use_long(1);
	t_kv_begin();
	T_EQ(truncate(path, 500000), 0);
	while (nr < LONG && t_kv_next(&r[nr]))
		nr++;
	T_OK(nr > LONG / 10 && nr < LONG);
	T_OK(kv_load_exhausted(t_kv.load));
	T_EQ(kv_load_error(t_kv.load, &err), -EIO);
	T_STR_HAS(err.msg, "long.csv: has become shorter");
	free(r);
}

static void what_cannot_be_read_is_an_error(void)
{
	struct kv_load *none = NULL;
	struct penstock_err err;

	t_kv.params.burst_path = t_path("nothing.csv");
	T_OK(kv_load_new(&none, &t_kv.params, t_kv.texts, &err) < 0);
	T_STR_HAS(err.msg, "nothing.csv");
	T_OK(none == NULL);
}

static void an_input_without_usable_rows_is_a_load_without_requests(void)
{
	struct kv_request r;

	t_kv.params.burst_path =
		make("empty.csv", "Timestamp,Request tokens,Response tokens\nx,y\n");
	for (int closed = 0; closed < 2; closed++) {
		uint64_t next;

		t_kv.params.closed_loop = closed;
		t_kv_begin();
		T_OK(kv_load_is_empty(t_kv.load));
		T_OK(!t_kv_next(&r));
		T_EQ(kv_load_queued(t_kv.load), 0);
		t_kv_begin();
		kv_load_advance(t_kv.load, 1000, &next);
		T_EQ(next, UINT64_MAX);
		T_OK(!kv_load_pop(t_kv.load, &r) && kv_load_exhausted(t_kv.load));
	}
	t_kv.params.burst_path = NULL;
	t_kv_begin();
	T_OK(!kv_load_is_empty(t_kv.load));
}

/* ---------------------------------------------------------------------- ShareGPT */

/* The turns of one pass: each conversation in order and in one piece. */
static void check_pass(const struct kv_request *r, char order[4])
{
	static const char *const keys[] = {"one_turn_1", "one_turn_2",   "one_turn_3",
					   "two_turn_1", "three_turn_1", "three_turn_3"};
	unsigned at = 0, convs = 0;

	memset(order, 0, 4);
	for (unsigned i = 0; i < SHARE_TURNS; i++) {
		if (r[i].turns == 1) {
			at = r[i].conv == 0 ? 0 : r[i].conv == 1 ? 3 : 4;
			T_OK(convs < 3);
			order[convs++] = (char)('1' + r[i].conv);
		}
		T_OK(t_kv_is_key(r[i].key, keys[at++]));
	}
	T_EQ(convs, 3);
}

static void conversations_are_whole_and_shuffled_on_each_pass(void)
{
	struct kv_request r[20 * SHARE_TURNS + 1];
	char order[4], first[4];
	bool other = false;

	use_share(20);
	T_EQ(all(r, T_COUNT(r)), 20 * SHARE_TURNS);
	check_pass(r, first);
	for (unsigned pass = 1; pass < 20; pass++) {
		check_pass(&r[pass * SHARE_TURNS], order);
		T_OK(strchr(order, '1') && strchr(order, '2') && strchr(order, '3'));
		other |= strcmp(order, first) != 0;
	}
	T_OK(other);
}

static void tokens_are_characters_by_four(void)
{
	struct kv_request r[SHARE_TURNS + 1];

	use_share(1);
	T_EQ(all(r, T_COUNT(r)), SHARE_TURNS);
	for (unsigned i = 0; i < SHARE_TURNS; i++) {
		if (r[i].conv || r[i].turn > 2)
			continue;
		T_EQ(r[i].context, r[i].turn == 1 ? 2 : 1);
		T_EQ(r[i].generate, r[i].turn == 1 ? 1 : 3);
	}
}

static void turns_of_a_conversation_do_not_overtake_each_other(void)
{
	struct kv_request r;
	uint32_t turns[3] = {0};

	use_share(50);
	t_kv.params.users = 2;
	t_kv.params.generation = KV_GEN_FAST;
	for (t_kv_begin(); t_kv_next(&r); turns[r.conv] = r.turns)
		T_OK(r.turns == 1 || r.turns == turns[r.conv] + 1);
}

static void a_rate_is_kept(void)
{
	struct kv_request r[SHARE_TURNS + 1];

	use_share(1);
	t_kv.params.request_rate = 2;
	for (int compat = 0; compat < 2; compat++) {
		if (compat)
			kv_params_as_upstream(&t_kv.params);
		T_EQ(all(r, T_COUNT(r)), SHARE_TURNS);
		T_EQ(r[5].arrival_ns, 5 * SEC / 2);
	}
}

static void users_take_turns(void)
{
	struct kv_request r[SHARE_TURNS + 1];

	use_share(1);
	t_kv.params.users = 4;
	T_EQ(all(r, T_COUNT(r)), SHARE_TURNS);
	for (unsigned i = 0; i < SHARE_TURNS; i++)
		T_EQ(r[i].user, i % 4);
}

static void without_conversations_it_works_too(void)
{
	struct kv_request r[SHARE_TURNS + 1];

	use_share(1);
	t_kv.params.multi_turn = false;
	for (int compat = 0; compat < 2; compat++) {
		if (compat)
			kv_params_as_upstream(&t_kv.params);
		t_kv.params.request_rate = 1000;
		T_EQ(all(r, T_COUNT(r)), SHARE_TURNS);
		for (unsigned i = 0; i < SHARE_TURNS; i++)
			T_EQ(r[i].conv, KV_NO_CONV);
	}
}

static void upstream_does_not_know_the_conversations(void)
{
	struct kv_request r;

	use_share(1);
	kv_params_as_upstream(&t_kv.params);
	t_kv.params.request_rate = 1000;
	for (t_kv_begin(); t_kv_next(&r);)
		T_EQ(r.conv, KV_NO_CONV);
}

/* random.seed(S); random.shuffle([one, two, three]) */
static void the_first_pass_is_in_the_order_of_upstream_for_a_seed(void)
{
	static const struct {
		uint64_t seed;
		const char *keys[3]; /* the first turns */
	} want[] = {
		{1, {"two_turn_1", "three_turn_1", "one_turn_1"}},
		{5, {"one_turn_1", "two_turn_1", "three_turn_1"}},
		{42, {"two_turn_1", "one_turn_1", "three_turn_1"}},
	};
	struct kv_request r[SHARE_TURNS + 1];

	use_share(1);
	t_kv.params.request_rate = 1000;
	kv_params_as_upstream(&t_kv.params);
	for (unsigned i = 0; i < T_COUNT(want); i++) {
		unsigned k = 0;

		t_kv.params.seed = want[i].seed;
		T_EQ(all(r, T_COUNT(r)), SHARE_TURNS);
		for (unsigned n = 0; n < SHARE_TURNS; n++)
			if (r[n].turn == 1)
				T_OK(t_kv_is_key(r[n].key, want[i].keys[k++]));
		T_EQ(k, 3);
	}
}

static void what_waits_of_conversations_is_counted(void)
{
	struct kv_request r;

	use_share(2);
	t_kv.params.users = 1;
	t_kv.params.generation = KV_GEN_FAST;
	t_kv_begin();
	T_OK(t_kv_next(&r));
	T_OK(t_kv_next(&r));
	T_EQ(kv_load_queued(t_kv.load), 10);
}

/* ------------------------------------------------------------------- closed loops */

static void a_closed_loop_plays_every_request_once_and_one_at_a_time(void)
{
	uint64_t end[3] = {0};
	bool seen[16] = {false};
	struct kv_request r;
	unsigned nr = 0;

	use_burst(2);
	t_kv.params.users = 3;
	t_kv.params.closed_loop = true;
	t_kv.params.generation = KV_GEN_REALISTIC;
	for (t_kv_begin(); t_kv_next(&r); nr++) {
		T_OK(r.user < 3 && r.arrival_ns >= end[r.user]);
		end[r.user] = r.start_ns + r.generate * (SEC * 3 / 100);
		T_OK(r.key.n < 16 && !seen[r.key.n]);
		seen[r.key.n] = true;
		T_OK(r.arrival_ns / SEC >= times[r.key.n % 8]);
	}
	T_EQ(nr, 16);
	T_OK(kv_load_exhausted(t_kv.load));
}

static void a_closed_loop_plays_conversations_turn_by_turn(void)
{
	uint64_t end[5] = {0};
	struct kv_request r;
	unsigned nr = 0;

	use_share(3);
	t_kv.params.users = 5; /* more than conversations */
	t_kv.params.closed_loop = true;
	t_kv.params.generation = KV_GEN_REALISTIC;
	for (t_kv_begin(); t_kv_next(&r); nr++) {
		T_OK(r.user < 5 && r.arrival_ns >= end[r.user]);
		end[r.user] = r.start_ns + r.generate * (SEC * 3 / 100);
		T_EQ(kv_load_queued(t_kv.load) <= 5, true);
	}
	T_EQ(nr, 3 * SHARE_TURNS);
}

static const struct t_case bursts[] = {
	T_CASE(every_usable_row_is_a_request_at_its_time),
	T_CASE(passes_follow_each_other_without_a_gap),
	T_CASE(speedup_divides_the_gaps),
	T_CASE(endless_passes_end_with_the_time),
	T_CASE(upstream_abandons_the_queue_at_the_end_of_the_input),
	T_CASE(a_rate_holds_back_what_comes_too_fast),
	T_CASE(from_10000_tokens_on_a_request_is_prefill_only),
	T_CASE(a_rate_of_once_in_an_age_is_one_request),
	T_CASE(levels_of_service_are_drawn_for_each_request),
	T_CASE(a_level_that_never_occurs_is_not_waited_for),
	T_CASE(what_waits_of_a_flood_is_counted),
	T_CASE(documents_are_there_for_recorded_requests_too),
	T_CASE(a_long_input_is_read_when_it_is_needed),
	T_CASE(an_input_that_becomes_shorter_is_an_error),
	T_CASE(what_cannot_be_read_is_an_error),
	T_CASE(an_input_without_usable_rows_is_a_load_without_requests),
};

static const struct t_case shares[] = {
	T_CASE(conversations_are_whole_and_shuffled_on_each_pass),
	T_CASE(tokens_are_characters_by_four),
	T_CASE(turns_of_a_conversation_do_not_overtake_each_other),
	T_CASE(a_rate_is_kept),
	T_CASE(users_take_turns),
	T_CASE(without_conversations_it_works_too),
	T_CASE(upstream_does_not_know_the_conversations),
	T_CASE(the_first_pass_is_in_the_order_of_upstream_for_a_seed),
	T_CASE(what_waits_of_conversations_is_counted),
};

static const struct t_case closed[] = {
	T_CASE(a_closed_loop_plays_every_request_once_and_one_at_a_time),
	T_CASE(a_closed_loop_plays_conversations_turn_by_turn),
};

static const struct t_group groups[] = {
	{"BurstGPT", t_kv_setup, t_kv_teardown, bursts, T_COUNT(bursts)},
	{"ShareGPT", t_kv_setup, t_kv_teardown, shares, T_COUNT(shares)},
	{"closed loop", t_kv_setup, t_kv_teardown, closed, T_COUNT(closed)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
