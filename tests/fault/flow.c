/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects on storage that fails, fills up, loses files and changes bytes:
 *
 *	flow ENGINE [BADFS]
 *
 * where BADFS is the program of badfs.c.  Whatever happens is the result of the operation it
 * happened to; nothing half is left, and no space is lost.
 */
#include <fcntl.h>
#include <sys/statvfs.h>

#include "base/random.h"
#include "load/object/place.h"
#include "tests/common/flowkit.h"
#include "tests/common/mounts.h"

static uint64_t room(void)
{
	struct statvfs st;

	T_EQ(statvfs(t_path("mnt"), &st), 0);
	return (uint64_t)st.f_bavail * st.f_frsize;
}

/* -------------------------------------------------------------------- full */

static void setup_full(void)
{
	int r = mounts_image("mnt", "ext4", MIB(48));

	if (r < 0) {
		t_skip("ext4", "no ext4 here: %s", strerror(-r));
		return;
	}
	fk_setup();
}

static void teardown_full(void)
{
	fk_teardown();
	mounts_end("mnt");
}

static void a_write_without_room_fails_and_leaves_nothing(void)
{
	unsigned p = fk_files("mnt/files", PLACE_NPY);
	uint64_t before = room(), large = before / 3 * 2;

	fk_open();
	FK_DO(fk_write(p, 1, "first", large), large);
	FK_DO(fk_write(p, 2, "second", large), -ENOSPC);
	T_STR_HAS(fk_error(), "second");
	T_EQ(fk_entries("mnt/files"), 1);
	T_EQ(place_objects(fk_place[p]), 1);
	FK_DO(fk_read(p, 2), -ENOENT);
	FK_DO(fk_read(p, 1), large);
	FK_DO(fk_delete(p, 1), 0);
	FK_DO(fk_write(p, 2, "second", large), large);
	FK_DO(fk_read(p, 2), large);
	fk_close();
	T_EQ(fk_entries("mnt"), 1); /* lost+found */
	T_OK(room() + KIB(256) >= before);
}

static void a_demotion_without_room_fails_and_drops_the_object(void)
{
	unsigned mem = fk_memory(MIB(64)), p = fk_files("mnt/files", PLACE_RAW);
	uint64_t large = room() / 3 * 2;

	fk_open();
	FK_DO(fk_write(mem, 1, "first", large), large);
	FK_DO(fk_move(mem, p, 1, large), large);
	FK_DO(fk_write(mem, 2, "second", large), large);
	FK_DO(fk_move(mem, p, 2, large), -ENOSPC);
	T_STR_HAS(fk_error(), "second");
	T_EQ(fk_entries("mnt/files"), 1);
	T_EQ(place_used(fk_place[mem]), 0);
	FK_DO(fk_read(mem, 2), -ENOENT);
	FK_DO(fk_read(p, 1), large);
	fk_close();
}

static void many_that_do_not_all_fit_fail_each_for_itself(void)
{
	enum { NR = 60 };
	unsigned p = fk_files("mnt/files", PLACE_NPY), failed = 0;
	char name[16];

	fk_open();
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "o-%u", i);
		FK_CHAIN(fk_write(p, i, name, MIB(1)));
	}
	fk_wait();
	for (unsigned i = 0; i < NR; i++) {
		if (fk_done[i].result == -ENOSPC)
			failed++;
		else
			T_EQ(fk_done[i].result, MIB(1));
	}
	T_OK(failed > 0 && failed < NR);
	T_EQ(fk_entries("mnt/files"), NR - failed);
	T_EQ(place_objects(fk_place[p]), NR - failed);
	fk_close();
}

static void a_slab_that_does_not_fit_is_refused_and_leaves_nothing(void)
{
	const char *path = t_path("mnt/slab");
	struct place_opts o = {
		.kind = PLACE_SLAB, .capacity = MIB(100), .paths = &path, .nr_paths = 1};
	struct penstock_err err = {0, ""};
	uint64_t before = room();
	struct place *p;

	T_EQ(place_check(&o, &err), -ENOSPC);
	T_EQ(place_open(&p, &o, &err), -ENOSPC);
	T_STR_HAS(err.msg, "mnt/slab");
	T_EQ(fk_entries("mnt"), 1);
	T_OK(room() + KIB(64) >= before);
}

static const struct t_case full_cases[] = {
	T_CASE(a_write_without_room_fails_and_leaves_nothing),
	T_CASE(a_demotion_without_room_fails_and_drops_the_object),
	T_CASE(many_that_do_not_all_fit_fail_each_for_itself),
	T_CASE(a_slab_that_does_not_fit_is_refused_and_leaves_nothing),
};

/* -------------------------------------------- files that vanish and change */

static void spoil(const char *name, uint64_t at)
{
	int fd = open(t_path(name), O_RDWR | O_CLOEXEC);
	unsigned char byte;

	T_OK(fd >= 0);
	T_EQ(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x40;
	T_EQ(pwrite(fd, &byte, 1, (off_t)at), 1);
	fsync(fd);
	close(fd);
}

static void a_file_that_vanished_is_the_error_of_who_wants_it(void)
{
	unsigned p = fk_files("files", PLACE_RAW), mem = fk_memory(MIB(4));

	fk_open();
	for (unsigned i = 0; i < 4; i++) {
		char name[8] = {'v', (char)('0' + i)};

		FK_DO(fk_write(p, i, name, 100000), 100000);
		unlink(t_path(i == 0   ? "files/v0"
			      : i == 1 ? "files/v1"
			      : i == 2 ? "files/v2"
				       : "files/none"));
	}
	FK_DO(fk_read(p, 0), -ENOENT);
	T_STR_HAS(fk_error(), "files/v0");
	FK_DO(fk_move(p, mem, 1, 100000), -ENOENT);
	T_STR_HAS(fk_error(), "files/v1");
	FK_DO(fk_delete(p, 2), -ENOENT);
	T_STR_HAS(fk_error(), "files/v2");
	FK_DO(fk_read(p, 3), 100000);
	FK_DO(fk_write(p, 0, "v0", 5000), 5000); /* and it can be written again */
	FK_DO(fk_read(p, 0), 5000);
	FK_DO(fk_delete(p, 0), 0);
	T_EQ(place_used(fk_place[mem]), 0);
	T_EQ(place_objects(fk_place[p]), 1);
	fk_close();
}

static void a_file_that_got_shorter_is_an_error(void)
{
	unsigned p = fk_files("files", PLACE_NPY);

	fk_open();
	FK_DO(fk_write(p, 1, "cut", MIB(3)), MIB(3));
	T_EQ(truncate(t_path("files/cut.npy"), (off_t)MIB(2)), 0);
	FK_DO(fk_read(p, 1), -ENODATA);
	T_STR_HAS(fk_error(), "cut");
	fk_close();
}

static void a_changed_byte_is_found_and_named(void)
{
	static const uint64_t at[] = {0,         15, 16, 63, 64, 4095, 4096, 70000, MIB(2) + 12345,
				      MIB(3) - 1};
	unsigned npy = fk_files("npy", PLACE_NPY), slab = fk_slab("slab", MIB(8));
	char want[64];

	fk_open();
	for (unsigned i = 0; i < T_COUNT(at); i++) {
		snprintf(want, sizeof(want), "offset %llu ", (unsigned long long)at[i]);
		FK_DO(fk_write(npy, 1, "watched", MIB(3)), MIB(3));
		FK_DO(fk_read(npy, 1), MIB(3));
		spoil("npy/watched.npy", PLACE_HEADER + at[i]);
		FK_DO(fk_read(npy, 1), -EBADMSG);
		T_STR_HAS(fk_error(), "watched");
		T_STR_HAS(fk_error(), want);
	}
	FK_DO(fk_write(slab, 2, "other", MIB(3)), MIB(3));
	spoil("slab", SLAB_HEAD + 5000);
	FK_DO(fk_read(slab, 2), -EBADMSG);
	T_STR_HAS(fk_error(), "other: offset 5000 ");
	fk_close();
}

static void blocks_that_changed_places_are_found(void)
{
	unsigned p = fk_files("raw", PLACE_RAW);
	char a[4096], b[4096];
	int fd;

	fk_open();
	FK_DO(fk_write(p, 1, "x", MIB(3)), MIB(3));
	fd = open(t_path("raw/x"), O_RDWR | O_CLOEXEC);
	T_OK(fd >= 0);
	/* the noise is the same there: only the stamps tell */
	T_EQ(pread(fd, a, 4096, 8192), 4096);
	T_EQ(pread(fd, b, 4096, (off_t)MIB(1) + 8192), 4096);
	T_EQ(pwrite(fd, b, 4096, 8192), 4096);
	T_EQ(pwrite(fd, a, 4096, (off_t)MIB(1) + 8192), 4096);
	close(fd);
	FK_DO(fk_read(p, 1), -EBADMSG);
	T_STR_HAS(fk_error(), "another");
	fk_close();
}

static const struct t_case change_cases[] = {
	T_CASE(a_file_that_vanished_is_the_error_of_who_wants_it),
	T_CASE(a_file_that_got_shorter_is_an_error),
	T_CASE(a_changed_byte_is_found_and_named),
	T_CASE(blocks_that_changed_places_are_found),
};

/* ------------------------------------------------------------ errors at random */

static void setup_errors(void)
{
	static char name[160];

	fk_setup();
	snprintf(name, sizeof(name),
		 "fault:inner=%s,seed=7,error=0.02,errno=5,short=0.1,delay=0.1,reorder=1",
		 t_engine_need(fk_engine));
	fk_opts.io.engine = name;
}

/* What the caller knows of an object; a failed write or move leaves nothing. */
struct known {
	bool exists;
	unsigned place;
	uint64_t size;
};

static bool step(struct known *k, unsigned n, struct penstock_random *random)
{
	unsigned to = (unsigned)penstock_random_below(random, fk_opts.nr_places);
	uint64_t size = 1 + penstock_random_below(random, MIB(2));
	char name[16];
	int64_t r;

	snprintf(name, sizeof(name), "e-%u", n);
	switch (k->exists ? penstock_random_below(random, 5) : 0) {
	case 0:
		r = fk_do(fk_write(to, n, name, size));
		*k = (struct known){r >= 0, to, size};
		break;
	case 1:
		r = fk_do(fk_move(k->place, to, n, k->size));
		*k = (struct known){r >= 0, to, k->size};
		break;
	case 2:
		r = fk_do(fk_delete(k->place, n));
		k->exists = false;
		break;
	default:
		r = fk_do(fk_read(k->place, n));
		break;
	}
	if (r < 0)
		T_STR_HAS(fk_error(), name);
	T_OK(r >= 0 || r == -EIO);
	return r == -EIO;
}

static void errors_are_results_and_nothing_half_stays(void)
{
	enum { OBJECTS = 20 };
	struct known known[OBJECTS] = {{false, 0, 0}};
	struct penstock_random random;
	unsigned failed = 0, live[3] = {0};

	penstock_random_seed(&random, t_seed());
	fk_files("raw", PLACE_RAW);
	fk_slab("slab", MIB(64));
	fk_memory(MIB(64));
	fk_open();
	for (unsigned long i = t_ops(1000); i > 0; i--) {
		unsigned n = (unsigned)penstock_random_below(&random, OBJECTS);

		failed += step(&known[n], n, &random);
	}
	T_OK(failed > 0);
	for (unsigned i = 0; i < OBJECTS; i++)
		live[known[i].place] += known[i].exists;
	for (unsigned p = 0; p < 3; p++)
		T_EQ(place_objects(fk_place[p]), live[p]);
	T_EQ(fk_entries("raw"), (int)live[0]);
	for (unsigned i = 0; i < OBJECTS; i++)
		fk_do(fk_delete(known[i].place, i));
	for (unsigned p = 1; p < 3; p++) { /* no space is lost */
		T_EQ(place_used(fk_place[p]), 0);
		T_EQ(extent_map_unused(fk_place[p]->map), extent_map_ready(fk_place[p]->map));
	}
	fk_close();
}

static const struct t_case error_cases[] = {
	T_CASE(errors_are_results_and_nothing_half_stays),
};

/* ------------------------------------------------------------------- badfs */

/* The keys are the names of files, which say how the file system behaves. */
static void what_the_file_system_refuses_is_the_result(void)
{
	static const struct {
		const char *name;
		int64_t write, read;
	} cases[] = {
		{"plain", 300000, 300000},
		{"f,weio=100000", -EIO, 0},
		{"f,full=100000", -ENOSPC, 0},
		{"f,falloc=28", -ENOSPC, 0},
		{"f,falloc=22", 300000, 300000},
		{"f,reio=250000", 300000, -EIO},
		{"f,again=3,intr=7", 300000, 300000},
		{"f,nodirect=1", 300000, 300000},
		{"f,nodirect=2", 300000, 300000},
		{"f,flush=1", -EIO, 0},
		{"f,fsync=1", -EIO, 0},
	};
	struct place_opts o = {.kind = PLACE_FILES, .durability = PENSTOCK_DURABLE_DATA};
	unsigned p = fk_add(o, "bad/files");

	fk_open();
	for (unsigned i = 0; i < T_COUNT(cases); i++) {
		FK_DO(fk_write(p, i, cases[i].name, 300000), cases[i].write);
		T_EQ(fk_entries("bad/files"), cases[i].write > 0);
		if (cases[i].write < 0) {
			T_STR_HAS(fk_error(), cases[i].name);
			FK_DO(fk_read(p, i), -ENOENT);
			continue;
		}
		FK_DO(fk_read(p, i), cases[i].read);
		FK_DO(fk_delete(p, i), 0);
	}
	T_EQ(place_used(fk_place[p]), 0);
	fk_close();
	T_EQ(fk_entries("bad/files"), -1);
}

static const struct t_case bad_cases[] = {
	T_CASE(what_the_file_system_refuses_is_the_result),
};

int main(int argc, char **argv)
{
	struct t_group groups[] = {
		{"change", fk_setup, fk_teardown, change_cases, T_COUNT(change_cases)},
		{"errors", setup_errors, fk_teardown, error_cases, T_COUNT(error_cases)},
		{"full", setup_full, teardown_full, full_cases, T_COUNT(full_cases)},
		{"bad", fk_setup, fk_teardown, bad_cases, T_COUNT(bad_cases)},
	};
	struct penstock_err err = {0, ""};

	if (argc > 1)
		fk_engine = t_engine(argv[1]);
	if (penstock_engine_probe(t_engine_need(fk_engine), &err) < 0)
		t_skip_all(t_engine_need(fk_engine), "%s: %s", fk_engine, err.msg);
	mounts_need();
	if (argc > 2)
		mounts_badfs("bad", argv[2], false);
	return t_run(groups, T_COUNT(groups) - (argc > 2 ? 0 : 1), NULL);
}
