/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system that is full:
 *
 *	full ENGINE
 *
 * DeepNVMe reports success there.  Here a write fails with ENOSPC, says how
 * many bytes are in the file, keeps no space it could not fill, and the handle
 * goes on when there is room again.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/statvfs.h>

#include "base/random.h"
#include "tests/common/mounts.h"
#include "tests/common/t.h"

enum { SEED = 71, SLACK = 256 << 10 }; /* what a file system uses for itself */

static const char *engine = "threads";
static const char *fs; /* of the running group */
static struct penstock_io *io;
static unsigned char *data; /* of the pattern SEED */
static size_t data_len;
static char path[PATH_MAX];

static uint64_t room(void)
{
	struct statvfs st;

	T_EQ(statvfs(t_path("mnt"), &st), 0);
	return (uint64_t)st.f_bavail * st.f_frsize;
}

/*
 * Is as much free as before, but for @used bytes?  Not always at once: a worker
 * of io_uring lets go of a file a moment after the operation is complete.
 */
static bool room_is_back(uint64_t before, uint64_t used)
{
	for (unsigned i = 0; i < 1000000; i++) {
		if (room() + used + SLACK >= before)
			return true;
		sched_yield();
	}
	return false;
}

static void open_handle(void)
{
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err = {0, ""};

	o.engine = engine;
	o.block = KIB(64);
	o.depth = 8;
	o.threads = 2;
	T_ERR(penstock_open(&io, &o, &err), 0, &err);
}

static void setup(void)
{
	int r = !strcmp(fs, "tmpfs") ? mounts_tmpfs("mnt", "size=1M")
				     : mounts_image("mnt", fs, MIB(12));

	if (r < 0) {
		t_skip(fs, "no %s here: %s", fs, strerror(-r));
		return;
	}
	snprintf(path, sizeof(path), "%s", t_path("mnt/file"));
	data_len = 2 * room() + MIB(1);
	data = malloc(data_len);
	T_OK(data);
	penstock_pattern_fill(data, data_len, SEED, 0);
	open_handle();
}

static void setup_ext4(void)
{
	fs = "ext4";
	setup();
}

static void setup_tmpfs(void)
{
	fs = "tmpfs";
	setup();
}

static void teardown(void)
{
	penstock_close(io, NULL);
	io = NULL;
	free(data);
	data = NULL;
	mounts_end("mnt");
}

/* Run or submit; returns the result of the operation, even of a refused one. */
static int64_t write_at(const char *to, void *buf, uint64_t len, uint64_t off, unsigned turn,
			struct penstock_done *d)
{
	struct penstock_op op = {
		.opcode = PENSTOCK_WRITE, .path = to, .buf = buf, .len = len, .offset = off};
	struct penstock_err err = {0, ""};
	uint64_t ticket;
	int r;

	memset(d, 0, sizeof(*d));
	if (turn & 1) {
		r = penstock_submit(io, &op, 1, &ticket, &err);
		if (r == 1)
			r = penstock_wait(io, ticket, T_NO_LIMIT, d);
	} else {
		r = penstock_run(io, &op, d, &err);
	}
	if (r < 0) {
		snprintf(d->msg, sizeof(d->msg), "%s", err.msg);
		return r;
	}
	return d->res;
}

/* All or nothing where space can be reserved; else as far as it went. */
static void a_write_larger_than_the_room_fails_and_says_how_far(void)
{
	uint64_t before = room();
	struct penstock_done d;

	for (unsigned turn = 0; turn < 4; turn++) {
		uint64_t len = before + MIB(1) + (turn & 2 ? 0 : 777);

		T_EQ(write_at(path, data, len, 0, turn, &d), -ENOSPC);
		T_STR_HAS(d.msg, path);
		T_OK(d.bytes < len);
		T_FILE_PATTERN(path, SEED, d.bytes);
		/* space that was reserved and not filled is free again */
		T_OK(room_is_back(before, d.bytes));
		unlink(path);
		T_OK(room_is_back(before, 0));
		T_EQ(write_at(path, data, before / 2, 0, turn, &d), before / 2);
		T_FILE_PATTERN(path, SEED, before / 2);
		unlink(path);
	}
}

/* Nothing grows here, so nothing is reserved, and the device says when it is full. */
static void a_hole_that_cannot_be_filled_fails_with_what_fitted(void)
{
	uint64_t before = room(), len = before + MIB(1);
	unsigned char *got = malloc(len);
	struct penstock_done d;

	T_OK(got);
	for (unsigned turn = 0; turn < 4; turn++) {
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

		T_OK(fd >= 0);
		T_EQ(ftruncate(fd, (off_t)len), 0);
		T_EQ(write_at(path, data, len - (turn & 2 ? 0 : 777), 0, turn, &d), -ENOSPC);
		T_STR_HAS(d.msg, path);
		T_OK(d.bytes < len);
		T_EQ(t_file_size(path), len);
		T_EQ(pread(fd, got, d.bytes, 0), d.bytes);
		T_MEM(got, data, d.bytes);
		close(fd);
		unlink(path);
		T_OK(room_is_back(before, 0));
		T_EQ(write_at(path, data, before / 2, 0, turn, &d), before / 2);
		T_FILE_PATTERN(path, SEED, before / 2);
		unlink(path);
	}
	free(got);
}

static void a_file_that_cannot_grow_keeps_what_it_had(void)
{
	uint64_t before = room(), had = before / 2 + 123;
	struct penstock_done d;

	for (unsigned turn = 0; turn < 2; turn++) {
		unlink(path);
		t_file_make(path, SEED, had);
		T_EQ(write_at(path, data + had, before, had, turn, &d), -ENOSPC);
		T_FILE_PATTERN(path, SEED, had + d.bytes);
		/* one that leaves a hole gives back what it took as well */
		T_EQ(write_at(path, data, before, GIB(1), turn, &d), -ENOSPC);
		T_OK(d.bytes < before);
		T_OK(t_file_size(path) <= (int64_t)(GIB(1) + d.bytes));
		unlink(path);
		T_OK(room_is_back(before, 0));
	}
}

static void fill_up(void)
{
	int fd = open(t_path("mnt/ballast"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	T_OK(fd >= 0);
	while (write(fd, data, 4096) > 0)
		;
	while (write(fd, data, 1) > 0)
		;
	fsync(fd);
	close(fd);
}

static void bytes_that_are_there_can_be_overwritten(void)
{
	enum { LEN = 300001 };
	unsigned char *fresh = malloc(LEN);
	struct penstock_done d;

	T_OK(fresh);
	t_file_make(path, SEED + 1, LEN);
	fill_up();
	penstock_pattern_fill(fresh, LEN, SEED + 2, 0);
	for (unsigned turn = 0; turn < 2; turn++)
		T_EQ(write_at(path, fresh, LEN, 0, turn, &d), LEN);
	T_FILE_PATTERN(path, SEED + 2, LEN);
	free(fresh);
}

static void no_room_at_all_is_an_error_every_time(void)
{
	static const uint64_t lens[] = {1, 4096, 5000, 300001};
	struct penstock_done d;

	fill_up();
	for (unsigned i = 0; i < 2 * T_COUNT(lens); i++) {
		int64_t r = write_at(path, data, lens[i / 2], 0, i, &d);

		if (r == -ENOSPC && t_file_size(path) == -ENOENT)
			continue;              /* not even a name */
		if (r == (int64_t)lens[i / 2]) /* in the inode, or in the last corner */
			d.bytes = (uint64_t)r;
		else
			T_EQ(r, -ENOSPC);
		T_FILE_PATTERN(path, SEED, d.bytes);
		unlink(path);
	}
	unlink(t_path("mnt/ballast"));
	T_EQ(write_at(path, data, 300001, 0, 1, &d), 300001);
	T_FILE_PATTERN(path, SEED, 300001);
}

static void small_writes_one_by_one_end_with_all_before_them_right(void)
{
	struct penstock_done d;
	uint64_t at = 0;
	int64_t r = 0;

	for (unsigned turn = 0;; turn++) {
		uint64_t len = 1 + turn * 7919u % 30000;

		if (at + len > data_len)
			break;
		r = write_at(path, data + at, len, at, turn, &d);
		if (r < 0)
			break;
		T_EQ(r, len);
		at += len;
	}
	T_EQ(r, -ENOSPC);
	T_FILE_PATTERN(path, SEED, at + d.bytes);
}

static void many_writers_fail_each_with_its_own_bytes(void)
{
	enum { NR = 8 };
	struct penstock_op ops[NR];
	uint64_t tickets[NR], each = room() / 4, before = room();
	char paths[NR][PATH_MAX];
	unsigned failed = 0;
	int taken = 0;

	memset(ops, 0, sizeof(ops));
	for (unsigned i = 0; i < NR; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s-%u", path, i);
		ops[i].opcode = PENSTOCK_WRITE;
		ops[i].path = paths[i];
		ops[i].buf = data + i * 1000;
		ops[i].len = each - i;
	}
	while (taken < NR) { /* one that finds no room to reserve may be refused at once */
		int r = penstock_submit(io, ops + taken, (unsigned)(NR - taken), tickets + taken,
					NULL);

		if (r > 0) {
			taken += r;
			continue;
		}
		T_EQ(r, -ENOSPC);
		tickets[taken++] = 0;
		failed++;
	}
	for (unsigned i = 0; i < NR; i++) {
		struct penstock_done d = {.bytes = 0};

		if (tickets[i]) {
			T_EQ(penstock_wait(io, tickets[i], T_NO_LIMIT, &d), 0);
			failed += d.res < 0;
			if (d.res < 0)
				T_EQ(d.res, -ENOSPC);
			else
				T_EQ(d.res, each - i);
		}
		if (t_file_size(paths[i]) == -ENOENT)
			T_EQ(d.bytes, 0);
		else
			T_FILE(paths[i], data + i * 1000, d.bytes);
	}
	T_OK(failed >= NR / 2);
	for (unsigned i = 0; i < NR; i++)
		unlink(paths[i]);
	T_OK(room_is_back(before, 0));
}

static const struct t_case cases[] = {
	T_CASE(a_write_larger_than_the_room_fails_and_says_how_far),
	T_CASE(a_hole_that_cannot_be_filled_fails_with_what_fitted),
	T_CASE(a_file_that_cannot_grow_keeps_what_it_had),
	T_CASE(bytes_that_are_there_can_be_overwritten),
	T_CASE(no_room_at_all_is_an_error_every_time),
	T_CASE(small_writes_one_by_one_end_with_all_before_them_right),
	T_CASE(many_writers_fail_each_with_its_own_bytes),
};

int main(int argc, char **argv)
{
	static const struct t_group groups[] = {
		{"ext4", setup_ext4, teardown, cases, T_COUNT(cases)},
		{"tmpfs", setup_tmpfs, teardown, cases, T_COUNT(cases)},
	};
	struct penstock_err err = {0, ""};

	if (argc > 1)
		engine = t_engine(argv[1]);
	if (penstock_engine_probe(t_engine_need(engine), &err) < 0)
		t_skip_all(t_engine_need(engine), "%s: %s", engine, err.msg);
	mounts_need();
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
