/* SPDX-License-Identifier: Apache-2.0 */
/* Striped files that are killed while they are made, and members without room or memory. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <penstock/stripe.h>

#include "base/random.h"
#include "base/util.h"
#include "file/stripe.h"
#include "tests/common/mounts.h"
#include "tests/common/t.h"

enum { MEMBERS = 3 };

static char rooms[MEMBERS][PATH_MAX];
static const char *folders[MEMBERS];
static char name[PATH_MAX];

static void make_members(const char *first)
{
	snprintf(name, sizeof(name), "%s", t_path("tensor"));
	for (unsigned i = 0; i < MEMBERS; i++) {
		snprintf(rooms[i], sizeof(rooms[i]), "%s/%s%u", t_dir(), first, i);
		mkdir(rooms[i], 0755);
		folders[i] = rooms[i];
	}
}

static unsigned files_in(const char *folder)
{
	char cmd[PATH_MAX + 100], line[32] = "";
	FILE *f;

	snprintf(cmd, sizeof(cmd), "find %s -type f | wc -l", folder);
	f = popen(cmd, "r");
	T_OK(f && fgets(line, sizeof(line), f));
	pclose(f);
	return (unsigned)atoi(line);
}

/* The name stands for a whole one or for nothing, and the next creation finds no obstacle. */
static void a_killed_creation_leaves_nothing_half(void)
{
	struct penstock_stripe_info *info;
	struct penstock_random dice;
	struct penstock_err err;
	unsigned whole = 0, nothing = 0;
	uint64_t took = clock_ns();

	make_members("a");
	penstock_random_seed(&dice, t_seed());
	T_ERR(penstock_stripe_create(name, 0, folders, MEMBERS, 0, &err), 0, &err);
	T_ERR(penstock_stripe_remove(name, &err), 0, &err);
	took = min_u64(clock_ns() - took, 500000000);
	for (unsigned n = 0; n < 20; n++) {
		pid_t pid = fork();
		struct timespec t = {0, (long)penstock_random_below(&dice, 2 * took)};

		if (!pid)
			_exit(penstock_stripe_create(name, 0, folders, MEMBERS, 0, NULL) ? 1 : 0);
		nanosleep(&t, NULL);
		kill(pid, SIGKILL);
		T_EQ(waitpid(pid, NULL, 0), pid);
		if (access(name, F_OK) < 0) {
			nothing++;
			T_ERR(penstock_stripe_create(name, 0, folders, MEMBERS, 0, &err), 0, &err);
		} else {
			whole++;
		}
		T_ERR(penstock_stripe_load(&info, name, &err), 0, &err);
		for (unsigned i = 0; i < MEMBERS; i++)
			T_EQ(info->members[i].state, PENSTOCK_MEMBER_GOOD);
		penstock_stripe_free(info);
		T_EQ(files_in(t_dir()), MEMBERS + 1);
		T_ERR(penstock_stripe_remove(name, &err), 0, &err);
		T_EQ(files_in(t_dir()), 0);
	}
	t_note("%u were complete when they were killed, %u were not", whole, nothing);
}

static unsigned char buf[8 << 20];

static void transfer(bool write, uint64_t len)
{
	struct penstock_file *f;
	struct penstock_err err;
	struct penstock_io *io;

	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
	T_ERR(penstock_file_open(&f, io, name, O_RDWR, 0, &err), 0, &err);
	if (write)
		T_ERR(penstock_pwrite(f, buf, len, 0, &err), (int64_t)len, &err);
	else
		T_ERR(penstock_pread(f, buf, len, 0, &err), (int64_t)len, &err);
	T_ERR(penstock_file_close(f, &err), 0, &err);
	T_ERR(penstock_close(io, &err), 0, &err);
}

static void write_until_killed(void)
{
	struct penstock_file *f;
	struct penstock_io *io;

	if (penstock_open(&io, NULL, NULL) < 0 ||
	    penstock_file_open(&f, io, name, O_RDWR, 0, NULL) < 0)
		_exit(1);
	for (uint64_t at = 500000;; at = at > MIB(4) ? 500000 : at + 70001)
		penstock_pwrite(f, buf, MIB(1), at, NULL);
}

/* A writer that dies leaves what was recorded, and the file can be used. */
static void a_killed_writer_leaves_the_file_usable(void)
{
	struct penstock_random dice;
	struct penstock_err err;

	make_members("w");
	penstock_random_seed(&dice, t_seed());
	penstock_pattern_fill(buf, sizeof(buf), 1, 0);
	T_ERR(penstock_stripe_create(name, 65536, folders, MEMBERS, 0, &err), 0, &err);
	transfer(true, 500000);
	for (unsigned n = 0; n < 20; n++) {
		struct timespec t = {0, (long)penstock_random_below(&dice, 10000000)};
		pid_t pid = fork();

		if (!pid)
			write_until_killed();
		nanosleep(&t, NULL);
		kill(pid, SIGKILL);
		T_EQ(waitpid(pid, NULL, 0), pid);
		memset(buf, 0, 500000);
		transfer(false, 500000);
		T_EQ(penstock_pattern_check(buf, 500000, 1, 0), 500000);
	}
	T_ERR(penstock_stripe_remove(name, &err), 0, &err);
}

static void one_member_without_room_fails_the_write_and_leaves_the_size(void)
{
	static unsigned char back[1 << 20];
	struct penstock_stripe_info *info;
	struct penstock_err err;
	struct penstock_file *f;
	struct penstock_io *io;

	if (!t_is_root())
		T_SKIP("root", "only root can mount file systems");
	make_members("e");
	T_OK(mounts_tmpfs("e1", "size=2m") == 0);
	penstock_pattern_fill(buf, sizeof(buf), 3, 0);
	T_ERR(penstock_stripe_create(name, 65536, folders, MEMBERS, 0, &err), 0, &err);
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
	T_ERR(penstock_file_open(&f, io, name, O_RDWR, 0, &err), 0, &err);
	T_ERR(penstock_pwrite(f, buf, sizeof(back), 0, &err), sizeof(back), &err);
	T_ERR(penstock_pwrite(f, buf, sizeof(buf), 0, &err), -ENOSPC, &err);
	T_STR_HAS(err.msg, "tensor");
	T_ERR(penstock_pread(f, back, sizeof(back), 0, &err), sizeof(back), &err);
	T_EQ(penstock_pattern_check(back, sizeof(back), 3, 0), sizeof(back));
	T_ERR(penstock_file_close(f, &err), 0, &err);
	T_ERR(penstock_stripe_load(&info, name, &err), 0, &err);
	T_EQ(info->bytes, sizeof(back));
	for (unsigned i = 0; i < MEMBERS; i++)
		T_OK(info->members[i].bytes <= sizeof(back) / MEMBERS + 65536);
	penstock_stripe_free(info);
	T_ERR(penstock_close(io, &err), 0, &err);
	T_ERR(penstock_stripe_remove(name, &err), 0, &err);
	mounts_end("e1");
}

static struct penstock_stripe *extended;
static unsigned nr_reserved;
static pthread_t settler;
static atomic_int settler_tid;

static void *sync_often(void *arg)
{
	struct penstock_stripe *stripe = arg;

	atomic_store(&stripe->size_unrecorded, true);
	settler_tid = gettid();
	penstock_stripe_record_size(stripe, UINT64_MAX, true);
	settler_tid = -1;
	return NULL;
}

/* Until the thread is done, or sleeps. */
static void wait_for_sync_thread(void)
{
	char path[64], state = 'R';

	while (settler_tid >= 0 && state != 'S') {
		FILE *f;

		sched_yield();
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)settler_tid);
		f = settler_tid > 0 ? fopen(path, "r") : NULL;
		if (f && fscanf(f, "%*d %*s %c", &state) != 1)
			state = 'R';
		if (f)
			fclose(f);
	}
}

/* The last member has no room, and just before it says so a thread settles. */
int __real_fallocate64(int fd, int mode, off_t from, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t from, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t from, off_t len)
{
	if (!extended || ++nr_reserved < MEMBERS)
		return __real_fallocate64(fd, mode, from, len);
	T_OK(pthread_create(&settler, NULL, sync_often, extended) == 0);
	wait_for_sync_thread();
	errno = ENOSPC;
	return -1;
}

/* A size that was never the whole's is not recorded, or its members are short. */
static void a_thread_that_syncs_sees_no_size_of_a_write_that_finds_no_room(void)
{
	struct penstock_backing backing;
	bool unable = false;
	struct penstock_err err;

	make_members("s");
	T_ERR(penstock_stripe_create(name, 65536, folders, MEMBERS, 0, &err), 0, &err);
	transfer(true, 5000); /* ends in the first member */
	T_ERR(penstock_backing_open(&backing, name, O_RDWR, 0, PENSTOCK_DIRECT_NEVER, &err), 0,
	      &err);
	extended = backing.stripe;
	T_EQ(penstock_stripe_reserve(backing.stripe, 5000, MIB(4), &unable), -ENOSPC);
	extended = NULL;
	T_EQ(pthread_join(settler, NULL), 0);
	T_EQ(penstock_stripe_size(backing.stripe), 5000);
	T_EQ(penstock_backing_close(&backing), 0);
	transfer(false, 5000);
	T_ERR(penstock_stripe_remove(name, &err), 0, &err);
}

static struct penstock_backing *watched;
static atomic_uint nr_flushed;
static atomic_ullong recorded[MEMBERS + 2]; /* by the first header when the n-th flush was over */

static uint64_t recorded_now(const struct penstock_backing *backing)
{
	struct penstock_member_header head;

	T_EQ(penstock_member_header_read(&backing->stripe->members[0], &head), 0);
	return head.recorded_bytes;
}

static void watch_flush(void)
{
	unsigned n = watched ? nr_flushed++ : MEMBERS + 1;

	if (n <= MEMBERS)
		recorded[n] = recorded_now(watched);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	int r = __real_fsync(fd);

	watch_flush();
	return r;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	int r = __real_fdatasync(fd);

	watch_flush();
	return r;
}

/* What the first header tells all members have for good, whenever the power fails. */
static void a_sync_tells_the_new_size_when_all_members_have_it(void)
{
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	struct penstock_backing backing;
	struct penstock_file *f;
	struct penstock_err err;
	struct penstock_io *io;

	make_members("p");
	opts.engine = "threads"; /* flushes by fsync(2), where they are seen */
	T_ERR(penstock_stripe_create(name, 65536, folders, MEMBERS, 0, &err), 0, &err);
	transfer(true, 5000);
	T_ERR(penstock_backing_open(&backing, name, O_RDONLY, 0, PENSTOCK_DIRECT_NEVER, &err), 0,
	      &err);
	T_ERR(penstock_open(&io, &opts, &err), 0, &err);
	for (unsigned way = 0; way < 3; way++) {
		uint64_t before = recorded_now(&backing), size = before + 300000;
		struct penstock_op op = {.opcode = PENSTOCK_WRITE, .buf = buf, .len = size};
		struct penstock_op sync = {.opcode = PENSTOCK_SYNC};
		struct penstock_done done;

		T_ERR(penstock_file_open(&f, io, name, O_RDWR, 0, &err), 0, &err);
		op.file = sync.file = f;
		op.flags = way == 1   ? PENSTOCK_OP_DATASYNC
			   : way == 2 ? PENSTOCK_OP_DATASYNC | PENSTOCK_OP_TRUNCATE
				      : 0;
		atomic_store(&nr_flushed, 0);
		watched = &backing;
		T_ERR(penstock_run(io, &op, &done, &err), 0, &err);
		if (!way)
			T_ERR(penstock_run(io, &sync, &done, &err), 0, &err);
		T_EQ(done.res, way ? (int64_t)size : 0);
		watched = NULL;
		for (unsigned n = 0; n < MEMBERS; n++)
			T_EQ(recorded[n], before);
		T_EQ(recorded[MEMBERS], size);
		T_EQ(nr_flushed, MEMBERS + 1);
		T_ERR(penstock_file_close(f, &err), 0, &err);
	}
	T_ERR(penstock_close(io, &err), 0, &err);
	T_EQ(penstock_backing_close(&backing), 0);
	T_ERR(penstock_stripe_remove(name, &err), 0, &err);
}

static bool no_memory;

FILE *__real_open_memstream(char **text, size_t *len);
FILE *__wrap_open_memstream(char **text, size_t *len);
FILE *__wrap_open_memstream(char **text, size_t *len)
{
	errno = ENOMEM;
	return no_memory ? NULL : __real_open_memstream(text, len);
}

static void a_header_for_which_there_is_no_memory_stays_as_it_is(void)
{
	struct penstock_backing backing;
	struct penstock_err err;

	make_members("m");
	penstock_pattern_fill(buf, sizeof(buf), 1, 0);
	T_ERR(penstock_stripe_create(name, 65536, folders, MEMBERS, 0, &err), 0, &err);
	transfer(true, 5000);
	T_ERR(penstock_backing_open(&backing, name, O_RDWR, 0, PENSTOCK_DIRECT_NEVER, &err), 0,
	      &err);
	no_memory = true;
	T_EQ(penstock_stripe_truncate(backing.stripe, 4000), -ENOMEM);
	no_memory = false;
	T_EQ(penstock_backing_close(&backing), 0);
	transfer(false, 5000);
	T_EQ(penstock_pattern_check(buf, 5000, 1, 0), 5000);
	T_ERR(penstock_stripe_remove(name, &err), 0, &err);
}

static const struct t_case cases[] = {
	T_CASE(a_killed_creation_leaves_nothing_half),
	T_CASE(a_killed_writer_leaves_the_file_usable),
	T_CASE(one_member_without_room_fails_the_write_and_leaves_the_size),
	T_CASE(a_thread_that_syncs_sees_no_size_of_a_write_that_finds_no_room),
	T_CASE(a_sync_tells_the_new_size_when_all_members_have_it),
	T_CASE(a_header_for_which_there_is_no_memory_stays_as_it_is),
};

int main(void)
{
	const struct t_group group = {"stripe", NULL, NULL, cases, T_COUNT(cases)};

	if (t_is_root())
		mounts_need();
	return t_run(&group, 1, NULL);
}
