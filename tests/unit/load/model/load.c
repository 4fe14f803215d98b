/* SPDX-License-Identifier: Apache-2.0 */
/* Users' requests: when they come, in which order they start, and what they ask for. */
#include "common/kvparams.h"
#include "common/t.h"
#include "load/model/kv_conv.h"

#define SEC 1000000000ull
#define US  1000ull

static uint64_t mix_request(uint64_t sum, const struct kv_request *r)
{
	sum = t_sum(sum, &r->arrival_ns, sizeof(r->arrival_ns));
	sum = t_sum(sum, &r->start_ns, sizeof(r->start_ns));
	sum = t_sum(sum, &r->context, sizeof(r->context));
	sum = t_sum(sum, &r->generate, sizeof(r->generate));
	sum = t_sum(sum, &r->random, sizeof(r->random));
	return t_sum(sum, &r->key, sizeof(r->key));
}

static uint64_t checksum(void)
{
	uint64_t sum = T_SUM;
	struct kv_request r;

	t_kv_begin();
	while (t_kv_next(&r))
		sum = mix_request(sum, &r);
	return sum;
}

/* ----------------------------------------------------------------------- random */

static void the_same_seed_gives_the_same_requests(void)
{
	uint64_t sum = checksum();

	T_EQ(checksum(), sum);
	t_kv.params.seed = 43;
	T_OK(checksum() != sum);
}

/* Of user 3 the first few, wherever they are among the others'. */
static void requests_of(uint32_t user, struct kv_request *r, unsigned nr)
{
	t_kv_begin();
	for (unsigned i = 0; i < nr; i += r[i].user == user)
		T_OK(t_kv_next(&r[i]));
}

static void a_user_does_the_same_whoever_else_there_is(void)
{
	struct kv_request few[40], many[40];

	t_kv.params.users = 4;
	requests_of(3, few, T_COUNT(few));
	t_kv.params.users = 300; /* fewer than there are conversations */
	requests_of(3, many, T_COUNT(many));
	for (unsigned i = 0; i < T_COUNT(few); i++) {
		T_EQ(few[i].arrival_ns, many[i].arrival_ns);
		T_EQ(few[i].context, many[i].context);
		T_EQ(few[i].random, many[i].random);
		T_OK(kv_key_equal(few[i].key, many[i].key));
	}
}

static void users_think_and_ask_within_their_ranges(void)
{
	struct kv_user users[20];
	uint64_t last[20] = {0};
	struct kv_request r;
	unsigned nr = 0;

	kv_users_make(&t_kv.params, users);
	t_kv_begin();
	for (; t_kv_next(&r); nr++) {
		const struct kv_user *u = &users[r.user];
		double think = (double)(r.arrival_ns - last[r.user]) / 1e9;

		last[r.user] = r.arrival_ns;
		T_OK(think >= 0.799999 * u->think && think <= 1.200001 * u->think);
		T_OK(r.context >= u->context / 4 && r.context <= u->context);
		T_OK(r.generate >= u->generation / 4 && r.generate <= u->generation);
		T_EQ(r.qos, u->qos);
	}
	T_OK(nr > 20 * 60);
}

static void a_long_context_is_prefill_only(void)
{
	struct kv_request r;
	unsigned nr_long = 0, nr_short = 0;

	t_kv_begin();
	while (t_kv_next(&r)) {
		T_EQ(r.phase, r.context >= 10000 ? KV_PREFILL : KV_PHASES);
		nr_long += r.context >= 10000;
		nr_short += r.context < 10000;
	}
	T_OK(nr_long && nr_short);
}

static void a_configuration_that_makes_no_sense_is_refused(void)
{
	struct penstock_err err;

	t_kv.params.config.decode_batch = 0;
	T_EQ(kv_load_new(&t_kv.load, &t_kv.params, NULL, &err), -EINVAL);
	T_STR_HAS(err.msg, "decode.batch_size");
	T_OK(t_kv.load == NULL);
}

/* ---------------------------------------------------------------- conversations */

static void a_conversation_goes_on_until_its_user_drops_it(void)
{
	struct kv_request r;
	uint32_t turn[20] = {0};
	uint64_t conv[20] = {0};
	unsigned first = 0, nr = 0;

	for (t_kv_begin(); t_kv_next(&r); nr++) {
		if (r.turn == 1)
			T_OK(r.key.n > conv[r.user]);
		else
			T_EQ(r.key.n, conv[r.user]);
		T_EQ(r.turn, r.turn == 1 ? 1 : turn[r.user] + 1);
		T_EQ(r.key.turn, r.turn);
		T_EQ(r.turns, r.turn);
		turn[r.user] = r.turn;
		conv[r.user] = r.key.n;
		first += r.turn == 1;
	}
	/* one in five */
	T_OK(first > nr * 0.15 && first < nr * 0.25);
}

static void its_name_is_that_of_the_user_and_the_time_it_began(void)
{
	struct kv_request r;
	char name[KV_KEY_MAX];

	t_kv_begin();
	T_OK(t_kv_next(&r));
	snprintf(name, sizeof(name), "conv_user_%04u_%llu_turn_1", r.user,
		 1735689600000ull + (unsigned long long)r.arrival_ns / 1000000);
	T_OK(t_kv_is_key(r.key, name));
}

static unsigned longest(void)
{
	struct kv_request r;
	unsigned most = 0;

	for (t_kv_begin(); t_kv_next(&r);)
		most = r.turn > most ? r.turn : most;
	return most;
}

static void so_many_turns_and_no_more(void)
{
	t_kv.params.config.end_conversation_probability = 0;
	T_EQ(longest(), 50);
	t_kv.params.config.max_turns = 7;
	T_EQ(longest(), 7);
}

static void the_probability_of_an_end_comes_from_the_configuration(void)
{
	t_kv.params.config.end_conversation_probability = 1;
	T_EQ(longest(), 1);
	kv_params_as_upstream(&t_kv.params);
	T_OK(longest() > 1);
}

static void a_forgotten_conversation_begins_anew(void)
{
	t_kv.params.config.end_conversation_probability = 0;
	t_kv.params.config.max_conversations = 1;
	T_OK(longest() < 5);
}

static void without_conversations_requests_are_numbered_by_user(void)
{
	struct kv_request r;
	uint64_t n[20] = {0};

	t_kv.params.multi_turn = false;
	for (t_kv_begin(); t_kv_next(&r);) {
		T_EQ(r.key.kind, KV_KEY_USER_REQ);
		T_EQ(r.key.n, n[r.user]++);
		T_EQ(r.turn, 1);
		T_EQ(r.conv, KV_NO_CONV);
	}
	T_OK(n[0] > 1);
}

/* As many turns as have arrived, whether started or not. */
static void upstream_knows_of_turns_that_come_later(void)
{
	struct kv_request r;
	unsigned ahead = 0;

	t_kv.params.config.end_conversation_probability = 0;
	t_kv.params.users = 2;
	kv_params_as_upstream(&t_kv.params);
	t_kv.params.generation =
		KV_GEN_REALISTIC; /* a user asks far more often than it is served */
	for (t_kv_begin(); t_kv_next(&r);) {
		T_OK(r.turns >= r.turn);
		ahead += r.turns > r.turn;
	}
	T_OK(ahead > 0);
}

/* ------------------------------------------------------------------------ clock */

static void requests_start_in_order_and_not_before_they_arrive(void)
{
	struct kv_request r;
	uint64_t last = 0, id = 0;

	for (t_kv_begin(); t_kv_next(&r);) {
		T_EQ(r.id, id++);
		T_OK(r.start_ns >= r.arrival_ns);
		T_OK(r.start_ns > last || r.id == 0);
		last = r.start_ns;
	}
	T_OK(last < 60 * SEC);
	T_OK(kv_load_ended(t_kv.load) || last > 59 * SEC);
}

static void nothing_is_kept_waiting_without_reason(void)
{
	struct kv_request r;

	for (t_kv_begin(); t_kv_next(&r);)
		T_OK(r.start_ns - r.arrival_ns < 100 * US);
}

static void each_row_has_a_microsecond_of_its_own(void)
{
	struct kv_request r;
	uint64_t last = 0, at;

	t_kv_begin();
	for (unsigned n = 0; t_kv_next(&r) && n < 1000; n++) {
		for (unsigned i = 0; i < 20000; i++) { /* more than there is time for */
			at = kv_load_row(t_kv.load);
			T_OK(at / US > last / US);
			T_OK(at >= t_kv.params.epoch_ns + r.start_ns);
			last = at;
		}
		T_OK(kv_load_clock(t_kv.load) > r.start_ns);
	}
}

static void rows_before_the_run_move_its_beginning(void)
{
	struct kv_request a, b;

	t_kv_begin();
	T_OK(t_kv_next(&a));
	t_kv_begin();
	T_EQ(kv_load_row(t_kv.load), t_kv.params.epoch_ns);
	T_EQ(kv_load_row(t_kv.load), t_kv.params.epoch_ns + US);
	T_OK(t_kv_next(&b));
	T_EQ(a.start_ns, b.start_ns);
	T_EQ(kv_load_row(t_kv.load), t_kv.params.epoch_ns + 2 * US + b.start_ns);
}

static void a_flood_comes_to_an_end(void)
{
	for (int i = 0; i < KV_TEMPLATES; i++)
		t_kv.params.config.user[i].think[0] = t_kv.params.config.user[i].think[1] = 0;
	t_kv.params.users = 1000;
	t_kv.params.duration_ns = 100000000;
	T_EQ(t_kv_count(), 99900); /* all of 1000 users' first thought takes 100 us */
}

static void what_makes_no_rows_takes_time_too(void)
{
	struct kv_request r;
	uint64_t last = 0;

	for (int i = 0; i < KV_TEMPLATES; i++)
		t_kv.params.config.user[i].think[0] = t_kv.params.config.user[i].think[1] = 0;
	t_kv.params.users = 1000;
	t_kv.params.duration_ns = 10000000;
	for (t_kv_begin(); t_kv_next(&r); last = r.start_ns)
		T_OK(r.start_ns >= last + (last ? US : 0));
	T_OK(last < SEC / 100);
}

static void exactly_max_requests_are_started(void)
{
	t_kv.params.max_requests = 77;
	T_EQ(t_kv_count(), 77);
	T_OK(kv_load_exhausted(t_kv.load));
	t_kv.params.max_requests = 1000000;
	T_OK(t_kv_count() < 1000000);
	T_OK(!kv_load_exhausted(t_kv.load));
}

static void a_pause_comes_when_asked_for_and_changes_nothing(void)
{
	uint64_t sum = checksum(), paused = T_SUM;
	struct kv_request r;
	uint64_t tick = 10 * SEC;
	int what, ticks = 0;

	t_kv.params.generation = KV_GEN_REALISTIC;
	sum = checksum();
	t_kv_begin();
	for (kv_load_pause_at(t_kv.load, tick); (what = kv_load_next(t_kv.load, &r));) {
		if (what == KV_LOAD_PAUSE) {
			T_EQ(kv_load_clock(t_kv.load), tick);
			kv_load_pause_at(t_kv.load, tick += 10 * SEC);
			ticks++;
			continue;
		}
		T_OK(r.start_ns < tick);
		paused = mix_request(paused, &r);
	}
	T_EQ(ticks, 5);
	T_EQ(paused, sum);
}

static const struct t_case random_cases[] = {
	T_CASE(the_same_seed_gives_the_same_requests),
	T_CASE(a_user_does_the_same_whoever_else_there_is),
	T_CASE(users_think_and_ask_within_their_ranges),
	T_CASE(a_long_context_is_prefill_only),
	T_CASE(a_configuration_that_makes_no_sense_is_refused),
};

static const struct t_case conversations[] = {
	T_CASE(a_conversation_goes_on_until_its_user_drops_it),
	T_CASE(its_name_is_that_of_the_user_and_the_time_it_began),
	T_CASE(so_many_turns_and_no_more),
	T_CASE(the_probability_of_an_end_comes_from_the_configuration),
	T_CASE(a_forgotten_conversation_begins_anew),
	T_CASE(without_conversations_requests_are_numbered_by_user),
	T_CASE(upstream_knows_of_turns_that_come_later),
};

static const struct t_case clocks[] = {
	T_CASE(requests_start_in_order_and_not_before_they_arrive),
	T_CASE(nothing_is_kept_waiting_without_reason),
	T_CASE(each_row_has_a_microsecond_of_its_own),
	T_CASE(rows_before_the_run_move_its_beginning),
	T_CASE(a_flood_comes_to_an_end),
	T_CASE(what_makes_no_rows_takes_time_too),
	T_CASE(exactly_max_requests_are_started),
	T_CASE(a_pause_comes_when_asked_for_and_changes_nothing),
};

static const struct t_group groups[] = {
	{"random", t_kv_setup, t_kv_teardown, random_cases, T_COUNT(random_cases)},
	{"conversations", t_kv_setup, t_kv_teardown, conversations, T_COUNT(conversations)},
	{"clock", t_kv_setup, t_kv_teardown, clocks, T_COUNT(clocks)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
