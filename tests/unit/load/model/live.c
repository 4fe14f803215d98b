/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and the queue before them, loads on the caller's clock, closed loops, and users who come
 * and go. */
#include "common/kvparams.h"
#include "common/t.h"

#define SEC 1000000000ull

/* ---------------------------------------------------------------------- workers */

#define WORKERS 20

static double token_sec(void)
{
	return t_kv.params.config.generation_sec[t_kv.params.generation];
}

/* Forget the ends that are past; how many are left. */
static unsigned busy(uint64_t *ends, unsigned nr, uint64_t now)
{
	unsigned left = 0;

	for (unsigned i = 0; i < nr; i++)
		if (ends[i] > now)
			ends[left++] = ends[i];
	return left;
}

static void a_worker_does_one_request_at_a_time(void)
{
	struct kv_request r;
	uint64_t ends[WORKERS + 1];
	unsigned nr = 0, full = 0;

	t_kv.params.users = WORKERS;
	t_kv.params.generation = KV_GEN_REALISTIC;
	for (t_kv_begin(); t_kv_next(&r); nr++) {
		nr = busy(ends, nr, r.start_ns);
		T_OK(nr < WORKERS);
		full += nr == WORKERS - 1;
		ends[nr] = r.start_ns + (uint64_t)(r.generate * token_sec() * 1e9);
	}
	T_OK(full > 100);
}

static void there_are_at_most_500_workers(void)
{
	T_EQ(kv_load_workers(3), 3);
	T_EQ(kv_load_workers(100000), 500);
}

#define STARTS 4000

/* While one of a higher level waits, nobody of a lower level starts. */
static void the_queue_is_served_by_priority_and_arrival(void)
{
	static struct kv_request r[STARTS];
	uint64_t last[KV_QOS] = {0}, later[KV_QOS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	unsigned nr = 0, overtaken = 0;

	t_kv.params.users = 40;
	t_kv.params.generation = KV_GEN_FAST;
	t_kv.params.config.generation_sec[KV_GEN_FAST] =
		0.0035; /* a little more than can be done */
	for (t_kv_begin(); nr < STARTS && t_kv_next(&r[nr]); nr++) {
		T_OK(r[nr].arrival_ns >= last[r[nr].qos]); /* first come, first served */
		overtaken += r[nr].arrival_ns < last[KV_INTERACTIVE];
		last[r[nr].qos] = r[nr].arrival_ns;
	}
	T_OK(overtaken > 20 && nr == STARTS);
	while (nr--) {
		for (int q = 0; q < r[nr].qos; q++)
			T_OK(later[q] > r[nr].start_ns);
		later[r[nr].qos] = r[nr].arrival_ns;
	}
}

static void generation_times_come_from_the_configuration(void)
{
	unsigned slow, quick, upstream;

	t_kv.params.generation = KV_GEN_REALISTIC;
	slow = t_kv_count();
	t_kv.params.config.generation_sec[KV_GEN_REALISTIC] = 0.001;
	quick = t_kv_count();
	kv_params_as_upstream(&t_kv.params);
	upstream = t_kv_count();
	T_OK(quick > 2 * slow);
	T_OK(upstream < 2 * slow);
}

/* Arrivals up to the last start, of a run in which all of them start. */
static uint64_t arrived_by(uint64_t at)
{
	struct kv_request r;
	uint64_t nr = 0;
	int gen = t_kv.params.generation;

	t_kv.params.generation = KV_GEN_NONE;
	for (t_kv_begin(); t_kv_next(&r); nr += r.arrival_ns <= at)
		;
	t_kv.params.generation = gen;
	return nr;
}

static void what_waits_is_counted(void)
{
	struct kv_request r;
	uint64_t last = 0, queued, nr = 0;

	t_kv.params.rag = true;
	t_kv.params.generation = KV_GEN_REALISTIC;
	for (t_kv_begin(); kv_load_next(t_kv.load, &r) == 1; nr += r.type != KV_REQ_INGEST) {
		last = r.start_ns;
		queued = nr % 10 == 0 ? kv_load_queued(t_kv.load) : 0;
	}
	queued = kv_load_queued(t_kv.load);
	T_OK(queued > 500);
	/* documents are no requests */
	T_EQ(nr + queued, arrived_by(last) - t_kv.params.rag_docs);
}

static void what_waits_takes_no_memory(void)
{
	uint64_t memory;

	t_kv.params.generation = KV_GEN_REALISTIC;
	t_kv_begin();
	memory = kv_load_memory(t_kv.load);
	t_kv_count();
	T_OK(kv_load_queued(t_kv.load) > 100);
	T_EQ(kv_load_memory(t_kv.load), memory);
}

/* ------------------------------------------------------------------------- rate */

static void a_rate_spreads_requests_evenly(void)
{
	struct kv_request r;
	uint64_t last = 0;
	unsigned nr = 0;

	t_kv.params.request_rate = 5;
	for (t_kv_begin(); t_kv_next(&r); nr++) {
		T_OK(nr < 40 || r.arrival_ns - last < SEC / 5 + SEC / 50);
		last = r.arrival_ns;
	}
	T_OK(nr >= 295 && nr <= 305);
}

static void upstream_ignores_the_rate(void)
{
	unsigned free;

	kv_params_as_upstream(&t_kv.params);
	free = t_kv_count();
	t_kv.params.request_rate = 5;
	T_EQ(t_kv_count(), free);
}

/* ------------------------------------------------------------------ closed loop */

static void a_closed_loop_never_has_two_requests_of_one_user_at_once(void)
{
	struct kv_request r;
	uint64_t end[20] = {0};
	unsigned nr = 0;

	t_kv.params.closed_loop = true;
	t_kv.params.rag = true;
	t_kv.params.generation = KV_GEN_FAST;
	for (t_kv_begin(); t_kv_next(&r); nr++) {
		if (r.type == KV_REQ_INGEST)
			continue;
		T_OK(r.arrival_ns >= end[r.user]);
		end[r.user] = r.start_ns + (uint64_t)(r.generate * token_sec() * 1e9);
	}
	T_OK(nr > 100);
}

static void a_closed_loop_live(void)
{
	struct kv_request r, flying[20];
	bool in_flight[20] = {false};
	uint64_t at = 0, nothing = 0;
	unsigned nr = 0, done = 0;

	t_kv.params.closed_loop = true;
	t_kv.params.rag = true;
	t_kv_begin();
	while (!kv_load_ended(t_kv.load)) {
		kv_load_advance(t_kv.load, at, &nothing);
		T_OK(kv_load_queued(t_kv.load) <= 20);
		while (kv_load_pop(t_kv.load, &r)) {
			if (r.type == KV_REQ_INGEST)
				continue;
			T_OK(!in_flight[r.user]);
			in_flight[r.user] = true;
			flying[r.user] = r;
			nr++;
		}
		at += SEC / 100;
		/* some of them end */
		for (unsigned u = nr % 3; u < 20; u += 3) {
			if (!in_flight[u])
				continue;
			in_flight[u] = false;
			kv_load_done(t_kv.load, &flying[u], at);
			done++;
		}
	}
	T_OK(done > 100 && nr - done <= 20);
}

/* ------------------------------------------------------------------------- live */

static void live_requests_are_those_of_the_virtual_clock(void)
{
	struct kv_request virtual[200], r;
	uint64_t at;

	t_kv.params.users = 1; /* so that there is but one order */
	t_kv_begin();
	for (unsigned i = 0; i < 50; i++)
		T_OK(t_kv_next(&virtual[i]));
	t_kv_begin();
	kv_load_advance(t_kv.load, 0, &at);
	T_OK(!kv_load_pop(t_kv.load, &r));
	for (unsigned i = 0; i < 50; i++) {
		T_EQ(at, virtual[i].arrival_ns);
		kv_load_advance(t_kv.load, at, &at);
		T_OK(kv_load_pop(t_kv.load, &r));
		T_EQ(r.context, virtual[i].context);
		T_EQ(r.random, virtual[i].random);
		T_OK(kv_key_equal(r.key, virtual[i].key));
		kv_load_advance(t_kv.load, r.start_ns, &at);
	}
}

static void a_live_queue_gives_the_highest_priority_first(void)
{
	struct kv_request r;
	uint64_t next_ns;
	int last = -1;

	t_kv.params.users = 100;
	t_kv.params.config.user[KV_CHATBOT].think[0] = t_kv.params.config.user[KV_CODING].think[0] =
		0.5;
	t_kv.params.config.user[KV_CHATBOT].think[1] = t_kv.params.config.user[KV_CODING].think[1] =
		0.5;
	t_kv.params.config.user[KV_DOCUMENT].think[0] =
		t_kv.params.config.user[KV_DOCUMENT].think[1] = 0.5;
	t_kv_begin();
	kv_load_advance(t_kv.load, (uint64_t)(0.65 * SEC), &next_ns); /* each has asked once */
	T_OK(next_ns <= 0.65 * SEC);
	T_EQ(kv_load_queued(t_kv.load), 100);
	for (unsigned i = 0; i < 100; i++) {
		T_OK(kv_load_pop(t_kv.load, &r));
		T_OK(r.qos >= last);
		last = r.qos;
		T_EQ(kv_load_queued(t_kv.load), 99 - i);
	}
	T_OK(!kv_load_pop(t_kv.load, &r));
	T_EQ(last, KV_BATCH);
}

static void live_requests_end_with_the_time(void)
{
	struct kv_request r;
	uint64_t next_ns;

	t_kv_begin();
	kv_load_advance(t_kv.load, 60 * SEC - 1, &next_ns);
	T_OK(!kv_load_ended(t_kv.load));
	T_OK(kv_load_pop(t_kv.load, &r));
	kv_load_advance(t_kv.load, 60 * SEC, &next_ns);
	T_OK(kv_load_ended(t_kv.load));
	T_OK(!kv_load_pop(t_kv.load, &r));
	T_EQ(next_ns, UINT64_MAX);
	T_EQ(kv_load_limit(t_kv.load), 60 * SEC);
}

/* ------------------------------------------------------------------------ users */

static unsigned users_seen(unsigned from_sec, unsigned to_sec)
{
	bool seen[1000] = {false};
	struct kv_request r;
	unsigned nr = 0;

	kv_load_pause_at(t_kv.load, to_sec * SEC);
	while (t_kv_next(&r)) {
		T_OK(r.user < T_COUNT(seen));
		nr += r.start_ns >= from_sec * SEC && !seen[r.user];
		seen[r.user] = r.start_ns >= from_sec * SEC;
	}
	return nr;
}

static void users_come_and_go(void)
{
	t_kv.params.autoscale = true;
	t_kv_begin();
	T_EQ(kv_load_max_users(t_kv.load), t_kv.params.config.max_users);
	T_EQ(users_seen(0, 10), 20);
	kv_load_set_users(t_kv.load, 5, 10 * SEC);
	T_EQ(users_seen(10, 20), 5);
	kv_load_set_users(t_kv.load, 700, 20 * SEC);
	T_EQ(users_seen(20, 30), 700);
	kv_load_set_users(t_kv.load, 0, 30 * SEC);
	T_EQ(users_seen(30, 40), 1);
}

static void users_that_go_leave_nothing_in_the_queue(void)
{
	t_kv.params.autoscale = true;
	t_kv.params.generation = KV_GEN_REALISTIC;
	t_kv_begin();
	users_seen(0, 20);
	T_OK(kv_load_queued(t_kv.load) > 200);
	kv_load_set_users(t_kv.load, 1, 20 * SEC);
	T_OK(kv_load_queued(t_kv.load) < 200);
}

static void a_user_in_flight_comes_back_once(void)
{
	struct kv_request r, first;
	uint64_t next_ns;
	unsigned nr = 0;

	t_kv.params.users = 1;
	t_kv.params.autoscale = t_kv.params.closed_loop = true;
	t_kv.params.config.max_users = 3;
	t_kv_begin();
	kv_load_set_users(t_kv.load, 3, 0);
	kv_load_advance(t_kv.load, 20 * SEC, &next_ns);
	while (kv_load_pop(t_kv.load, &r))
		first = r;
	kv_load_set_users(t_kv.load, 1, 20 * SEC); /* all three are in flight */
	kv_load_set_users(t_kv.load, 3, 21 * SEC);
	kv_load_done(t_kv.load, &first, 22 * SEC);
	kv_load_advance(t_kv.load, 40 * SEC, &next_ns);
	for (; kv_load_pop(t_kv.load, &r); nr++)
		T_EQ(r.user, first.user);
	T_EQ(nr, 1);
}

static void a_hundred_thousand_users_are_no_trouble(void)
{
	struct kv_request r;

	t_kv.params.users = 100000;
	t_kv.params.config.max_conversations = 1000000;
	t_kv_begin();
	for (unsigned i = 0; i < 200000; i++)
		T_OK(t_kv_next(&r));
	T_OK(kv_load_memory(t_kv.load) < 40u << 20);
}

static const struct t_case workers[] = {
	T_CASE(a_worker_does_one_request_at_a_time),
	T_CASE(there_are_at_most_500_workers),
	T_CASE(the_queue_is_served_by_priority_and_arrival),
	T_CASE(generation_times_come_from_the_configuration),
	T_CASE(what_waits_is_counted),
	T_CASE(what_waits_takes_no_memory),
	T_CASE(a_rate_spreads_requests_evenly),
	T_CASE(upstream_ignores_the_rate),
};

static const struct t_case live[] = {
	T_CASE(a_closed_loop_never_has_two_requests_of_one_user_at_once),
	T_CASE(a_closed_loop_live),
	T_CASE(live_requests_are_those_of_the_virtual_clock),
	T_CASE(a_live_queue_gives_the_highest_priority_first),
	T_CASE(live_requests_end_with_the_time),
};

static const struct t_case users[] = {
	T_CASE(users_come_and_go),
	T_CASE(users_that_go_leave_nothing_in_the_queue),
	T_CASE(a_user_in_flight_comes_back_once),
	T_CASE(a_hundred_thousand_users_are_no_trouble),
};

static const struct t_group groups[] = {
	{"workers", t_kv_setup, t_kv_teardown, workers, T_COUNT(workers)},
	{"live", t_kv_setup, t_kv_teardown, live, T_COUNT(live)},
	{"users", t_kv_setup, t_kv_teardown, users, T_COUNT(users)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
