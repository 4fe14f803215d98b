/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power fails on real file systems while checkpoints are saved, plain and striped ones, those over
 * two more file systems.  Their images lie on one XFS: of a saver that is stopped at a random
 * moment what the drives have by then is kept, and mounted in their place after it was killed.
 * What the kernel had not written yet is lost, as with the machine; what a drive reorders in a
 * cache of its own is not tried here, but in ckpt_power.
 *
 * PENSTOCK_TEST_OPS is the number of crashes for each layout (8).
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/random.h"
#include "base/util.h"
#include "tests/common/mounts.h"
#include "tests/common/t.h"
#include "tests/fault/ckpt_kit.h"

enum { DRIVES = 1 + CKPT_MEMBERS };

static const char *const drives[DRIVES] = {"disk/d", "disk/d.0", "disk/d.1"};
static struct penstock_err err;
static struct penstock_random rnd;
static struct ckpt_dirs at;

static void setup(void)
{
	penstock_random_seed(&rnd, t_seed());
}

static void teardown(void)
{
	for (unsigned i = 0; i < DRIVES; i++)
		mounts_end(drives[i]);
	mounts_end("disk");
}

static void make_drives(const char *type, uint64_t bytes)
{
	char lost[64];

	if (mounts_image("disk", "xfs", GIB(2)) < 0)
		T_SKIP("xfs", "no XFS can be made here");
	for (unsigned i = 0; i < DRIVES; i++) {
		if (mounts_image(drives[i], type, bytes) < 0)
			T_SKIP(type, "no such file system can be made here");
		snprintf(lost, sizeof(lost), "%s/lost+found", drives[i]);
		rmdir(t_path(lost));
	}
	if (mounts_keep(drives[0]) < 0)
		T_SKIP("xfs", "it shares no blocks");
}

/* What was told to be done, or the one after it; and the next save leaves nothing else. */
static uint64_t check(uint64_t done)
{
	struct penstock_io *io;
	int64_t there;

	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
	there = ckpt_load(io, at.file);
	if (there != (int64_t)done && there != (int64_t)done + 1)
		T_FAIL("%lld is there, %llu was saved", (long long)there, (unsigned long long)done);
	T_ERR(ckpt_save(io, at.file, (uint64_t)++there, 0, &err), 0, &err);
	T_EQ(ckpt_load(io, at.file), there);
	T_EQ(penstock_close(io, NULL), 0);
	ckpt_dirs_check_left(&at, "f,f.crc");
	return (uint64_t)there;
}

static uint64_t crash(uint64_t nr)
{
	int done_fd, status = 0;
	pid_t pid = ckpt_fork_saver(at.file, nr + 1, &done_fd);

	if (penstock_random_below(&rnd, 2)) /* not only in the first save, however slow it is */
		T_EQ(read(done_fd, &nr, sizeof(nr)), sizeof(nr));
	usleep((useconds_t)penstock_random_below(&rnd, at.striped ? 200000 : 60000));
	T_OK(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid);
	if (!WIFSTOPPED(status))
		T_FAIL("a save failed: status %d", status);
	for (unsigned i = 0; i < DRIVES; i++)
		T_EQ(mounts_keep(drives[i]), 0);
	T_OK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	nr = ckpt_last_saved(done_fd, nr);
	for (unsigned i = 0; i < DRIVES; i++)
		T_EQ(mounts_back(drives[i]), 0);
	return nr;
}

static void crash_often(const char *type, uint64_t bytes, bool striped)
{
	unsigned long crashes = t_ops(8), hits = 0;
	struct penstock_io *io;
	uint64_t nr = 1;

	if (!t_is_root())
		T_SKIP("root", "only root can mount file systems");
	make_drives(type, bytes);
	ckpt_dirs_create(&at, drives[0], striped);
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
	T_ERR(ckpt_save(io, at.file, nr, 0, &err), 0, &err);
	T_EQ(penstock_close(io, NULL), 0);
	for (unsigned long i = 0; i < crashes; i++) {
		uint64_t done = crash(nr);

		hits += done > nr;
		nr = check(done);
	}
	t_note("%s%s: %lu crashes, %lu of them after a save", type, striped ? ", striped" : "",
	       crashes, hits);
}

static void power_that_fails_leaves_the_old_file_or_the_new_one_on_ext4(void)
{
	crash_often("ext4", MIB(48), false);
}

static void so_it_does_on_xfs(void)
{
	crash_often("xfs", MIB(320), false);
}

static void so_it_does_of_a_file_striped_over_ext4(void)
{
	crash_often("ext4", MIB(48), true);
}

static void so_it_does_of_a_file_striped_over_xfs(void)
{
	crash_often("xfs", MIB(320), true);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(power_that_fails_leaves_the_old_file_or_the_new_one_on_ext4),
		T_CASE(so_it_does_on_xfs),
		T_CASE(so_it_does_of_a_file_striped_over_ext4),
		T_CASE(so_it_does_of_a_file_striped_over_xfs),
	};
	static const struct t_group groups[] = {
		{"ckpt_crash", setup, teardown, cases, T_COUNT(cases)}};

	if (t_is_root())
		mounts_need();
	return t_run(groups, 1, NULL);
}
