/* SPDX-License-Identifier: Apache-2.0 */
/* A KV store as a place: what it has it gives, what it has not is a miss, and its files are its. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/flowkit.h"

static struct place_opts store_of(uint64_t capacity)
{
	return (struct place_opts){.kind = PLACE_STORE, .capacity = capacity, .engine = fk_engine};
}

/* The number follows from the key, as the flow wants it of a store. */
static struct flow_op keyed(struct flow_op op, const char *key)
{
	op.object = op.content = content_id(key, strlen(key));
	op.name = key;
	op.name_len = (uint32_t)strlen(key);
	return op;
}

static struct flow_op set(const char *key, uint64_t size)
{
	return keyed(fk_write(0, 0, key, size), key);
}

static struct flow_op get(const char *key)
{
	return keyed(fk_read(0, 0), key);
}

static struct flow_op drop(const char *key)
{
	return keyed(fk_delete(0, 0), key);
}

static struct flow_op get_or_set(const char *key, uint64_t size)
{
	struct flow_op op = get(key);

	op.size = size;
	op.set_missed = true;
	return op;
}

static void open_store(uint64_t capacity)
{
	fk_setup();
	fk_add(store_of(capacity), "store");
	fk_open();
}

static struct penstock_store_stats stats(void)
{
	struct penstock_store_stats s;

	T_OK(place_store_stats(fk_place[0], &s));
	return s;
}

/* One that misses: what it says, and that it is no failure of anybody's. */
static void misses(struct flow_op op, int64_t want)
{
	unsigned tag = FK_CHAIN(op);

	fk_wait();
	T_EQ(fk_done[tag].result, want);
	T_OK(fk_done[tag].missed);
}

static void what_was_set_comes_back_and_the_rest_is_a_miss(void)
{
	static const uint64_t sizes[] = {0, 1, 4096, 100000, MIB(1), MIB(1) + 1, MIB(5) - 3};
	struct flow_stats f;

	open_store(MIB(32));
	misses(get("a"), -ENOENT);
	misses(drop("a"), -ENOENT);
	for (unsigned i = 0; i < T_COUNT(sizes); i++) {
		FK_DO(set("a", sizes[i]), sizes[i]);
		FK_DO(get("a"), sizes[i]);
		T_EQ(place_objects(fk_place[0]), 1);
	}
	FK_DO(drop("a"), 0);
	misses(get("a"), -ENOENT);
	T_EQ(stats().hits, T_COUNT(sizes));
	T_EQ(stats().misses, 2);
	flow_get_stats(fk_flow, &f);
	T_EQ(f.bytes_written, stats().bytes_written);
	T_OK(f.verified > MIB(7));
	T_STR_HAS(f.io.engine, fk_engine);
	fk_close();
}

static void what_is_missing_is_set_on_request(void)
{
	unsigned tag;

	open_store(MIB(32));
	misses(get_or_set("a", 300000), 300000);
	FK_DO(get("a"), 300000);
	tag = FK_CHAIN(get_or_set("a", 300000));
	fk_wait();
	T_OK(!fk_done[tag].missed);
	/* more than the store can ever have */
	misses(set("b", MIB(40)), -ENOSPC);
	misses(get_or_set("b", MIB(40)), -ENOSPC);
	misses(get("b"), -ENOENT);
	fk_close();
}

static void operations_on_a_key_keep_their_order(void)
{
	unsigned tag = 0;

	open_store(MIB(32));
	for (unsigned i = 0; i < 50; i++) {
		uint64_t size = 1000 * (i + 1);

		tag = FK_CHAIN(set("a", size));
		FK_CHAIN(get("a"));
		FK_CHAIN(drop("a"));
		FK_CHAIN(get("a"));
	}
	fk_wait();
	for (unsigned i = 0; i < 50; i++) {
		const struct flow_done *d = &fk_done[4 * i];

		T_EQ(d[0].result, 1000 * (i + 1));
		T_EQ(d[1].result, 1000 * (i + 1));
		T_EQ(d[2].result, 0);
		T_OK(d[3].missed);
	}
	T_EQ(tag, 196);
	fk_close();
}

static void a_store_that_is_full_misses_and_never_errs(void)
{
	unsigned hits = 0, tag[100];
	char key[16];

	open_store(MIB(4));
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "key-%u", i);
		FK_CHAIN(set(key, 200000));
	}
	fk_wait();
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "key-%u", i);
		tag[i] = FK_CHAIN(get(key));
	}
	fk_wait();
	for (unsigned i = 0; i < 100; i++) {
		const struct flow_done *d = &fk_done[tag[i]];

		T_EQ(d->result, d->missed ? -ENOENT : 200000);
		hits += !d->missed;
	}
	T_OK(hits > 5 && hits < 25);
	T_EQ(stats().hits, hits);
	T_OK(stats().evictions + stats().sets_no_space >= 75);
	fk_close();
}

/* 300 values of a MiB at once, on 256 boards. */
static void more_than_there_is_memory_for_wait_their_turn(void)
{
	char key[16];

	open_store(MIB(32));
	for (unsigned i = 0; i < 4; i++) {
		snprintf(key, sizeof(key), "key-%u", i);
		FK_DO(set(key, MIB(1)), MIB(1));
	}
	for (unsigned i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "key-%u", i % 4);
		FK_CHAIN(get(key));
	}
	fk_wait();
	for (unsigned i = 4; i < 304; i++)
		T_EQ(fk_done[i].result, MIB(1));
	/* those that wait when all is over have never begun */
	for (unsigned i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "key-%u", i % 4);
		FK_CHAIN(get(key));
	}
	flow_wait(fk_flow, 0, NULL);
	flow_abort(fk_flow);
	fk_wait();
	fk_close();
}

static void memory_is_moved_into_it(void)
{
	unsigned tag;

	fk_setup();
	fk_add(store_of(MIB(32)), "store");
	fk_memory(MIB(16));
	fk_open();
	FK_DO(keyed(fk_write(1, 0, "m", MIB(3) + 5), "m"), MIB(3) + 5);
	FK_DO(keyed(fk_move(1, 0, 0, MIB(3) + 5), "m"), MIB(3) + 5);
	T_EQ(place_objects(fk_place[1]), 0);
	T_EQ(place_used(fk_place[1]), 0);
	FK_DO(get("m"), MIB(3) + 5);
	/* back into memory under the same number, then one that the store does not take */
	FK_DO(keyed(fk_write(1, 0, "m", 5000), "m"), 5000);
	FK_DO(keyed(fk_move(1, 0, 0, 5000), "m"), 5000);
	FK_DO(get("m"), 5000);
	fk_close();
	fk_setup();
	fk_add(store_of(MIB(1)), "store");
	fk_memory(MIB(16));
	fk_open();
	FK_DO(keyed(fk_write(1, 0, "m", MIB(3)), "m"), MIB(3));
	tag = FK_CHAIN(keyed(fk_move(1, 0, 0, MIB(3)), "m"));
	fk_wait();
	T_OK(fk_done[tag].missed && fk_done[tag].result == -ENOSPC);
	T_EQ(place_used(fk_place[1]), 0);
	fk_close();
}

static void what_a_store_cannot_do_is_refused(void)
{
	struct penstock_err err = {0, ""};
	struct flow_op op;

	fk_setup();
	fk_add(store_of(MIB(4)), "store");
	fk_memory(MIB(1));
	fk_open();
	op = keyed(fk_move(0, 1, 0, 1), "a");
	T_EQ(flow_start(fk_flow, &op, 1, sizeof(op), 0, false, &err), -EINVAL);
	T_STR_HAS(err.msg, "whole values");
	op = fk_range(get("a"), 0, 10);
	T_EQ(flow_start(fk_flow, &op, 1, sizeof(op), 0, false, &err), -EINVAL);
	fk_close();
}

/* ------------------------------------------------------------------ whose files */

static bool there(const char *name)
{
	return access(t_path(name), F_OK) == 0;
}

static int try_open(struct place_opts o, const char *name, struct penstock_err *err)
{
	const char *path = t_path(name);
	struct place *p = NULL;
	int r;

	o.paths = &path;
	o.nr_paths = 1;
	r = place_check(&o, err);
	T_EQ(place_open(&p, &o, r < 0 ? NULL : err), r); /* both say the same */
	T_EQ(place_close(p, NULL), 0);
	return r;
}

static void what_was_made_goes_and_what_was_there_stays(void)
{
	struct penstock_err err = {0, ""};
	struct place_opts o = store_of(MIB(8));

	open_store(MIB(8));
	T_OK(there("store"));
	fk_close();
	T_OK(!there("store"));
	T_EQ(mkdir(t_path("store"), 0700), 0); /* the user's, and empty */
	open_store(MIB(8));
	FK_DO(set("a", 5000), 5000);
	fk_close();
	T_OK(there("store"));
	T_EQ(fk_entries("store"), 0);
	fk_setup();
	o.keep = true;
	fk_add(o, "store");
	fk_open();
	FK_DO(set("a", 5000), 5000);
	fk_close();
	o.keep = false;
	T_EQ(try_open(o, "store", &err), -EEXIST);
	T_STR_HAS(err.msg, "holds a store already, which 'penstock store drop' removes");
	o.reuse = true;
	fk_setup();
	fk_add(o, "store");
	fk_open();
	FK_DO(get("a"), 5000);
	fk_close();
	T_EQ(try_open(o, "store", &err), 0); /* it stays, whoever looked */
	o.reuse = false;
	o.replace = true;
	T_EQ(try_open(o, "store", &err), 0);
	T_EQ(fk_entries("store"), 0);
	T_EQ(rmdir(t_path("store")), 0);
}

static void other_files_are_left_alone(void)
{
	struct place_opts o = store_of(UINT64_MAX / 2);
	struct penstock_err err = {0, ""};
	const char *path = t_path("new");

	T_EQ(mkdir(t_path("store"), 0700), 0);
	T_EQ(mkdir(t_path("store/mine"), 0700), 0);
	T_EQ(try_open(store_of(MIB(8)), "store", &err), -EEXIST);
	T_STR_HAS(err.msg, "holds mine");
	o.paths = &path;
	o.nr_paths = 1;
	T_EQ(place_check(&o, &err), -ENOSPC);
	T_OK(!there("new"));
	T_EQ(rmdir(t_path("store/mine")), 0);
	T_EQ(rmdir(t_path("store")), 0);
}

static const struct t_case cases[] = {
	T_CASE(what_was_set_comes_back_and_the_rest_is_a_miss),
	T_CASE(what_is_missing_is_set_on_request),
	T_CASE(operations_on_a_key_keep_their_order),
	T_CASE(a_store_that_is_full_misses_and_never_errs),
	T_CASE(more_than_there_is_memory_for_wait_their_turn),
	T_CASE(memory_is_moved_into_it),
	T_CASE(what_a_store_cannot_do_is_refused),
	T_CASE(what_was_made_goes_and_what_was_there_stays),
	T_CASE(other_files_are_left_alone),
};

int main(void)
{
	static const struct t_group group = {"flow_store", fk_setup, fk_teardown, cases,
					     T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
