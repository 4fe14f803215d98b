/* SPDX-License-Identifier: Apache-2.0 */
/* Files of deleted objects that new ones are written over: which, how many, and never a stranger's.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/util.h"
#include "tests/common/flowkit.h"
#include "tests/common/mounts.h"

static const struct place_opts recycled = {
	.kind = PLACE_FILES, .layout = PLACE_RAW, .recycle = true};

static void begin(struct place_opts o, const char *name)
{
	fk_add(o, name);
	fk_open();
}

static uint64_t inode(const char *name)
{
	struct stat st;

	T_EQ(stat(t_path(name), &st), 0);
	return st.st_ino;
}

static uint64_t size_of(const char *name)
{
	struct stat st;

	T_EQ(stat(t_path(name), &st), 0);
	return (uint64_t)st.st_size;
}

/* Bytes the files of a folder take. */
static uint64_t taken(const char *name)
{
	DIR *dir = opendir(t_path(name));
	struct dirent *e;
	uint64_t sum = 0;
	struct stat st;

	T_OK(dir != NULL);
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.' && fstatat(dirfd(dir), e->d_name, &st, 0) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	closedir(dir);
	return sum;
}

/* Number @i by a name of its own. */
static struct flow_op numbered(unsigned i, uint64_t size)
{
	static char names[64][8];

	snprintf(names[i], sizeof(names[i]), "o%u", i);
	return fk_write(0, i, names[i], size);
}

/* One object instead of another; returns whether its file was the other's. */
static bool follows(uint64_t old, uint64_t new)
{
	uint64_t was;
	bool same;

	FK_DO(fk_write(0, 1, "old", old), old);
	was = inode("d/old");
	FK_DO(fk_delete(0, 1), 0);
	FK_DO(fk_write(0, 2, "new", new), new);
	FK_DO(fk_read(0, 2), new); /* and verify */
	T_EQ(size_of("d/new"), new);
	same = inode("d/new") == was;
	FK_DO(fk_delete(0, 2), 0);
	return same;
}

static void a_file_of_about_the_size_is_written_over(void)
{
	static const struct {
		uint64_t old, new;
		bool same;
	} pairs[] = {
		{MIB(3), MIB(3), true},        {MIB(3), MIB(3) - 5000, true},
		{MIB(3), MIB(4) + 77, true},   {MIB(3), MIB(2) + 1, true},
		{MIB(1), MIB(16), true},       {MIB(16), MIB(1), false},
		{KIB(64), KIB(64) - 77, true}, {4096, 1, false},
	};

	for (unsigned i = 0; i < T_COUNT(pairs); i++) {
		fk_setup();
		begin(recycled, "d");
		T_EQ(follows(pairs[i].old, pairs[i].new), pairs[i].same);
		fk_close();
		T_EQ(fk_entries("d"), -1);
	}
}

static void without_that_files_are_removed(void)
{
	struct place_opts o = recycled;

	o.recycle = false;
	begin(o, "d");
	FK_DO(fk_write(0, 1, "old", MIB(1)), MIB(1));
	FK_DO(fk_delete(0, 1), 0);
	T_EQ(fk_entries("d"), 0);
	fk_close();
}

static void an_object_is_written_over_its_own_file(void)
{
	struct place_opts o = recycled;
	uint64_t was;

	o.layout = PLACE_NPY;
	o.hashed = true;
	begin(o, "d");
	FK_DO(fk_write(0, 1, "same", MIB(2)), MIB(2));
	was = taken("d");
	for (unsigned i = 0; i < 20; i++) {
		FK_DO(fk_write(0, 1, "same", MIB(2) - i * 4096), MIB(2) - i * 4096);
		FK_DO(fk_read(0, 1), MIB(2) - i * 4096);
	}
	T_EQ(taken("d"), was); /* nothing but sub-folders: no file was left over */
	fk_close();
	T_EQ(fk_entries("d"), -1);
}

/* Objects of many sizes come and go; all files together stay within @most. */
static void churn(const char *folder, uint64_t most)
{
	static const unsigned shifts[] = {7, 0, 4, 7, 2, 6};
	enum { NR = 6 };

	for (unsigned i = 0; i < 20 * NR; i++) {
		uint64_t size = KIB(4) << shifts[i / NR % T_COUNT(shifts)];

		if (i >= NR)
			FK_DO(fk_delete(0, i % NR), 0);
		FK_DO(numbered(i % NR, size), size);
		if (taken(folder) > most)
			T_FAIL("%llu bytes taken, at most %llu allowed",
			       (unsigned long long)taken(folder), (unsigned long long)most);
	}
}

static void files_without_objects_count(void)
{
	struct place_opts o = recycled;

	o.capacity = MIB(3);
	begin(o, "d");
	churn("d", MIB(3));
	fk_close();
	/* without a limit no more than there were objects at once */
	fk_setup();
	begin(recycled, "d");
	churn("d", 6 * KIB(512));
	fk_close();
}

static void they_make_way_on_a_full_file_system(void)
{
	struct place_opts o = recycled;

	if (geteuid() != 0)
		T_SKIP("root", "mounting needs root");
	mounts_need();
	if (mounts_tmpfs("small", "size=8m") < 0)
		T_SKIP("tmpfs", "no tmpfs");
	o.capacity = MIB(64); /* the file system is smaller */
	begin(o, "small/d");
	FK_DO(fk_write(0, 1, "a", MIB(3)), MIB(3));
	FK_DO(fk_write(0, 2, "b", MIB(3)), MIB(3));
	FK_DO(fk_delete(0, 1), 0);
	FK_DO(fk_delete(0, 2), 0);
	T_OK(taken("small/d") == MIB(6));
	FK_DO(fk_write(0, 3, "c", MIB(7)), MIB(7)); /* too large for either file */
	FK_DO(fk_read(0, 3), MIB(7));
	fk_close();
	mounts_end("small");
}

static void a_file_with_another_name_is_not_written_over(void)
{
	static char before[MIB(1)], after[MIB(1)];
	int fd;

	begin(recycled, "d");
	FK_DO(fk_write(0, 1, "old", MIB(1)), MIB(1));
	T_EQ(link(t_path("d/old"), t_path("theirs")), 0);
	fd = open(t_path("theirs"), O_RDONLY | O_CLOEXEC);
	T_EQ(pread(fd, before, sizeof(before), 0), sizeof(before));
	FK_DO(fk_delete(0, 1), 0);
	T_EQ(fk_entries("d"), 0);
	FK_DO(fk_write(0, 2, "new", MIB(1)), MIB(1));
	T_EQ(pread(fd, after, sizeof(after), 0), sizeof(after));
	T_MEM(after, before, sizeof(before));
	close(fd);
	fk_close();
	T_EQ(unlink(t_path("theirs")), 0);
}

static void nothing_is_kept_that_no_object_has(void)
{
	struct place_opts o = recycled;

	o.keep = true;
	begin(o, "d");
	FK_DO(fk_write(0, 1, "a", MIB(1)), MIB(1));
	FK_DO(fk_write(0, 2, "b", MIB(1)), MIB(1));
	FK_DO(fk_delete(0, 2), 0);
	T_EQ(fk_entries("d"), 2);
	fk_close();
	T_EQ(fk_entries("d"), 1);
	T_EQ(size_of("d/a"), MIB(1));
	fk_setup();
	o.reuse = true;
	o.keep = false;
	begin(o, "d");
	T_EQ(place_objects(fk_place[0]), 1);
	fk_close();
	T_EQ(fk_entries("d"), -1);
}

static void what_a_killed_run_kept_is_removed(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		begin(recycled, "d");
		fk_do(fk_write(0, 1, "a", MIB(1)));
		fk_do(fk_write(0, 2, "b", MIB(1)));
		fk_do(fk_delete(0, 2));
		kill(getpid(), SIGKILL);
	}
	T_EQ(waitpid(pid, &status, 0), pid);
	T_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	T_EQ(fk_entries("d"), 2);
	begin(recycled, "d");
	T_EQ(fk_entries("d"), 0);
	fk_close();
	T_EQ(fk_entries("d"), -1);
}

/* It has its new name then, which is not to be forgotten. */
static void a_spare_file_that_cannot_be_opened_is_not_left(void)
{
	struct rlimit was, none = {0, 0};

	begin(recycled, "d");
	FK_DO(fk_write(0, 1, "a", MIB(1)), MIB(1));
	FK_DO(fk_delete(0, 1), 0);
	T_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
	none.rlim_max = was.rlim_max;
	T_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	FK_DO(fk_write(0, 2, "b", MIB(1)), -EMFILE);
	T_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	FK_DO(fk_write(0, 2, "b", MIB(1)), MIB(1));
	fk_close();
	T_EQ(fk_entries("d"), -1);
}

static void what_failed_is_not_written_over(void)
{
	begin(recycled, "d");
	FK_CHAIN(fk_write(0, 1, "half", MIB(64)));
	while (fk_entries("d") < 1)
		flow_wait(fk_flow, clock_ns() + 100000, NULL);
	flow_abort(fk_flow);
	fk_wait();
	T_EQ(fk_entries("d"), 0);
	fk_close();
}

static void many_at_once_stay_whole(void)
{
	enum { NR = 40, TURNS = 12 };
	struct place_opts o = recycled;

	o.capacity = NR * MIB(1);
	begin(o, "d");
	for (unsigned turn = 0; turn < TURNS; turn++) {
		for (unsigned i = 0; i < NR; i++) {
			uint64_t size = KIB(300) + (i * 7919 + turn * 104729) % KIB(600);

			FK_CHAIN(fk_delete(0, i), numbered(i, size), fk_read(0, i));
		}
		fk_wait();
	}
	for (unsigned i = 0; i < fk_nr_done; i++)
		T_OK(fk_done[fk_order[i]].result >= 0);
	T_EQ(fk_nr_done, NR * TURNS * 3);
	T_OK(taken("d") <= NR * MIB(1));
	fk_close();
	T_EQ(fk_entries("d"), -1);
}

static const struct t_case cases[] = {
	T_CASE(a_file_of_about_the_size_is_written_over),
	T_CASE(without_that_files_are_removed),
	T_CASE(an_object_is_written_over_its_own_file),
	T_CASE(files_without_objects_count),
	T_CASE(a_file_with_another_name_is_not_written_over),
	T_CASE(nothing_is_kept_that_no_object_has),
	T_CASE(what_a_killed_run_kept_is_removed),
	T_CASE(what_failed_is_not_written_over),
	T_CASE(a_spare_file_that_cannot_be_opened_is_not_left),
	T_CASE(many_at_once_stay_whole),
	T_CASE(they_make_way_on_a_full_file_system),
};

int main(void)
{
	static const struct t_group group = {"spare", fk_setup, fk_teardown, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
