/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for what: operations on an object, permits, space, buffers. */
#include "base/random.h"
#include "base/util.h"
#include "tests/common/flowkit.h"

/* ------------------------------------------------------------------- objects */

enum { OBJECTS = 12, CHAINS = 300, MOST = 6 };

/* What an object is when all operations before this one on it have ended. */
struct fate {
	bool exists;
	unsigned place;
	uint64_t size;
};

struct expected {
	unsigned object;
	bool alone; /* it may not run beside others */
	int64_t result;
};

static struct flow_op draw(struct penstock_random *random, struct fate *fates, struct expected *e)
{
	static char names[OBJECTS][16];
	unsigned n = (unsigned)penstock_random_below(random, OBJECTS);
	unsigned to = (unsigned)penstock_random_below(random, fk_opts.nr_places);
	uint64_t size = penstock_random_below(random, 10)
				? 1 + penstock_random_below(random, KIB(200))
				: 1 + penstock_random_below(random, MIB(4));
	struct fate *f = &fates[n];
	unsigned place = penstock_random_below(random, 20) ? f->place : to;
	bool there = f->exists && f->place == place;

	snprintf(names[n], sizeof(names[n]), "object-%u", n);
	*e = (struct expected){n, true, there ? 0 : -ENOENT};
	switch (penstock_random_below(random, 8)) {
	case 0:
	case 1:
		*f = (struct fate){true, to, size};
		e->result = (int64_t)size;
		return fk_write(to, n, names[n], size);
	case 2:
		if (!f->exists)
			e->result = 0;
		if (there)
			f->exists = false;
		return fk_delete(place, n);
	case 3:
		if (there) {
			e->result = (int64_t)f->size;
			f->place = to;
		}
		return fk_move(place, to, n, f->size);
	default:
		if (there)
			e->result = (int64_t)f->size;
		e->alone = false;
		return fk_read(place, n);
	}
}

/* Nothing on an object runs beside a write, a move or a delete of it, and all in order. */
static void check_apart(const struct expected *e, unsigned nr)
{
	for (unsigned o = 0; o < OBJECTS; o++) {
		uint64_t all_over = 0, alone_over = 0; /* when those before have ended */

		for (unsigned i = 0; i < nr; i++) {
			const struct flow_done *d = &fk_done[i];

			if (e[i].object != o)
				continue;
			T_OK(d->start_ns >= (e[i].alone ? all_over : alone_over));
			all_over = max_u64(all_over, d->end_ns);
			if (e[i].alone)
				alone_over = d->end_ns;
		}
	}
}

static void operations_on_an_object_happen_in_the_order_of_their_chains(void)
{
	static struct expected expected[CHAINS * MOST];
	struct fate fates[OBJECTS] = {{false, 0, 0}};
	struct penstock_random random;
	struct flow_op ops[MOST];
	unsigned nr = 0;

	penstock_random_seed(&random, t_seed());
	fk_files("npy", PLACE_NPY);
	fk_slab("slab", MIB(256));
	fk_memory(MIB(256));
	fk_open();
	for (unsigned c = 0; c < CHAINS; c++) {
		unsigned n = 1 + (unsigned)penstock_random_below(&random, MOST);

		for (unsigned i = 0; i < n; i++)
			ops[i] = draw(&random, fates, &expected[nr + i]);
		T_EQ(fk_start(ops, n), nr);
		nr += n;
	}
	fk_wait();
	T_EQ(fk_nr_done, nr);
	for (unsigned i = 0; i < nr; i++)
		if (fk_done[i].result != expected[i].result)
			T_FAIL("operation %u on object %u: %lld, not %lld: %s", i,
			       expected[i].object, (long long)fk_done[i].result,
			       (long long)expected[i].result, fk_done[i].error);
	check_apart(expected, nr);
	fk_close();
	T_EQ(fk_entries("npy"), -1);
}

static void reads_of_one_object_run_beside_each_other(void)
{
	unsigned p = fk_null(1e9);

	fk_open();
	FK_DO(fk_write(p, 1, "x", MIB(4)), MIB(4));
	for (unsigned i = 0; i < 4; i++)
		FK_CHAIN(fk_read(p, 1));
	fk_wait();
	for (unsigned i = 2; i <= 4; i++)
		T_OK(fk_done[i].start_ns < fk_done[i - 1].end_ns);
	fk_close();
}

static void names_may_repeat(void)
{
	unsigned p = fk_files("raw", PLACE_RAW);

	fk_open();
	for (unsigned i = 0; i < 5; i++)
		FK_DO(fk_write(p, i, "same", 5000 + i), 5000 + i);
	T_EQ(fk_entries("raw"), 5);
	T_EQ(t_file_size(t_path("raw/same")), 5000);
	T_EQ(t_file_size(t_path("raw/same~4")), 5004);
	FK_DO(fk_delete(p, 0), 0);
	FK_DO(fk_write(p, 9, "same", 77), 77);
	T_EQ(t_file_size(t_path("raw/same")), 77);
	for (unsigned i = 1; i < 5; i++) {
		FK_DO(fk_read(p, i), 5000 + i);
		FK_DO(fk_delete(p, i), 0);
	}
	T_EQ(fk_entries("raw"), 1);
	fk_close();
}

/* ------------------------------------------------------------------- permits */

static void no_more_allocations_at_once_than_permits(void)
{
	enum { NR = 20, PERMITS = 3 };
	unsigned p = fk_null(0);
	unsigned most = 0;

	fk_open();
	flow_set_allocs(fk_flow, PERMITS);
	for (unsigned i = 0; i < NR; i++) {
		struct flow_op first = fk_pause(i % 3 * 1000000), begin = fk_pause(500000);
		struct flow_op end = fk_write(p, i, "x", 100);

		begin.alloc_begin = true;
		end.alloc_end = true;
		FK_CHAIN(first, begin, end, fk_pause(100000));
	}
	fk_wait();
	for (unsigned i = 0; i < NR; i++) {
		uint64_t at = fk_done[4 * i + 1].start_ns;
		unsigned now = 0;

		for (unsigned k = 0; k < NR; k++)
			now += fk_done[4 * k + 1].start_ns <= at && fk_done[4 * k + 2].end_ns > at;
		most = now > most ? now : most;
	}
	T_OK(most >= 1 && most <= PERMITS);
	fk_close();
}

/* The later one holds the only permit and waits for an object of the earlier one's: never. */
static void permits_and_objects_do_not_wait_for_each_other(void)
{
	unsigned p = fk_null(0);
	struct flow_op a = fk_write(p, 1, "a", 10), b = fk_write(p, 2, "b", 10);

	fk_open();
	flow_set_allocs(fk_flow, 1);
	a.alloc_begin = a.alloc_end = true;
	b.alloc_begin = true;
	FK_CHAIN(fk_pause(2000000), a, fk_write(p, 3, "c", 10));
	FK_CHAIN(b, fk_read(p, 3)); /* never ended: the permit goes back with the chain */
	FK_CHAIN(a);
	fk_wait();
	for (unsigned i = 0; i < fk_nr_done; i++)
		T_OK(fk_done[i].result >= 0);
	fk_close();
}

/* --------------------------------------------------------------------- space */

/* Exactly as much as the account says: an object leaves before another comes. */
static void a_place_as_large_as_its_account_never_overflows(void)
{
	enum { SLOTS = 8, NR = 300 };
	unsigned small = fk_memory(SLOTS * KIB(512)), below = fk_slab("below", MIB(256));
	struct penstock_random random;
	uint64_t size[NR];
	unsigned first = 0;
	uint64_t used = 0;
	char name[16];

	penstock_random_seed(&random, t_seed());
	fk_open();
	for (unsigned i = 0; i < NR; i++) {
		struct flow_op ops[20];
		unsigned n = 0;

		size[i] = 1 + penstock_random_below(&random, KIB(900));
		if (penstock_random_below(&random, 3) == 0)
			ops[n++] = fk_pause(penstock_random_below(&random, 300000));
		for (; used + align_up(size[i], KIB(64)) > SLOTS * KIB(512); first++) {
			ops[n++] = fk_move(small, below, first, size[first]);
			used -= align_up(size[first], KIB(64));
		}
		used += align_up(size[i], KIB(64));
		snprintf(name, sizeof(name), "o-%u", i);
		ops[n++] = fk_write(small, i, name, size[i]);
		T_OK(n <= T_COUNT(ops));
		fk_start(ops, n);
		if (i % 50 == 49)
			fk_wait();
	}
	fk_wait();
	for (unsigned i = 0; i < fk_nr_done; i++)
		if (fk_done[i].result < 0)
			T_FAIL("%u: %s", i, fk_done[i].error);
	T_EQ(place_used(fk_place[small]), used);
	for (unsigned i = 0; i < NR; i++)
		FK_DO(fk_read(i < first ? below : small, i), size[i]);
	fk_close();
}

static void what_does_not_fit_is_an_error_and_nothing_hangs(void)
{
	unsigned p = fk_memory(MIB(4));

	fk_open();
	FK_DO(fk_write(p, 1, "too-large", MIB(5)), -ENOSPC);
	T_STR_HAS(fk_error(), "too-large");
	FK_DO(fk_write(p, 1, "too-large", 1ull << 40), -ENOSPC);
	FK_DO(fk_read(p, 1), -ENOENT);
	FK_DO(fk_write(p, 2, "half", MIB(3)), MIB(3));
	FK_CHAIN(fk_write(p, 3, "more", MIB(2)), fk_write(p, 4, "less", MIB(1)));
	FK_CHAIN(fk_write(p, 5, "less", KIB(64)));
	fk_wait();
	T_EQ(fk_done[4].result, -ENOSPC);
	T_EQ(fk_done[5].result, MIB(1));
	T_EQ(fk_done[6].result, -ENOSPC);
	FK_DO(fk_delete(p, 2), 0);
	FK_DO(fk_write(p, 5, "less", MIB(3)), MIB(3));
	FK_DO(fk_write(p, 5, "again", MIB(3)), MIB(3)); /* in the room of what it replaces */
	FK_DO(fk_read(p, 5), MIB(3));
	fk_close();
}

/* Files know no end but the file system's: the last tier takes what no other does. */
static void a_folder_takes_more_than_its_capacity_when_nothing_is_left_to_wait_for(void)
{
	struct place_opts o = {.kind = PLACE_FILES, .capacity = MIB(2)};
	unsigned p = fk_add(o, "raw");

	fk_open();
	FK_CHAIN(fk_write(p, 1, "large", MIB(3)), fk_pause(2000000), fk_delete(p, 1));
	FK_CHAIN(fk_write(p, 2, "small", MIB(1))); /* waits for the room it was promised */
	fk_wait();
	T_EQ(fk_done[0].result, MIB(3));
	T_EQ(fk_done[3].result, MIB(1));
	T_OK(fk_done[3].start_ns >= fk_done[2].end_ns);
	FK_DO(fk_write(p, 3, "large", MIB(3)), MIB(3));
	fk_close();
}

static void a_move_into_a_full_place_drops_the_object(void)
{
	unsigned from = fk_files("raw", PLACE_RAW), to = fk_memory(MIB(1));

	fk_open();
	FK_DO(fk_write(from, 1, "large", MIB(3)), MIB(3));
	FK_DO(fk_move(from, to, 1, MIB(3)), -ENOSPC);
	FK_DO(fk_read(from, 1), -ENOENT);
	T_EQ(fk_entries("raw"), 0);
	T_EQ(place_used(fk_place[from]) + place_used(fk_place[to]), 0);
	fk_close();
}

/* Two chains, each of which makes room for itself: the earlier one is the slower one. */
static void the_room_of_an_earlier_chain_is_not_taken_by_a_later_one(void)
{
	unsigned p = fk_memory(KIB(256));

	fk_open();
	FK_DO(fk_write(p, 1, "a", KIB(128)), KIB(128));
	FK_CHAIN(fk_pause(3000000), fk_write(p, 2, "b", KIB(128)));
	FK_CHAIN(fk_write(p, 3, "c", KIB(128)));
	fk_wait();
	T_EQ(fk_done[2].result, KIB(128));
	T_EQ(fk_done[3].result, -ENOSPC);
	T_OK(fk_done[3].start_ns >= fk_done[2].start_ns);
	fk_close();
}

/* ----------------------------------------------------------- buffers and ends */

static void a_small_object_does_not_wait_for_a_huge_one(void)
{
	unsigned p = fk_slab("slab", MIB(256));

	fk_open();
	FK_DO(fk_write(p, 1, "huge", MIB(128)), MIB(128));
	FK_DO(fk_write(p, 2, "small", KIB(64)), KIB(64));
	FK_CHAIN(fk_read(p, 1));
	FK_CHAIN(fk_read(p, 2));
	fk_wait();
	T_EQ(fk_done[2].result, MIB(128));
	T_EQ(fk_done[3].result, KIB(64));
	T_OK(fk_done[3].end_ns < fk_done[2].end_ns);
	fk_close();
}

/* How much had been read when the first object was complete? */
static void note_bytes(void *arg, const struct flow_done *d)
{
	uint64_t *bytes = arg;
	struct flow_stats st;

	flow_get_stats(fk_flow, &st);
	if (!*bytes)
		*bytes = st.bytes_read;
	fk_on_op(NULL, d);
}

static void a_hundred_large_objects_do_not_all_end_late(void)
{
	enum { NR = 100 };
	unsigned p = fk_slab("slab", NR * MIB(4));
	uint64_t bytes = 0;
	struct flow_handler handler = {note_bytes, NULL, &bytes};
	char name[16];

	fk_open();
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "o-%u", i);
		FK_CHAIN(fk_write(p, i, name, MIB(4)));
	}
	fk_wait();
	for (unsigned i = 0; i < NR; i++)
		FK_CHAIN(fk_read(p, i));
	while (flow_wait(fk_flow, UINT64_MAX, &handler) > 0)
		;
	T_OK(bytes && bytes < NR / 2 * MIB(4));
	fk_close();
}

static void a_chain_that_stops_on_errors_stops(void)
{
	unsigned p = fk_memory(MIB(1));
	struct flow_op ops[] = {fk_write(p, 1, "a", 100), fk_read(p, 2), fk_write(p, 3, "c", 100),
				fk_read(p, 1)};
	struct penstock_err err = {0, ""};

	fk_open();
	for (unsigned i = 0; i < T_COUNT(ops); i++)
		ops[i].tag = i;
	T_ERR(flow_start(fk_flow, ops, T_COUNT(ops), sizeof(struct flow_op), 0, true, &err), 0,
	      &err);
	fk_wait();
	T_EQ(fk_done[0].result, 100);
	T_EQ(fk_done[1].result, -ENOENT);
	T_EQ(fk_done[2].result, -ECANCELED);
	T_EQ(fk_done[3].result, -ECANCELED);
	T_EQ(place_objects(fk_place[p]), 1);
	T_EQ(place_used(fk_place[p]), KIB(64));
	fk_close();
}

static void abort_ends_every_chain(void)
{
	unsigned mem = fk_memory(KIB(128)), files = fk_files("raw", PLACE_RAW);
	unsigned cancelled = 0;
	char name[16];

	fk_open();
	flow_set_allocs(fk_flow, 1);
	for (unsigned i = 0; i < 30; i++) {
		struct flow_op w = fk_write(i % 2 ? mem : files, i, "x", KIB(64));

		snprintf(name, sizeof(name), "x-%u", i);
		w.name = name;
		w.name_len = (uint32_t)strlen(name);
		w.alloc_begin = true;
		FK_CHAIN(w, fk_read(i % 2 ? mem : files, i / 4), fk_pause(60000000000ull));
	}
	flow_wait(fk_flow, 0, NULL);
	flow_abort(fk_flow);
	fk_wait();
	T_EQ(fk_nr_chains, 30);
	T_EQ(fk_nr_done, 90);
	for (unsigned i = 0; i < fk_nr_done; i++)
		cancelled += fk_done[i].result == -ECANCELED;
	T_OK(cancelled >= 60);
	T_EQ(fk_done[89].begin_ns, 0);
	fk_close();
	T_EQ(fk_entries("raw"), -1);
}

static void abort_does_not_wait_for_huge_objects(void)
{
	unsigned files = fk_files("raw", PLACE_RAW), slab = fk_slab("slab", GIB(1));
	unsigned slow = fk_null(1000);
	struct flow_stats st;

	fk_open();
	FK_DO(fk_write(slab, 1, "read", MIB(256)), MIB(256));
	FK_CHAIN(fk_read(slab, 1));
	FK_CHAIN(fk_write(files, 2, "written", MIB(256)));
	FK_CHAIN(fk_write(slab, 3, "moved", KIB(100)), fk_move(slab, slow, 3, KIB(100)));
	FK_CHAIN(fk_write(slab, 4, "whole", KIB(100)));
	while (fk_nr_done < 3) { /* the small ones are through */
		static const struct flow_handler handler = {fk_on_op, NULL, NULL};

		flow_wait(fk_flow, clock_ns() + 100000, &handler);
	}
	flow_abort(fk_flow);
	fk_wait();
	if (fk_opts.verify) { /* null is through at once */
		T_EQ(fk_done[1].result, -ECANCELED);
		T_EQ(fk_done[2].result, -ECANCELED);
		T_EQ(fk_entries("raw"), 0);
		T_EQ(place_used(fk_place[files]), 0);
		flow_get_stats(fk_flow, &st);
		T_OK(st.bytes_read < MIB(256) && st.bytes_written < 2 * MIB(256));
	}
	T_EQ(fk_done[3].result, KIB(100));
	T_EQ(fk_done[4].result, -ECANCELED);
	T_OK(fk_done[1].begin_ns && fk_done[4].begin_ns);
	T_EQ(place_objects(fk_place[slab]), 2);
	fk_close();
}

static void a_flow_can_be_freed_in_the_middle(void)
{
	unsigned p = fk_files("raw", PLACE_RAW), s = fk_slab("slab", MIB(64));
	char name[16];

	fk_open();
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "x-%u", i);
		FK_CHAIN(fk_write(i % 2 ? p : s, i, name, MIB(1)),
			 fk_move(i % 2 ? p : s, p, i, MIB(1)), fk_read(p, i));
	}
	flow_wait(fk_flow, 0, NULL);
	fk_close();
	T_EQ(fk_entries("raw"), -1);
}

static void bad_chains_are_refused(void)
{
	unsigned p = fk_memory(MIB(1));
	struct flow_op good = fk_write(p, 1, "a", 10), bad[] = {good, good, good};
	struct penstock_err err = {0, ""};

	fk_open();
	T_EQ(flow_start(fk_flow, &good, 0, sizeof(struct flow_op), 0, false, &err), -EINVAL);
	bad[0].type = 9;
	bad[1].place = 3;
	bad[2].name_len = 1 << 20;
	for (unsigned i = 0; i < T_COUNT(bad); i++) {
		struct flow_op two[] = {good, bad[i]};

		T_OK(flow_start(fk_flow, two, 2, sizeof(struct flow_op), 0, false, &err) < 0);
		T_OK(err.msg[0]);
	}
	T_EQ(flow_wait(fk_flow, UINT64_MAX, NULL), 0);
	T_EQ(place_objects(fk_place[p]), 0);
	fk_close();
}

static void bad_flows_are_refused(void)
{
	struct flow_opts good = fk_opts, bad[] = {good, good, good, good};
	struct penstock_err err;
	struct flow *f;

	bad[0].nr_places = 9;
	bad[1].chunk = 5000;
	bad[2].verify = true;
	bad[2].fill = false;
	bad[3].io.engine = "none";
	for (unsigned i = 0; i < T_COUNT(bad); i++) {
		memset(&err, 0, sizeof(err));
		T_OK(flow_new(&f, &bad[i], &err) < 0);
		T_OK(err.msg[0]);
	}
}

/* Each chain that ends starts another one, and none takes any time. */
static void start_again(void *arg, const struct flow_done *d)
{
	struct flow_op op = fk_write(0, d->size + 1, "again", d->size + 1);
	unsigned *left = arg;

	if (*left && --*left)
		flow_start(fk_flow, &op, 1, sizeof(struct flow_op), 0, false, NULL);
}

static void a_flow_returns_though_there_is_always_something_to_do(void)
{
	unsigned left = 1000, returns = 0;
	struct flow_handler handler = {start_again, NULL, &left};

	fk_null(0);
	fk_open();
	FK_CHAIN(fk_write(0, 1, "first", 1));
	while (flow_wait(fk_flow, UINT64_MAX, &handler) > 0)
		returns++;
	T_EQ(left, 0);
	T_EQ(returns, 999);
	fk_close();
}

static const struct t_case cases[] = {
	T_CASE(operations_on_an_object_happen_in_the_order_of_their_chains),
	T_CASE(reads_of_one_object_run_beside_each_other),
	T_CASE(names_may_repeat),
	T_CASE(no_more_allocations_at_once_than_permits),
	T_CASE(permits_and_objects_do_not_wait_for_each_other),
	T_CASE(a_place_as_large_as_its_account_never_overflows),
	T_CASE(what_does_not_fit_is_an_error_and_nothing_hangs),
	T_CASE(a_folder_takes_more_than_its_capacity_when_nothing_is_left_to_wait_for),
	T_CASE(a_move_into_a_full_place_drops_the_object),
	T_CASE(the_room_of_an_earlier_chain_is_not_taken_by_a_later_one),
	T_CASE(a_small_object_does_not_wait_for_a_huge_one),
	T_CASE(a_hundred_large_objects_do_not_all_end_late),
	T_CASE(a_chain_that_stops_on_errors_stops),
	T_CASE(abort_ends_every_chain),
	T_CASE(abort_does_not_wait_for_huge_objects),
	T_CASE(a_flow_can_be_freed_in_the_middle),
	T_CASE(bad_chains_are_refused),
	T_CASE(bad_flows_are_refused),
	T_CASE(a_flow_returns_though_there_is_always_something_to_do),
};

const struct t_group fk_orders = {"orders", fk_setup, fk_teardown, cases, T_COUNT(cases)};
