/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of all sizes come back as they were written, from every place to every other. */
#include <sched.h>

#include "base/util.h"
#include "load/object/flow_internal.h"
#include "tests/common/flowkit.h"

static const uint64_t sizes[] = {0,           1,        100,    4096,       5000,       KIB(64),
				 KIB(64) + 1, KIB(300), MIB(1), MIB(1) + 7, MIB(5) - 3, MIB(9)};

enum { FILES, RAW, SLAB, MEMORY, SMALL_UNITS, EMPTY, DEVICE };

static unsigned kinds;

static void open_all(void)
{
	fk_files("npy", PLACE_NPY);
	fk_files("raw", PLACE_RAW);
	fk_slab("slab", MIB(64));
	fk_memory(MIB(64));
	fk_add((struct place_opts){.kind = PLACE_SLAB, .capacity = MIB(64), .unit = 4096}, "small");
	fk_null(0);
	if (fk_gpu)
		fk_device(MIB(64));
	kinds = fk_opts.nr_places;
	fk_open();
}

static void what_was_written_is_read_and_deleted(void)
{
	open_all();
	for (unsigned p = 0; p < kinds; p++)
		for (unsigned i = 0; i < T_COUNT(sizes); i++) {
			FK_DO(fk_write(p, 7, "an-object", sizes[i]), sizes[i]);
			T_EQ(place_objects(fk_place[p]), 1);
			T_OK(place_used(fk_place[p]) >= sizes[i]);
			FK_DO(fk_read(p, 7), sizes[i]);
			FK_DO(fk_delete(p, 7), 0);
			T_EQ(place_objects(fk_place[p]), 0);
			T_EQ(place_used(fk_place[p]), 0);
			FK_DO(fk_read(p, 7), -ENOENT);
		}
	T_EQ(fk_entries("npy"), 0);
	fk_close();
	T_EQ(fk_entries("npy"), -1);
	T_EQ(t_file_size(t_path("slab")), -ENOENT);
}

static void what_is_moved_is_the_same_elsewhere(void)
{
	open_all();
	for (unsigned from = 0; from < kinds; from++)
		for (unsigned to = 0; to < kinds; to++)
			for (unsigned i = 0; i < T_COUNT(sizes); i++) {
				uint64_t n = sizes[i];

				FK_DO(fk_write(from, 3, "moved", n), n);
				FK_DO(fk_move(from, to, 3, n), n);
				T_EQ(place_objects(fk_place[to]), 1);
				FK_DO(fk_read(to, 3), n);
				FK_DO(fk_delete(to, 3), 0);
				T_EQ(place_used(fk_place[from]) + place_used(fk_place[to]), 0);
			}
	fk_close();
}

static void a_move_goes_by_the_size_of_the_object(void)
{
	open_all();
	FK_DO(fk_write(SLAB, 3, "moved", MIB(3)), MIB(3));
	FK_DO(fk_move(SLAB, MEMORY, 3, 100), MIB(3));
	FK_DO(fk_read(MEMORY, 3), MIB(3));
	T_EQ(place_used(fk_place[MEMORY]), MIB(3));
	FK_DO(fk_move(MEMORY, SLAB, 3, MIB(60)), MIB(3));
	FK_DO(fk_write(SLAB, 4, "rest", MIB(61)), MIB(61)); /* nothing was lost */
	fk_close();
}

static void a_write_replaces_what_was_there(void)
{
	open_all();
	for (unsigned from = 0; from < kinds; from++)
		for (unsigned to = 0; to < kinds; to++) {
			FK_DO(fk_write(from, 1, "first", MIB(2)), MIB(2));
			FK_DO(fk_write(to, 1, "second", KIB(100)), KIB(100));
			FK_DO(fk_read(to, 1), KIB(100));
			T_EQ(place_objects(fk_place[from]), from == to);
			FK_DO(fk_delete(to, 1), 0);
		}
	T_EQ(fk_entries("npy"), 0);
	T_EQ(fk_entries("raw"), 0);
	fk_close();
}

static void many_at_once_share_the_buffers(void)
{
	enum { NR = 200 };
	char name[32];

	open_all();
	for (unsigned i = 0; i < NR; i++) {
		unsigned p = i % EMPTY;
		uint64_t size = i % 40 ? KIB(4 + i % 90) : MIB(4);

		snprintf(name, sizeof(name), "object-%u", i);
		FK_CHAIN(fk_write(p, i, name, size), fk_read(p, i),
			 fk_move(p, (i / 7) % kinds, i, size), fk_read((i / 7) % kinds, i),
			 fk_delete((i / 7) % kinds, i));
	}
	fk_wait();
	for (unsigned i = 0; i < fk_nr_done; i++)
		if (fk_done[i].result < 0)
			T_FAIL("%u: %s", i, fk_done[i].error);
	T_EQ(fk_nr_done, 5 * NR);
	T_EQ(fk_nr_chains, NR);
	for (unsigned p = 0; p < kinds; p++)
		T_EQ(place_used(fk_place[p]), 0);
	fk_close();
}

static void times_add_up(void)
{
	struct flow_done *d = fk_done;

	open_all();
	FK_DO(fk_write(FILES, 1, "timed", MIB(9)), MIB(9));
	FK_DO(fk_read(FILES, 1), MIB(9));
	FK_DO(fk_move(FILES, SLAB, 1, MIB(9)), MIB(9));
	FK_DO(fk_move(SLAB, MEMORY, 1, MIB(9)), MIB(9));
	FK_DO(fk_move(MEMORY, RAW, 1, MIB(9)), MIB(9));
	for (unsigned i = 0; i < 5; i++) {
		T_OK(d[i].begin_ns <= d[i].start_ns && d[i].start_ns <= d[i].end_ns);
		T_OK(d[i].device_ns > 0 && d[i].device_ns <= d[i].end_ns - d[i].start_ns);
	}
	T_OK(d[2].read_ns > 0 && d[2].write_ns > 0);
	T_OK(d[2].read_device_ns > 0 && d[2].write_device_ns > 0);
	T_OK(d[2].read_device_ns + d[2].write_device_ns >= d[2].device_ns);
	T_OK(d[3].read_ns > 0 && d[3].write_ns == 0);
	T_OK(d[4].read_ns == 0 && d[4].write_ns > 0);
	fk_close();
}

static void a_null_place_takes_the_time_of_its_bandwidth(void)
{
	unsigned p = fk_null(100e6);

	fk_open();
	FK_CHAIN(fk_write(p, 1, "a", 1000000));
	FK_CHAIN(fk_write(p, 2, "b", 1000000));
	fk_wait();
	/* one after the other: 10 ms each */
	T_EQ(fk_done[0].device_ns, 10000000);
	T_EQ(fk_done[1].device_ns, 10000000);
	T_OK(fk_done[1].end_ns - fk_done[1].start_ns >= 20000000);
	fk_close();
}

static void a_pause_lasts_at_least_as_long(void)
{
	unsigned p = fk_memory(MIB(1));

	fk_open();
	FK_CHAIN(fk_write(p, 1, "a", 1000), fk_pause(3000000), fk_read(p, 1));
	fk_wait();
	T_EQ(fk_done[1].result, 0);
	T_OK(fk_done[2].begin_ns - fk_done[0].end_ns >= 3000000);
	fk_close();
}

static void moves_by_the_way_of_a_null_place_make_the_content_anew(void)
{
	open_all();
	FK_DO(fk_write(EMPTY, 1, "made-up", MIB(3)), MIB(3));
	FK_DO(fk_move(EMPTY, MEMORY, 1, MIB(3)), MIB(3));
	FK_DO(fk_read(MEMORY, 1), MIB(3));
	FK_DO(fk_move(MEMORY, EMPTY, 1, MIB(3)), MIB(3));
	FK_DO(fk_move(EMPTY, SLAB, 1, MIB(3)), MIB(3));
	FK_DO(fk_read(SLAB, 1), MIB(3));
	fk_close();
}

/* Whether the journal says so. */
static bool is_complete(void)
{
	FILE *f = fopen(t_path("files/" JOURNAL_NAME), "re");
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "=x ", 3);
	if (f)
		fclose(f);
	return found;
}

/* The flow's thread is needed to start the chunks, and no more before all is done. */
static void a_file_is_closed_without_the_thread_that_submits(void)
{
	static const struct flow_handler handler = {fk_on_op, NULL, NULL};
	uint64_t limit = clock_ns() + 120 * 1000000000ull;
	unsigned p = fk_add((struct place_opts){.kind = PLACE_FILES,
						.layout = PLACE_RAW,
						.durability = PENSTOCK_DURABLE_DATA},
			    "files");

	fk_open();
	FK_CHAIN(fk_write(p, 1, "x", MIB(1) + KIB(300)));
	while (!fk_flow->dev_ops && clock_ns() < limit)
		flow_wait(fk_flow, 1, &handler);
	T_EQ(fk_flow->dev_ops, 2);
	while (!is_complete() && clock_ns() < limit)
		sched_yield();
	T_OK(is_complete());
	T_EQ(fk_nr_done, 0);
	fk_wait();
	T_EQ(fk_done[0].result, MIB(1) + KIB(300));
	fk_close();
}

static const struct t_case cases[] = {
	T_CASE(what_was_written_is_read_and_deleted),
	T_CASE(what_is_moved_is_the_same_elsewhere),
	T_CASE(a_move_goes_by_the_size_of_the_object),
	T_CASE(a_write_replaces_what_was_there),
	T_CASE(many_at_once_share_the_buffers),
	T_CASE(times_add_up),
	T_CASE(a_null_place_takes_the_time_of_its_bandwidth),
	T_CASE(a_pause_lasts_at_least_as_long),
	T_CASE(moves_by_the_way_of_a_null_place_make_the_content_anew),
	T_CASE(a_file_is_closed_without_the_thread_that_submits),
};

const struct t_group fk_moves = {"moves", fk_setup, fk_teardown, cases, T_COUNT(cases)};
