/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of objects: read, overwritten, and in which order. */
#include <fcntl.h>

#include "base/random.h"
#include "base/util.h"
#include "load/object/place.h"
#include "tests/common/flowkit.h"

#define SIZE (MIB(3) + 777)

static const uint64_t spots[][2] = {{0, 1},
				    {0, 4096},
				    {4096, 4096},
				    {512, 512},
				    {1, 63},
				    {63, 2},
				    {64, 100},
				    {5000, 10},
				    {0, KIB(64)},
				    {KIB(60), KIB(64)},
				    {100, KIB(64)},
				    {MIB(1) - 1, 2},
				    {MIB(1), 4096},
				    {KIB(700), MIB(1)},
				    {3, MIB(3)},
				    {MIB(2), MIB(1)},
				    {MIB(3) + 700, 77},
				    {0, SIZE}};

static unsigned open_all(void)
{
	fk_files("npy", PLACE_NPY);
	fk_slab("slab", MIB(16));
	fk_add((struct place_opts){.kind = PLACE_SLAB, .capacity = MIB(16), .unit = 4096}, "small");
	fk_memory(MIB(16));
	fk_null(0);
	fk_open();
	return fk_opts.nr_places;
}

static struct flow_op patch(unsigned place, uint64_t object, uint64_t offset, uint64_t len)
{
	return fk_range(
		(struct flow_op){.type = FLOW_WRITE, .place = (uint8_t)place, .object = object},
		offset, len);
}

static void any_range_is_read_and_written(void)
{
	unsigned places = open_all();

	for (unsigned p = 0; p < places; p++) {
		FK_DO(patch(p, 1, 0, 10), -ENOENT);
		FK_DO(fk_range(fk_read(p, 1), 0, 10), -ENOENT);
		FK_DO(fk_write(p, 1, "ranged", SIZE), SIZE);
		for (unsigned i = 0; i < T_COUNT(spots); i++) {
			FK_DO(fk_range(fk_read(p, 1), spots[i][0], spots[i][1]), spots[i][1]);
			FK_DO(patch(p, 1, spots[i][0], spots[i][1]), spots[i][1]);
			T_EQ(fk_done[fk_nr_done - 1].type, FLOW_WRITE);
			T_EQ(fk_done[fk_nr_done - 1].size, spots[i][1]);
		}
		FK_DO(fk_read(p, 1), SIZE);
		/* cut where the object ends */
		FK_DO(fk_range(fk_read(p, 1), SIZE - 10, 100), 10);
		FK_DO(patch(p, 1, SIZE - 10, 100), 10);
		FK_DO(fk_range(fk_read(p, 1), SIZE, 100), 0);
		FK_DO(patch(p, 1, SIZE + 5, 100), 0);
		T_EQ(place_objects(fk_place[p]), 1);
		FK_DO(fk_delete(p, 1), 0);
		T_EQ(place_used(fk_place[p]), 0);
	}
	fk_close();
}

/* Spoil a range on the disk: writing it makes it right, and only that. */
static void check_repair(unsigned place, const char *file, uint64_t base, uint64_t from,
			 uint64_t len)
{
	char *junk = malloc(len + 2);
	int fd = open(t_path(file), O_RDWR | O_CLOEXEC);

	T_OK(fd >= 0 && junk);
	T_EQ(pread(fd, junk, len, (off_t)(base + from)), len);
	for (uint64_t i = 0; i < len; i++)
		junk[i] = (char)~junk[i];
	T_EQ(pwrite(fd, junk, len, (off_t)(base + from)), len);
	fsync(fd);
	close(fd);
	free(junk);
	FK_DO(fk_range(fk_read(place, 1), from, len), -EBADMSG);
	if (from > 0)
		FK_DO(fk_range(fk_read(place, 1), 0, from), from);
	if (len > 1) {
		FK_DO(patch(place, 1, from, len - 1), len - 1);
		FK_DO(fk_read(place, 1), -EBADMSG); /* the last byte is wrong still */
	}
	FK_DO(patch(place, 1, from, len), len);
	FK_DO(fk_read(place, 1), SIZE);
}

static void a_range_that_is_written_is_right_afterwards(void)
{
	unsigned files, slab;

	if (!fk_opts.verify)
		return;
	files = fk_files("raw", PLACE_RAW);
	slab = fk_slab("slab", MIB(8));
	fk_open();
	FK_DO(fk_write(files, 1, "ranged", SIZE), SIZE);
	for (unsigned i = 0; i < T_COUNT(spots); i++)
		check_repair(files, "raw/ranged", 0, spots[i][0], spots[i][1]);
	FK_DO(fk_move(files, slab, 1, SIZE), SIZE);
	for (unsigned i = 0; i < T_COUNT(spots); i++)
		check_repair(slab, "slab", SLAB_HEAD, spots[i][0], spots[i][1]);
	fk_close();
}

static void ranges_wait_for_each_other_only_where_they_overlap(void)
{
	unsigned p = fk_null(1e9);

	fk_open();
	FK_DO(fk_write(p, 1, "x", MIB(64)), MIB(64));
	FK_CHAIN(patch(p, 1, 0, MIB(2)));                  /* 1 */
	FK_CHAIN(patch(p, 1, MIB(2), MIB(2)));             /* 2: beside 1 */
	FK_CHAIN(fk_range(fk_read(p, 1), MIB(1), MIB(2))); /* 3: after both */
	FK_CHAIN(fk_range(fk_read(p, 1), MIB(8), MIB(2))); /* 4: beside all */
	FK_CHAIN(fk_read(p, 1));                           /* 5: after 1 and 2 */
	FK_CHAIN(patch(p, 1, MIB(30), MIB(1)));            /* 6: after 5 */
	FK_CHAIN(fk_move(p, p, 1, MIB(64)));               /* 7: after all */
	FK_CHAIN(fk_range(fk_read(p, 1), MIB(8), MIB(2))); /* 8: after 7 */
	fk_wait();
	for (unsigned i = 1; i <= 8; i++)
		T_OK(fk_done[i].result > 0);
	T_OK(fk_done[2].start_ns < fk_done[1].end_ns);
	T_OK(fk_done[3].start_ns >= fk_done[1].end_ns && fk_done[3].start_ns >= fk_done[2].end_ns);
	T_OK(fk_done[4].start_ns < fk_done[1].end_ns);
	T_OK(fk_done[5].start_ns >= fk_done[2].end_ns && fk_done[6].start_ns >= fk_done[5].end_ns);
	for (unsigned i = 1; i < 7; i++)
		T_OK(fk_done[7].start_ns >= fk_done[i].end_ns);
	T_OK(fk_done[8].start_ns >= fk_done[7].end_ns);
	fk_close();
}

/* ------------------------------------------------------------------- at random */

enum { NR = 800, OBJECTS = 3 };

struct drawn {
	unsigned object;
	bool reads;
	uint64_t from, to;
};

static struct flow_op draw(struct penstock_random *random, struct drawn *d)
{
	uint64_t len = 1 + penstock_random_below(random, penstock_random_below(random, 4) ? KIB(16)
											  : MIB(2));
	unsigned what = (unsigned)penstock_random_below(random, 20);

	d->object = (unsigned)penstock_random_below(random, OBJECTS);
	d->from = penstock_random_below(random, SIZE);
	d->to = min_u64(SIZE, d->from + len);
	d->reads = what > 9;
	if (what > 17 || what == 0) { /* all of it */
		d->from = 0;
		d->to = SIZE;
		return d->reads ? fk_read(d->object % 2, d->object)
				: fk_move(d->object % 2, d->object % 2, d->object, SIZE);
	}
	return d->reads ? fk_range(fk_read(d->object % 2, d->object), d->from, len)
			: patch(d->object % 2, d->object, d->from, len);
}

static void at_random_nothing_runs_beside_what_it_must_not(void)
{
	static struct drawn drawn[NR];
	struct penstock_random random;

	penstock_random_seed(&random, t_seed());
	fk_files("raw", PLACE_RAW);
	fk_slab("slab", MIB(64));
	fk_open();
	for (unsigned i = 0; i < OBJECTS; i++)
		FK_DO(fk_write(i % 2, i, i ? i > 1 ? "two" : "one" : "zero", SIZE), SIZE);
	for (unsigned i = 0; i < NR; i++) {
		struct flow_op op = draw(&random, &drawn[i]);

		T_EQ(fk_start(&op, 1), OBJECTS + i);
	}
	fk_wait();
	for (unsigned i = 0; i < NR; i++) {
		const struct flow_done *a = &fk_done[OBJECTS + i];

		T_EQ(a->result, drawn[i].to - drawn[i].from);
		for (unsigned k = i + 1; k < NR; k++)
			if (drawn[i].object == drawn[k].object &&
			    !(drawn[i].reads && drawn[k].reads) && drawn[i].from < drawn[k].to &&
			    drawn[k].from < drawn[i].to)
				T_OK(fk_done[OBJECTS + k].start_ns >= a->end_ns);
	}
	for (unsigned i = 0; i < OBJECTS; i++)
		FK_DO(fk_read(i % 2, i), SIZE);
	fk_close();
}

static const struct t_case cases[] = {
	T_CASE(any_range_is_read_and_written),
	T_CASE(a_range_that_is_written_is_right_afterwards),
	T_CASE(ranges_wait_for_each_other_only_where_they_overlap),
	T_CASE(at_random_nothing_runs_beside_what_it_must_not),
};

const struct t_group fk_ranges = {"ranges", fk_setup, fk_teardown, cases, T_COUNT(cases)};
