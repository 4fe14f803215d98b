/* SPDX-License-Identifier: Apache-2.0 */
/* Drives under a KV store: one that fails, one that is slow, and one that has lost writes. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "base/util.h"
#include "kvstore/kvstore.h"
#include "tests/common/storekit.h"

enum { KEYS = 60, LEN = 100000 };

static _Atomic ino_t bad_files[2]; /* files that fail */
static _Atomic off_t bad_from;     /* from here on */
static _Atomic ino_t slow_file;    /* a file whose reads wait until it is none */
static _Atomic unsigned waiting;
static _Atomic ino_t
	blocked_file; /* a file whose writes wait for a permit each, until it is none */
static _Atomic unsigned nr_blocked, permits;
static _Atomic ino_t full_file; /* there is no space for this one, nor for others to grow */

static _Atomic bool quota;        /* which is why */
static _Atomic bool unlink_fails; /* every file, whoever removes it */
static _Atomic off_t torn;        /* where no write of bad_files[0] succeeds, others do */
static _Atomic unsigned behind;   /* of these: further on */

static _Atomic long passed; /* seconds, unseen by others */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, id, ts);

	if (id == CLOCK_MONOTONIC)
		ts->tv_sec += passed;
	return r;
}

static _Atomic unsigned dies_after; /* so many calls of these, unless it is 0 */

static void live_or_die(void)
{
	if (dies_after && --dies_after == 0)
		_exit(7);
}

static ino_t inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

static bool fails(int fd, off_t off)
{
	ino_t i = (bad_files[0] || bad_files[1]) && off >= bad_from ? inode(fd) : 0;

	return i && (i == bad_files[0] || i == bad_files[1]);
}

/* Those of the engine `threads`. */
ssize_t pread(int fd, void *buf, size_t len, off_t off)
{
	live_or_die();
	if (slow_file && inode(fd) == slow_file)
		waiting++;
	while (slow_file && inode(fd) == slow_file)
		usleep(1000);
	errno = EIO;
	return fails(fd, off) ? -1 : syscall(SYS_pread64, fd, buf, len, off);
}

static void wait_for_a_permit(int fd)
{
	nr_blocked++;
	while (blocked_file && inode(fd) == blocked_file && !permits)
		usleep(1000);
	if (permits)
		permits--;
}

int fallocate(int fd, int mode, off_t off, off_t len)
{
	errno = quota ? EDQUOT : ENOSPC;
	return full_file ? -1 : (int)syscall(SYS_fallocate, fd, mode, off, len);
}

ssize_t pwrite(int fd, const void *buf, size_t len, off_t off)
{
	live_or_die();
	if (blocked_file && inode(fd) == blocked_file)
		wait_for_a_permit(fd);
	errno = quota ? EDQUOT : ENOSPC;
	if (full_file && inode(fd) == full_file)
		return -1;
	errno = EIO;
	if (torn && inode(fd) == bad_files[0]) {
		behind += off > torn;
		return off == torn ? -1 : syscall(SYS_pwrite64, fd, buf, len, off);
	}
	return fails(fd, off) ? -1 : syscall(SYS_pwrite64, fd, buf, len, off);
}

int unlinkat(int dir, const char *name, int flags)
{
	errno = EIO;
	return unlink_fails ? -1 : (int)syscall(SYS_unlinkat, dir, name, flags);
}

static _Atomic bool drop_at_flock; /* somebody, the store in "a", before it is locked */

int flock(int fd, int op)
{
	if (drop_at_flock) {
		drop_at_flock = false;
		T_EQ(penstock_store_drop(t_path("a"), NULL), 0);
	}
	return (int)syscall(SYS_flock, fd, op);
}

static ino_t inode_of(const char *name)
{
	struct stat st;

	T_EQ(stat(t_path(name), &st), 0);
	return st.st_ino;
}

static void begin(void)
{
	sk_reset();
	sk_opts.engine = "threads";
	sk_opts.flags = PENSTOCK_STORE_NO_RECENT;
}

static void empty(const char *name)
{
	char cmd[600];

	snprintf(cmd, sizeof(cmd), "rm -rf %s/*", t_path(name));
	T_EQ(system(cmd), 0);
}

static void end(void)
{
	bad_files[0] = bad_files[1] = slow_file = blocked_file = full_file = 0;
	bad_from = torn = passed = 0;
	unlink_fails = quota = false;
	if (sk)
		sk_close();
	empty(".");
}

static const char *key_of(unsigned i)
{
	static char key[16];

	snprintf(key, sizeof(key), "k%u", i);
	return key;
}

static void set_some(unsigned from, unsigned to, uint64_t seed)
{
	for (unsigned i = from; i < to; i++)
		T_EQ(sk_set(key_of(i), seed + i, LEN), LEN);
}

static struct store_entry *entry_of(const char *key)
{
	return store_index_find(&sk->index, store_hash_key(&sk->secret, key, strlen(key)));
}

static void a_drive_that_fails_loses_only_its_entries(void)
{
	bool there[KEYS];
	unsigned left = 0;

	sk_open("a b", MIB(48));
	set_some(0, KEYS, 0);
	bad_files[0] = inode_of("a/data");
	bad_files[1] = inode_of("a/log");
	for (unsigned i = 0; i < KEYS; i++) {
		int64_t r = sk_get(key_of(i), i, LEN);

		T_OK(r == LEN || r == -EIO || r == -ENOENT);
		there[i] = r == LEN;
		left += there[i];
	}
	T_OK(left > 10 && left < KEYS - 10);
	T_EQ(sk_stats().dirs_out, 1);
	T_OK(sk_stats().errors >= 16 && sk_reported_errors() >= 16);
	T_EQ(sk_stats().entries, left);
	set_some(KEYS, KEYS + 20, 0); /* the other one goes on */
	sk_close();
	bad_files[0] = bad_files[1] = 0;
	sk_open("a b", MIB(48)); /* it is back, and empty */
	T_EQ(sk_stats().recovered, left + 20);
	for (unsigned i = 0; i < KEYS + 20; i++)
		T_EQ(sk_get(key_of(i), i, LEN), i >= KEYS || there[i] ? LEN : -ENOENT);
	T_EQ(sk_stats().corrupt, 0);
}

/* Any of them comes back empty: the others know what they have, and whose they are. */
static void a_drive_that_is_replaced_loses_only_its_entries(void)
{
	static const char *const drives[] = {"a", "b", "c"};

	for (unsigned i = 0; i < 3; i++) {
		struct store_secret was;
		unsigned gone = 0;

		sk_open("a b c", MIB(72));
		was = sk->secret;
		set_some(0, KEYS, i);
		for (unsigned k = 0; k < KEYS; k++)
			gone += entry_of(key_of(k))->dir == i;
		T_OK(gone > 5 && gone < KEYS - 5);
		sk_close();
		empty(drives[i]);
		for (unsigned again = 0; again < 2; again++) {
			sk_open("a b c", MIB(72));
			T_EQ(sk->secret.a, was.a);
			T_EQ(sk_stats().recovered, KEYS - gone);
			T_EQ(sk_stats().dirs_out, 0);
			sk_close();
		}
		sk_open("a b c", MIB(72));
		for (unsigned k = 0; k < KEYS; k++)
			gone -= sk_get(key_of(k), i + k, LEN) == -ENOENT;
		T_EQ(gone, 0);
		T_EQ(sk_stats().corrupt, 0);
		sk_close();
	}
}

/* It fails just then, and whoever cleared the store is killed behind it. */
static void a_drive_that_could_not_be_cleared_comes_back_empty(void)
{
	int status;
	pid_t child;

	sk_open("a b", MIB(48));
	set_some(0, KEYS, 0);
	sk_close();
	child = fork();
	T_OK(child >= 0);
	if (child == 0) {
		sk_open("a b", MIB(48));
		unlink_fails = true;
		bad_files[0] = inode_of("b/log");
		_exit(penstock_store_clear(sk, NULL) == -EIO && sk_stats().dirs_out == 1 ? 0 : 1);
	}
	T_EQ(waitpid(child, &status, 0), child);
	T_EQ(status, 0);
	sk_open("a b", MIB(48));
	T_EQ(sk_stats().dirs_out, 0);
	T_EQ(sk_stats().recovered, 0);
}

static void drives_of_two_stores_are_refused(void)
{
	struct penstock_err err = {0, ""};

	sk_open("a b", MIB(48));
	sk_close();
	sk_open("c", MIB(24));
	sk_close();
	T_ERR(sk_try_open("new c a b", MIB(96), &err), -EEXIST, &err);
	sk = NULL;
	T_STR_HAS(err.msg, "/a: belongs to another store than ");
	sk_open("b a", MIB(48)); /* and nothing has become of them */
}

static void a_store_that_is_being_removed_is_refused(void)
{
	struct penstock_err err = {0, ""};
	struct stat st;

	sk_open("a", MIB(24));
	sk_close();
	drop_at_flock = true;
	T_ERR(sk_try_open("a", MIB(24), &err), -EBUSY, &err);
	sk = NULL;
	T_STR_HAS(err.msg, "is being removed");
	T_OK(stat(t_path("a"), &st) < 0);
}

/* Whoever asks for it, and how often: it is one failure, and can be set again. */
static void a_bad_place_of_a_drive_loses_one_value(void)
{
	static unsigned char bufs[20][LEN];
	struct penstock_iov iov[20];
	struct penstock_store_item items[20];
	int64_t results[20];
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_GET, .nr = 20, .items = items};

	sk_open("a", MIB(48));
	set_some(0, 2, 0);
	b.results = results;
	for (unsigned i = 0; i < 20; i++) {
		iov[i] = (struct penstock_iov){bufs[i], LEN};
		items[i] = (struct penstock_store_item){"k0", 2, 1, &iov[i]};
	}
	bad_files[0] = inode_of("a/data");
	for (unsigned i = 0; i < 2; i++) {
		T_EQ(penstock_store_run(sk, &b, NULL, NULL), 0);
		T_EQ(results[0], i ? -ENOENT : -EIO);
	}
	T_EQ(sk_stats().dirs_out, 0);
	T_EQ(sk_exists("k0"), -ENOENT);
	bad_files[0] = 0;
	b.opcode = PENSTOCK_STORE_SET;
	b.flags = PENSTOCK_STORE_ABSENT;
	b.nr = 1;
	penstock_pattern_fill(bufs[0], LEN, 3, 0);
	T_EQ(penstock_store_run(sk, &b, NULL, NULL), 0);
	T_EQ(results[0], LEN);
	T_EQ(sk_get("k0", 3, LEN), LEN);
	T_EQ(sk_get("k1", 1, LEN), LEN);
}

/* Its key is gone and all space is used again and again before its bytes are read. */
static void a_value_keeps_its_place_while_it_is_read(void)
{
	static unsigned char buf[LEN];
	struct penstock_iov iov = {buf, LEN};
	struct penstock_store_item item = {"held", 4, 1, &iov};
	int64_t result = 0, ticket;
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_GET,
					 .nr = 1,
					 .items = &item,
					 .results = &result,
					 .memory = PENSTOCK_MEMORY_HOST};
	struct penstock_store_done done;

	sk_opts.io_threads = 4;
	sk_open("a", MIB(8));
	T_EQ(sk_set("held", 7, LEN), LEN);
	waiting = 0;
	slow_file = inode_of("a/data");
	ticket = penstock_store_submit(sk, &b, NULL);
	T_OK(ticket > 0);
	while (!waiting)
		usleep(1000);
	T_EQ(sk_delete("held"), 0);
	set_some(0, 300, 0); /* 30 MB */
	T_OK(sk_stats().evictions > 100);
	slow_file = 0;
	T_EQ(penstock_store_wait(sk, (uint64_t)ticket, -1, &done), 0);
	T_EQ(result, LEN);
	T_EQ(penstock_pattern_check(buf, LEN, 7, 0), LEN);
	T_EQ(sk_stats().corrupt, 0);
}

static unsigned char *large; /* a value, of which two pages say when they are read */
static _Atomic bool is_late, was_late;

enum { LARGE = 8 << 20, FIRST = 2 << 20, SECOND = 6 << 20 };

static void note_late(void *arg, const struct penstock_store_done *done)
{
	(void)arg;
	is_late = done->good == 0;
}

/* At the first page an hour goes by, and at the second it has been seen. */
static void page_read(int sig, siginfo_t *info, void *context)
{
	size_t at = (size_t)((unsigned char *)info->si_addr - large);

	(void)context;
	if (at >= LARGE)
		signal(sig, SIG_DFL);
	if (at < SECOND)
		passed += 3600;
	else
		was_late = is_late;
	mprotect(large + (at < SECOND ? FIRST : SECOND), 4096, PROT_READ | PROT_WRITE);
}

static void deadlines_are_seen_while_a_large_value_is_summed_up(void)
{
	static unsigned char buf[LEN];
	struct penstock_iov iov = {buf, LEN};
	struct penstock_store_item item = {"k", 1, 1, &iov};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_GET,
					 .nr = 1,
					 .items = &item,
					 .deadline_ns = 1800ull * 1000000000,
					 .on_done = note_late};
	struct sigaction old, on = {.sa_sigaction = page_read, .sa_flags = SA_SIGINFO};

	if (T_ASAN)
		T_SKIP("asan",
		       "AddressSanitizer takes the signal by which pages say that they are read");
	sk_opts.io_threads = 4;
	sk_open("a", MIB(48));
	T_EQ(sk_set("k", 1, LEN), LEN);
	large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T_OK(large != MAP_FAILED);
	T_EQ(sigaction(SIGSEGV, &on, &old), 0);
	for (unsigned copies = 0; copies < 2; copies++) { /* of two ways to sum up */
		is_late = was_late = false;
		waiting = 0;
		slow_file = inode_of("a/data");
		T_OK(penstock_store_submit(sk, &b, NULL) > 0);
		while (!waiting)
			usleep(1000);
		T_EQ(mprotect(large + FIRST, 4096, PROT_NONE), 0);
		T_EQ(mprotect(large + SECOND, 4096, PROT_NONE), 0);
		T_EQ(sk_op(PENSTOCK_STORE_SET, "large", 5, large, LARGE, copies * (UINT64_MAX / 4)),
		     LARGE);
		T_OK(was_late);
		slow_file = 0;
	}
	T_EQ(sigaction(SIGSEGV, &old, NULL), 0);
	sk_close();
	munmap(large, LARGE);
}

static unsigned char *slurp(const char *name, size_t *ret_len)
{
	int fd = open(t_path(name), O_RDONLY | O_CLOEXEC);
	struct stat st;
	unsigned char *p;

	T_OK(fd >= 0 && fstat(fd, &st) == 0);
	*ret_len = (size_t)st.st_size;
	p = malloc(*ret_len + 1);
	T_OK(p && read(fd, p, *ret_len) == (ssize_t)*ret_len);
	close(fd);
	return p;
}

/* Pages of @name are as they were, each with a chance of one in @of. */
static void lose_writes(const char *name, const unsigned char *old, size_t len, unsigned of,
			struct penstock_random *rng)
{
	int fd = open(t_path(name), O_WRONLY | O_CLOEXEC);

	T_OK(fd >= 0);
	for (size_t at = 0; at < len; at += 4096) {
		size_t n = min_u64(4096, len - at);

		if (penstock_random_below(rng, of) == 0)
			T_EQ(syscall(SYS_pwrite64, fd, old + at, n, at), n);
	}
	close(fd);
}

/* Loss of power: the device has forgotten writes that it had said were done. */
static void writes_that_were_lost_are_misses(void)
{
	struct penstock_random rng;
	uint64_t corrupt = 0;

	penstock_random_seed(&rng, 5);
	for (unsigned round = 0; round < 8; round++) {
		size_t data_len, log_len;
		unsigned char *data, *log;
		uint64_t now = 1000ull * (round + 1), before = now - 1000;

		sk_open("a", MIB(4)); /* not all of them fit */
		set_some(0, KEYS, before);
		sk_close();
		data = slurp("a/data", &data_len);
		log = slurp("a/log", &log_len);
		sk_open("a", MIB(4));
		set_some(0, KEYS, now);
		sk_close();
		lose_writes("a/data", data, data_len, 20, &rng);
		if (round % 2) /* and the log its end, or more */
			lose_writes("a/log", log, log_len, 2, &rng);
		free(data);
		free(log);
		sk_open("a", MIB(4));
		for (unsigned i = 0; i < KEYS; i++) {
			unsigned char buf[LEN];
			int64_t r = sk_op(PENSTOCK_STORE_GET, key_of(i),
					  (uint32_t)strlen(key_of(i)), buf, LEN, 0);

			T_OK(r == LEN || r == -EBADMSG || r == -ENOENT);
			if (r == LEN)
				T_OK(penstock_pattern_check(buf, LEN, now + i, 0) == LEN ||
				     (round % 2 &&
				      penstock_pattern_check(buf, LEN, before + i, 0) == LEN));
		}
		corrupt += sk_stats().corrupt;
		sk_close();
	}
	T_OK(corrupt > 0);
	t_note("%llu found corrupt", (unsigned long long)corrupt);
}

static size_t log_bytes(const char *name)
{
	struct stat st;

	T_EQ(stat(t_path(name), &st), 0);
	return (size_t)st.st_size;
}

/* The log as it was: the process was killed before what came behind was written. */
static void put_back(const char *name, unsigned char *was, size_t len)
{
	int fd = open(t_path(name), O_WRONLY | O_TRUNC | O_CLOEXEC);

	T_OK(fd >= 0 && write(fd, was, len) == (ssize_t)len);
	close(fd);
	free(was);
}

/* Drives take turns. */
static void set_on(const char *key, uint64_t seed, const char *log)
{
	size_t was = log_bytes(log);

	T_EQ(sk_set("turn", 0, LEN), LEN);
	if (log_bytes(log) > was)
		T_EQ(sk_set("turn", 0, LEN), LEN);
	was = log_bytes(log);
	T_EQ(sk_set(key, seed, LEN), LEN);
	T_OK(log_bytes(log) > was);
}

/*
 * The logs of two drives are written one after the other.  A kill between them leaves two values
 * of a key, and one while the newer is deleted must not bring the older one back.
 */
static void two_kills_between_two_logs_bring_nothing_old_back(void)
{
	static const char *const logs[] = {"a/log", "b/log"};

	for (unsigned i = 0; i < 2; i++) { /* they are read in this order */
		size_t len;
		unsigned char *was;

		sk_open("a b", MIB(48));
		set_on("k", 1, logs[i]);
		was = slurp(logs[i], &len);
		set_on("k", 2, logs[!i]);
		sk_close();
		put_back(logs[i], was, len);
		sk_open("a b", MIB(48));
		T_EQ(sk_get("k", 2, LEN), LEN);
		was = slurp(logs[i], &len);
		T_EQ(sk_delete("k"), 0);
		sk_close();
		put_back(logs[i], was, len);
		sk_open("a b", MIB(48));
		T_EQ(sk_exists("k"), -ENOENT);
		sk_close();
	}
}

/* Nor does a newest value whose space is none of the store's any more. */
static void a_newest_value_that_is_lost_brings_nothing_old_back(void)
{
	size_t len;
	unsigned char *was;

	sk_open("a b", MIB(48));
	set_on("k", 1, "b/log");
	set_some(0, KEYS, 0);
	was = slurp("b/log", &len);
	set_on("k", 2, "a/log");
	sk_close();
	put_back("b/log", was, len);
	for (unsigned i = 0; i < 2; i++) {
		sk_open("a b", MIB(4));
		T_EQ(sk_get("k", 2, LEN), -ENOENT);
		T_OK(sk_stats().recovered > 0);
		T_EQ(sk_stats().recovered, sk_stats().entries);
		T_OK(i ? sk_stats().lost == 0 : sk_stats().lost > 0);
		sk_close();
	}
}

/* A log is read in pieces of 4 MiB: of this one the second, which says what has become of "k". */
static void a_log_that_cannot_be_read_stays_as_it_is(void)
{
	struct penstock_err err = {0, ""};
	char key[4000];
	size_t len;

	sk_opts.log_bytes = MIB(16);
	sk_open("a", MIB(64));
	T_EQ(sk_set("k", 1, LEN), LEN);
	T_EQ(sk_set("gone", 1, LEN), LEN);
	memset(key, 'x', sizeof(key));
	for (unsigned i = 0; log_bytes("a/log") < MIB(5); i++) {
		memcpy(key, &i, sizeof(i));
		T_EQ(sk_op(PENSTOCK_STORE_SET, key, sizeof(key), key, 1, 0), 1);
	}
	T_EQ(sk_set("k", 2, LEN), LEN);
	T_EQ(sk_delete("gone"), 0);
	sk_close();
	len = log_bytes("a/log");
	bad_files[0] = inode_of("a/log");
	bad_from = MIB(4);
	T_ERR(sk_try_open("a", MIB(64), &err), -EIO, &err);
	sk = NULL;
	bad_files[0] = 0;
	T_EQ(log_bytes("a/log"), len);
	sk_open("a", MIB(64));
	T_EQ(sk_get("k", 2, LEN), LEN);
	T_EQ(sk_exists("gone"), -ENOENT);
}

/* A process that opens the store and is killed at its @n-th read or write; was it? */
static bool killed_at(unsigned n)
{
	struct penstock_err err;
	int status;
	pid_t child = fork();

	T_OK(child >= 0);
	if (child == 0) {
		dies_after = n;
		_exit(sk_try_open("a b c", MIB(48), &err) == 0 ? 0 : 1);
	}
	T_EQ(waitpid(child, &status, 0), child);
	T_OK(WIFEXITED(status) && WEXITSTATUS(status) != 1);
	return WEXITSTATUS(status) == 7;
}

/* Heads are written one after the other: none of their logs is behind. */
static void a_kill_while_it_is_opened_loses_nothing(void)
{
	unsigned n = 1;

	sk_open("a b c", MIB(48));
	set_some(0, KEYS, 0);
	sk_close();
	for (bool again = true; again; n++) {
		again = killed_at(n);
		again = killed_at(n + 1) || again; /* and once more, elsewhere */
		sk_open("a b c", MIB(48));
		T_EQ(sk_stats().recovered, KEYS);
		sk_close();
		again = killed_at(n) || again;
	}
	T_OK(n > 9);
	t_note("%u places", n);
	sk_open("a b c", MIB(48));
	for (unsigned i = 0; i < KEYS; i++)
		T_EQ(sk_get(key_of(i), i, LEN), LEN);
}

/* Memory of records that are still to be written. */
static size_t unwritten(void)
{
	return sk->dirs[0].pending.capacity + sk->dirs[0].group.capacity;
}

/* Sets are refused, and nothing of them stays; when there is space again they are taken. */
static void a_log_without_space_does_not_stay_so(void)
{
	unsigned refused = 0;

	sk_open("a", MIB(2));
	T_EQ(sk_set("old", 1, 1000), 1000);
	full_file = inode_of("a/log");
	for (unsigned i = 0; i < 8000; i++)
		refused += sk_set(key_of(i), i, 100) == -ENOSPC;
	T_EQ(refused, 8000);
	T_OK(unwritten() <= (size_t)(8 * STORE_RECORD_MAX));
	T_EQ(sk_stats().dirs_out, 0);
	T_EQ(sk_get("old", 1, 1000), 1000);
	full_file = 0;
	for (unsigned i = 0; i < 200; i++) {
		while (sk_set(key_of(i), i, 100) == -ENOSPC)
			usleep(1000);
		T_EQ(sk_get(key_of(i), i, 100), 100);
	}
	sk_close();
	sk_open("a", MIB(2));
	T_EQ(sk_stats().recovered, 201);
	T_EQ(sk_stats().lost, 0);
}

static void a_quota_is_a_full_file_system(void)
{
	static const char *const files[] = {"a/data", "a/log"};

	sk_open("a", MIB(2));
	T_EQ(sk_set("old", 1, 1000), 1000);
	quota = true;
	for (unsigned f = 0; f < 2; f++) {
		full_file = inode_of(files[f]);
		for (unsigned i = 0; i < 20; i++)
			T_EQ(sk_set(key_of(i), i, 100), -ENOSPC);
	}
	T_EQ(sk_stats().dirs_out, 0);
	T_EQ(sk_stats().errors, 0);
	T_EQ(sk_stats().sets_no_space, 40);
	T_EQ(sk_get("old", 1, 1000), 1000);
}

/* More keys at once than the log of a small store can have records for. */
static void long_keys_at_once_fit_into_a_short_log(void)
{
	enum { N = 64 };
	static char keys[N][4096];
	struct penstock_iov iov = {keys, 1};
	struct penstock_store_item items[N];
	int64_t results[N];
	struct penstock_store_batch b = {
		.opcode = PENSTOCK_STORE_SET, .nr = N, .items = items, .results = results};

	sk_open("a", MIB(2));
	for (unsigned i = 0; i < N; i++) {
		memset(keys[i], (int)i + 1, sizeof(keys[i]));
		items[i] = (struct penstock_store_item){keys[i], sizeof(keys[i]), 1, &iov};
	}
	for (unsigned round = 0; round < 3; round++) {
		T_EQ(penstock_store_run(sk, &b, NULL, NULL), 0);
		for (unsigned i = 0; i < N; i++)
			T_EQ(results[i], 1);
	}
	T_OK(sk_stats().evictions > 0);
	T_EQ(sk_set("short", 1, 100), 100);
}

static unsigned nr_to_commit(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&sk->queues.lock);
	for (const struct store_op *op = sk->queues.to_commit.first; op; op = op->next)
		n++;
	pthread_mutex_unlock(&sk->queues.lock);
	return n;
}

static uint64_t submit(uint32_t opcode, const char *const *keys, unsigned nr, int64_t *results)
{
	static unsigned char value[LEN];
	struct penstock_iov iov = {value, LEN};
	struct penstock_store_item items[4];
	struct penstock_store_batch b = {
		.opcode = opcode, .nr = nr, .items = items, .results = results};
	int64_t ticket;

	penstock_pattern_fill(value, LEN, 9, 0);
	for (unsigned i = 0; i < nr; i++)
		items[i] =
			(struct penstock_store_item){keys[i], (uint32_t)strlen(keys[i]), 1, &iov};
	ticket = penstock_store_submit(sk, &b, NULL);
	T_OK(ticket > 0);
	return (uint64_t)ticket;
}

static const char *next_on(unsigned dir, unsigned *pos)
{
	const struct store_entry *e = entry_of(key_of(*pos));

	while (!e || e->dir != dir) {
		T_OK(++*pos < KEYS);
		e = entry_of(key_of(*pos));
	}
	return key_of((*pos)++);
}

static void wait_for_writes(unsigned n)
{
	while (nr_blocked < n)
		usleep(1000);
}

/*
 * A drive fails while the log before its own is written: the sets that are in line for its own are
 * not there, whatever it was told of them.
 */
static void sets_do_not_outlive_their_drive(void)
{
	static const char *const sets[] = {"x0", "x1", "x2", "x3"};
	int64_t gone[2], results[4];
	struct penstock_store_done done;
	unsigned pos = 0, failed = 0;
	uint64_t tickets[3];
	const char *key;

	sk_open("a b", MIB(48));
	set_some(0, KEYS, 0);
	nr_blocked = permits = 0;
	blocked_file = inode_of("a/log");
	key = next_on(0, &pos);
	tickets[0] = submit(PENSTOCK_STORE_DELETE, &key, 1, &gone[0]);
	wait_for_writes(1); /* and the next group comes together */
	key = next_on(0, &pos);
	tickets[1] = submit(PENSTOCK_STORE_DELETE, &key, 1, &gone[1]);
	tickets[2] = submit(PENSTOCK_STORE_SET, sets, 4, results);
	while (nr_to_commit() < 5)
		usleep(1000);
	permits = 1;
	wait_for_writes(2);
	bad_files[0] = inode_of("b/data");
	pos = 0;
	while (!sk_stats().dirs_out)
		T_EQ(sk_get(next_on(1, &pos), 0, LEN), -EIO);
	bad_files[0] = blocked_file = 0;
	for (unsigned i = 0; i < 3; i++)
		T_EQ(penstock_store_wait(sk, tickets[i], -1, &done), 0);
	for (unsigned i = 0; i < 4; i++) {
		T_OK(results[i] == LEN || results[i] == -EIO);
		failed += results[i] < 0;
		T_EQ(sk_get(sets[i], 9, LEN), results[i] < 0 ? -ENOENT : LEN);
	}
	T_OK(failed > 0 && failed < 4);
}

/*
 * What a reader finds behind a hole makes it believe nothing before: whatever a kill cuts off, no
 * part of a group may be there without those before it.
 */
static void a_large_group_is_written_in_order(void)
{
	enum { N = 512 };
	static char keys[N][4000];
	static int64_t results[N];
	struct penstock_iov iov = {keys, 1};
	static struct penstock_store_item items[N];
	struct penstock_store_batch b = {
		.opcode = PENSTOCK_STORE_SET, .nr = N, .items = items, .results = results};
	const char *old = "old";
	struct penstock_store_done done;
	int64_t gone, ticket;
	uint64_t first;

	sk_opts.log_bytes = MIB(16);
	sk_opts.io_threads = 4;
	sk_open("a", MIB(128));
	/* What the log writer cannot do while it writes. */
	while (sk->dirs[0].log_allocated < MIB(8))
		T_EQ(store_log_space_grow(&sk->dirs[0]), 0);
	while (extent_map_unused(sk->dirs[0].map) < 2 * N)
		T_EQ(store_dir_grow(&sk->dirs[0]), 0);
	T_EQ(sk_set(old, 1, LEN), LEN);
	T_EQ(sk_set("stays", 2, LEN), LEN);
	for (unsigned i = 0; i < N; i++) {
		memset(keys[i], 'x', sizeof(keys[i]));
		memcpy(keys[i], &i, sizeof(i));
		items[i] = (struct penstock_store_item){keys[i], sizeof(keys[i]), 1, &iov};
	}
	nr_blocked = permits = behind = 0;
	blocked_file = inode_of("a/log");
	first = submit(PENSTOCK_STORE_DELETE, &old, 1, &gone);
	wait_for_writes(1); /* and the next group comes together */
	ticket = penstock_store_submit(sk, &b, NULL);
	T_OK(ticket > 0);
	while (nr_to_commit() < N)
		usleep(1000);
	torn = (off_t)(sk->dirs[0].log.end + sk->dirs[0].group.len);
	bad_files[0] = blocked_file;
	blocked_file = 0;
	T_EQ(penstock_store_wait(sk, first, -1, &done), 0);
	T_EQ(penstock_store_wait(sk, (uint64_t)ticket, -1, &done), 0);
	T_EQ(done.good, 0);
	T_EQ(behind, 0);
	bad_files[0] = 0;
	torn = 0;
	T_EQ(penstock_store_run(sk, &b, &done, NULL), 0);
	T_EQ(done.good, N);
	sk_close();
	sk_open("a", MIB(128));
	T_EQ(sk_stats().recovered, N + 1);
	T_EQ(sk_stats().lost, 0);
	T_EQ(sk_get("stays", 2, LEN), LEN);
}

static void what_is_written_is_counted(void)
{
	struct penstock_store_stats st;

	sk_open("a", MIB(64));
	for (unsigned i = 0; i < 20; i++)
		T_EQ(sk_set(key_of(i), i, MIB(1)), MIB(1));
	T_EQ(sk_set("odd", 1, 5000), 5000);
	st = sk_stats();
	T_EQ(st.bytes_set, MIB(20) + 5000);
	T_EQ(st.bytes_written - st.log_bytes, MIB(20) + 8192);
	T_OK(st.log_bytes >= 21 * 48 && st.log_bytes < 21 * 128);
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(a_drive_that_fails_loses_only_its_entries),
		T_CASE(a_drive_that_is_replaced_loses_only_its_entries),
		T_CASE(a_drive_that_could_not_be_cleared_comes_back_empty),
		T_CASE(drives_of_two_stores_are_refused),
		T_CASE(a_store_that_is_being_removed_is_refused),
		T_CASE(a_bad_place_of_a_drive_loses_one_value),
		T_CASE(a_value_keeps_its_place_while_it_is_read),
		T_CASE(deadlines_are_seen_while_a_large_value_is_summed_up),
		T_CASE(writes_that_were_lost_are_misses),
		T_CASE(two_kills_between_two_logs_bring_nothing_old_back),
		T_CASE(a_newest_value_that_is_lost_brings_nothing_old_back),
		T_CASE(a_log_that_cannot_be_read_stays_as_it_is),
		T_CASE(a_kill_while_it_is_opened_loses_nothing),
		T_CASE(a_log_without_space_does_not_stay_so),
		T_CASE(a_quota_is_a_full_file_system),
		T_CASE(long_keys_at_once_fit_into_a_short_log),
		T_CASE(sets_do_not_outlive_their_drive),
		T_CASE(a_large_group_is_written_in_order),
		T_CASE(what_is_written_is_counted),
	};
	static const struct t_group group = {"kvdrive", begin, end, cases, T_COUNT(cases)};

	return t_run(&group, 1, NULL);
}
