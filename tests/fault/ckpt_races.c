/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who meet at a checkpoint's name: what the one does in the very moment between two steps of
 * the other.  The linker leads some of the library's calls here (--wrap), where it is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/util.h"
#include "tests/common/t.h"
#include "tests/fault/ckpt_kit.h"

static struct penstock_io *io;
static struct penstock_err err;
static struct ckpt_dirs at;

static void setup(void)
{
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
}

static void teardown(void)
{
	T_EQ(penstock_close(io, NULL), 0);
}

/* ----------------------------------------------------------------- the moments */

static void (*at_crc_open)(void); /* before the next reader or writer opens FILE.crc */
static void (*at_rename)(void);   /* before the next file takes its name */
static void (*at_sync)(void);     /* before the next fsync(2) of a thread of this program */
static void (*at_remove)(void);   /* before the next member is removed */
static int no_folder;             /* errno of opening the folder to lock it, */
static int no_lock;               /* and of locking it */
static unsigned nr_syncs;
static pid_t saver; /* thread that the hooks are for, as the I/O threads have files of their own */

static void run_hook(void (**hook)(void))
{
	void (*fn)(void) = saver == gettid() ? *hook : NULL;

	if (!fn)
		return;
	*hook = NULL; /* who is met comes by here as well */
	fn();
}

/* As the library calls it where files may be large. */
int __real_openat64(int dir, const char *path, int flags, unsigned mode);
int __wrap_openat64(int dir, const char *path, int flags, unsigned mode);
int __wrap_openat64(int dir, const char *path, int flags, unsigned mode)
{
	if (!strcmp(path, "f.crc"))
		run_hook(&at_crc_open);
	if (no_folder && saver == gettid() && !strcmp(path, ".") && !(flags & O_RDWR)) {
		errno = no_folder;
		return -1;
	}
	return __real_openat64(dir, path, flags, mode);
}

int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);
int __wrap_flock(int fd, int how)
{
	struct stat st;

	if (!no_lock || saver != gettid() || fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return __real_flock(fd, how);
	errno = no_lock;
	return -1;
}

int __real_renameat(int dir, const char *from, int to, const char *name);
int __wrap_renameat(int dir, const char *from, int to, const char *name);
int __wrap_renameat(int dir, const char *from, int to, const char *name)
{
	if (!strcmp(name, "f"))
		run_hook(&at_rename);
	return __real_renameat(dir, from, to, name);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	run_hook(&at_sync);
	nr_syncs += saver == gettid();
	return __real_fsync(fd);
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
	run_hook(&at_remove);
	return __real_unlink(path);
}

/* --------------------------------------------------------------------- readers */

static void save(uint64_t nr)
{
	T_ERR(ckpt_save(io, at.file, nr, 0, &err), 0, &err);
}

static void save_two(void)
{
	T_EQ(ckpt_len(1), ckpt_len(0));
	T_EQ(ckpt_len(2), ckpt_len(0));
	save(1);
	save(2);
}

/* FILE.crc has two sets of checksums by then, both of other files of that size. */
static void two_saves_between_a_file_and_its_checksums_are_no_damage(void)
{
	saver = gettid();
	for (unsigned striped = 0; striped < 2; striped++) {
		ckpt_dirs_create(&at, striped ? "read-striped" : "read", striped);
		save(0);
		at_crc_open = save_two;
		T_EQ(ckpt_load(io, at.file), 2);
		T_OK(!at_crc_open);
		ckpt_dirs_check_left(&at, "f,f.crc");
	}
}

/* --------------------------------------------------------------------- writers */

static int lock = -1;

static void begin_another(void)
{
	struct penstock_writer *w;

	close(lock);
	T_ERR(penstock_writer_open(&w, io, at.file, NULL, &err), 0, &err);
	penstock_writer_abort(w);
}

/* The name by which the old file's members are found is cleared away only with its lock. */
static void who_begins_within_the_step_of_another_leaves_it_what_it_needs(void)
{
	saver = gettid();
	ckpt_dirs_create(&at, "begin-striped", true);
	save(1);
	lock = open(at.file, O_RDONLY | O_CLOEXEC);
	T_OK(lock >= 0 && flock(lock, LOCK_EX) == 0);
	at_rename = begin_another;
	save(2);
	T_OK(!at_rename);
	T_EQ(ckpt_load(io, at.file), 2);
	ckpt_dirs_check_left(&at, "f,f.crc");
}

static void lock_the_new_one(void)
{
	lock = open(at.file, O_RDONLY | O_CLOEXEC);
	T_OK(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0);
	close(lock);
}

static void wait_for_the_step(void)
{
	at_sync = lock_the_new_one;
}

static void a_new_file_is_free_for_the_next_writer_at_once(void)
{
	saver = gettid();
	for (unsigned striped = 0; striped < 2; striped++) {
		ckpt_dirs_create(&at, striped ? "free-striped" : "free", striped);
		save(1);
		at_rename = wait_for_the_step;
		save(2);
		T_OK(!at_rename && !at_sync);
	}
}

static void die(void)
{
	_exit(0);
}

static void die_at_sync(void)
{
	at_sync = die;
}

static void count_syncs(void)
{
	T_OK(nr_syncs > 0);
}

/* Else the power fails, the step never was, and the old file has lost its members. */
static void the_step_of_the_dead_is_durable_before_the_old_members_go(void)
{
	int status = -1;
	pid_t pid;

	if (T_TSAN)
		T_SKIP("fork", "ThreadSanitizer does not start threads after fork()");
	ckpt_dirs_create(&at, "dead-striped", true);
	save(1);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct penstock_io *mine;

		saver = gettid();
		at_rename = die_at_sync;
		if (penstock_open(&mine, NULL, NULL) == 0)
			ckpt_save(mine, at.file, 2, 0, NULL);
		_exit(1);
	}
	T_OK(pid > 0 && waitpid(pid, &status, 0) == pid);
	T_EQ(status, 0);
	saver = gettid();
	T_EQ(ckpt_load(io, at.file), 2);
	nr_syncs = 0;
	at_remove = count_syncs;
	T_ERR(ckpt_save(io, at.file, 3, PENSTOCK_WRITER_NO_SYNC, &err), 0, &err);
	T_OK(!at_remove);
	T_EQ(ckpt_load(io, at.file), 3);
	ckpt_dirs_check_left(&at, "f,f.crc");
}

/* Two saves at once could leave the checksums of the one beside the file of the other. */
static void a_folder_that_could_be_locked_is_not_done_without(void)
{
	static const int fails[] = {EMFILE, ENFILE, ENOMEM, EIO},
			 none[] = {EACCES, EPERM, EOPNOTSUPP, ENOSYS, ENOLCK};
	int *of[] = {&no_folder, &no_lock};

	saver = gettid();
	ckpt_dirs_create(&at, "lock", false);
	save(0);
	for (size_t i = 0; i < T_COUNT(of) * T_COUNT(fails); i++) {
		*of[i % 2] = fails[i / 2];
		T_ERR(ckpt_save(io, at.file, 1, 0, &err), -fails[i / 2], &err);
		T_STR_HAS(err.msg, "lock the folder of");
		*of[i % 2] = 0;
		T_EQ(ckpt_load(io, at.file), 0);
		ckpt_dirs_check_left(&at, "f,f.crc");
	}
	for (size_t i = 0; i < T_COUNT(of) * T_COUNT(none); i++) {
		*of[i % 2] = none[i / 2];
		save(2 + i);
		*of[i % 2] = 0;
		T_EQ(ckpt_load(io, at.file), (int64_t)(2 + i));
	}
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(two_saves_between_a_file_and_its_checksums_are_no_damage),
		T_CASE(who_begins_within_the_step_of_another_leaves_it_what_it_needs),
		T_CASE(a_new_file_is_free_for_the_next_writer_at_once),
		T_CASE(the_step_of_the_dead_is_durable_before_the_old_members_go),
		T_CASE(a_folder_that_could_be_locked_is_not_done_without),
	};
	static const struct t_group groups[] = {
		{"ckpt_races", setup, teardown, cases, T_COUNT(cases)}};

	return t_run(groups, 1, NULL);
}
