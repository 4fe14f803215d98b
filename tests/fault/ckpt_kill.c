/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints and what may befall their writers: death at any moment, others at the same name, no
 * room, a device that fails.
 *
 *	ckpt_kill [BADFS]
 *
 * PENSTOCK_TEST_OPS is the number of kills for each file system (80; 1000 is a soak).
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/random.h"
#include "base/util.h"
#include "tests/common/mounts.h"
#include "tests/common/t.h"
#include "tests/fault/ckpt_kit.h"

static const char *badfs;
static struct penstock_io *io;
static struct penstock_err err;
static struct penstock_random rnd;
static struct ckpt_dirs at;

static void setup(void)
{
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
	penstock_random_seed(&rnd, t_seed());
}

static void teardown(void)
{
	T_EQ(penstock_close(io, NULL), 0);
}

/* ---------------------------------------------------------------------- kill -9 */

/* Savers are children with threads. */
static bool can_fork(void)
{
	if (T_TSAN)
		t_skip("fork", "ThreadSanitizer does not start threads after fork()");
	return !T_TSAN;
}

static void kill_often(const char *name, bool striped)
{
	unsigned long kills = t_ops(striped ? 40 : 80) / T_STEP;
	uint64_t nr = 1, hits = 0;

	if (!can_fork())
		return;
	ckpt_dirs_create(&at, name, striped);
	T_ERR(ckpt_save(io, at.file, nr, 0, &err), 0, &err);
	for (unsigned long i = 0; i < kills; i++) {
		int done_fd, status;
		pid_t pid = ckpt_fork_saver(at.file, nr + 1, &done_fd);
		uint64_t done;
		int64_t there;

		usleep((useconds_t)penstock_random_below(&rnd, striped ? 60000 : 25000));
		kill(pid, SIGKILL);
		T_OK(waitpid(pid, &status, 0) == pid);
		if (!WIFSIGNALED(status))
			T_FAIL("a save failed: status %d", status);
		done = ckpt_last_saved(done_fd, nr);
		hits += done > nr;
		there = ckpt_load(io, at.file);
		/* what was done is there, or the one that was about to be */
		if (there != (int64_t)done && there != (int64_t)done + 1)
			T_FAIL("%lld is there, %llu was saved", (long long)there,
			       (unsigned long long)done);
		nr = (uint64_t)there;
		if (i % 3)
			continue;
		T_ERR(ckpt_save(io, at.file, ++nr, PENSTOCK_WRITER_NO_SYNC, &err), 0, &err);
		T_EQ(ckpt_load(io, at.file), nr);
		ckpt_dirs_check_left(&at, "f,f.crc,lost+found"); /* which ext4 has */
	}
	t_note("%s: %lu kills, %llu of them after a save", name, kills, (unsigned long long)hits);
}

static void kill_often_on(const char *type)
{
	if (!t_is_root())
		T_SKIP("root", "only root can mount file systems");
	if (mounts_image(type, type, MIB(320)) < 0)
		T_SKIP(type, "no such file system can be made here");
	kill_often(type, false);
	mounts_end(type);
}

static void a_killed_save_leaves_the_old_file_or_the_new_one_on_ext4(void)
{
	kill_often_on("ext4");
}

static void so_it_is_on_xfs(void)
{
	kill_often_on("xfs");
}

/* What of it needs nobody's leave. */
static void so_it_is_on_the_file_system_of_the_tests(void)
{
	if (t_is_root())
		T_SKIP("root", "two others have been tried");
	kill_often("here", false);
}

/* Where a file cannot be without a name. */
static void so_it_is_where_a_temporary_file_has_a_name(void)
{
	if (!badfs)
		T_SKIP("fuse", "built without libfuse3");
	kill_often("bad", false);
}

static void so_it_is_of_a_striped_file(void)
{
	kill_often("striped", true);
}

/* ------------------------------------------------------------- several at a time */

static void two_processes(const char *name, bool striped)
{
	int done_fd[2], status;
	pid_t pids[2];

	if (!can_fork())
		return;
	ckpt_dirs_create(&at, name, striped);
	T_ERR(ckpt_save(io, at.file, 1, 0, &err), 0, &err);
	for (unsigned i = 0; i < 2; i++)
		pids[i] = ckpt_fork_saver(at.file, 1000 * (i + 1), &done_fd[i]);
	/* whoever looks sees a whole one, and its checksums agree */
	for (unsigned i = 0; i < 200 / T_STEP; i++)
		T_OK(ckpt_load(io, at.file) >= 1);
	for (unsigned i = 0; i < 2; i++) {
		kill(pids[i], SIGKILL);
		T_OK(waitpid(pids[i], &status, 0) == pids[i] && WIFSIGNALED(status));
		close(done_fd[i]);
	}
	T_OK(ckpt_load(io, at.file) >= 1);
	T_ERR(ckpt_save(io, at.file, 7, 0, &err), 0, &err);
	T_EQ(ckpt_load(io, at.file), 7);
	ckpt_dirs_check_left(&at, "f,f.crc");
}

static void of_two_processes_one_wins_whole(void)
{
	two_processes("two", false);
	two_processes("two-striped", true);
}

/* --------------------------------------------------------------- no room, and EIO */

/* Saves @into a folder, while so many pages of @full, a small file system, are in use. */
static void no_room(const char *into, bool striped, const char *full, unsigned from, unsigned to)
{
	unsigned failures = 0;
	uint64_t nr = 4; /* of 1 MiB */

	ckpt_dirs_create(&at, into, striped);
	T_ERR(ckpt_save(io, at.file, nr, 0, &err), 0, &err);
	for (unsigned pages = from; pages <= to; pages += T_TSAN ? 64 : 8) {
		char ballast[PATH_MAX];
		int r, fd;

		snprintf(ballast, sizeof(ballast), "%s/ballast", t_path(full));
		fd = open(ballast, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		T_OK(fd >= 0 && posix_fallocate(fd, 0, (off_t)pages * 4096) == 0);
		close(fd);
		for (unsigned k = 0; k < 4; k++) {
			r = ckpt_save(io, at.file, nr + 1 + k, 0, &err);
			if (r < 0)
				T_ERR(r, -ENOSPC, &err);
			failures += r < 0;
			if (r == 0)
				nr = nr + 1 + k;
			T_EQ(ckpt_load(io, at.file), nr);
		}
		unlink(ballast);
		ckpt_dirs_check_left(&at, "f,f.crc");
	}
	T_OK(failures > 0);
	t_note("%u saves found no room", failures);
	mounts_end(full);
}

static void no_room_leaves_the_old_file(void)
{
	if (!t_is_root())
		T_SKIP("root", "only root can mount file systems");
	T_OK(mounts_tmpfs("small", "size=6m") == 0);
	no_room("small", false, "small", 640, 1024);
}

static void a_member_without_room_leaves_the_old_file(void)
{
	if (!t_is_root())
		T_SKIP("root", "only root can mount file systems");
	T_OK(mounts_tmpfs("narrow.1", "size=2m") == 0);
	no_room("narrow", true, "narrow.1", 160, 336); /* half of it in each */
}

/* Every block of a save fails once, or comes back short. */
static void device_that_fails(const char *name, bool striped)
{
	static const char *const faults[] = {
		"error=0.3,errno=5",
		"error=0.3,errno=28",
		"short=0.5,again=0.1,delay=0.2,reorder=1",
	};
	unsigned failures = 0, saves = 0;
	uint64_t nr = 1;

	ckpt_dirs_create(&at, name, striped);
	T_ERR(ckpt_save(io, at.file, nr, 0, &err), 0, &err);
	for (unsigned i = 0; i < 90; i += T_STEP) {
		struct penstock_opts o = PENSTOCK_OPTS_INIT;
		struct penstock_io *bad;
		char engine[128];
		int r;

		snprintf(engine, sizeof(engine), "fault:inner=threads,seed=%u,%s", i,
			 faults[i % 3]);
		o.engine = engine;
		o.block = 65536;
		T_ERR(penstock_open(&bad, &o, &err), 0, &err);
		r = ckpt_save(bad, at.file, nr + 1, 0, &err);
		if (r < 0)
			T_ERR(r, i % 3 == 0 ? -EIO : -ENOSPC, &err);
		else
			nr++;
		failures += r < 0;
		saves += r == 0;
		T_EQ(penstock_close(bad, NULL), 0);
		T_EQ(ckpt_load(io, at.file), nr);
		ckpt_dirs_check_left(&at, "f,f.crc");
	}
	t_note("%u saves failed, %u did not", failures, saves);
	T_OK(failures && saves);
}

static void a_device_that_fails_leaves_the_old_file(void)
{
	device_that_fails("eio", false);
	device_that_fails("eio-striped", true);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(a_killed_save_leaves_the_old_file_or_the_new_one_on_ext4),
		T_CASE(so_it_is_on_xfs),
		T_CASE(so_it_is_on_the_file_system_of_the_tests),
		T_CASE(so_it_is_where_a_temporary_file_has_a_name),
		T_CASE(so_it_is_of_a_striped_file),
		T_CASE(of_two_processes_one_wins_whole),
		T_CASE(no_room_leaves_the_old_file),
		T_CASE(a_member_without_room_leaves_the_old_file),
		T_CASE(a_device_that_fails_leaves_the_old_file),
	};
	static const struct t_group groups[] = {
		{"ckpt_kill", setup, teardown, cases, T_COUNT(cases)}};

	if (t_is_root())
		mounts_need();
	badfs = argc > 1 ? argv[1] : NULL;
	if (badfs)
		mounts_badfs("bad", badfs, true);
	return t_run(groups, 1, NULL);
}
