/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing a KV store: what was set before is found by nobody afterwards, whatever happens. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/common/storekit.h"

enum { KEYS = 300 };

static void begin(void)
{
	sk_reset();
	sk_open("d e", MIB(64));
}

static int clear(void)
{
	struct penstock_err err = {0, ""};
	int r = penstock_store_clear(sk, &err);

	T_EQ(r < 0, err.msg[0] != 0);
	return r;
}

static const char *name(unsigned i)
{
	static char key[16];

	snprintf(key, sizeof(key), "k%u", i);
	return key;
}

static void fill(uint64_t seed)
{
	for (unsigned i = 0; i < KEYS; i++)
		T_EQ(sk_set(name(i), seed + i, 5000), 5000);
}

static void nothing_is_there(void)
{
	struct penstock_store_stats now = sk_stats();

	T_EQ(now.entries, 0);
	T_EQ(now.value_bytes, 0);
	for (unsigned i = 0; i < KEYS; i++) {
		T_EQ(sk_exists(name(i)), -ENOENT);
		T_EQ(sk_get(name(i), 0, 5000), -ENOENT);
	}
}

static void what_was_set_before_is_not_found(void)
{
	fill(0);
	T_EQ(clear(), 0);
	nothing_is_there();
	T_EQ(sk_stats().used_bytes, 0);
	fill(1000);
	for (unsigned i = 0; i < KEYS; i++)
		T_EQ(sk_get(name(i), 1000 + i, 5000), 5000);
	T_EQ(clear(), 0);
	T_EQ(clear(), 0);
	nothing_is_there();
	sk_close();
	sk_open("d e", MIB(64));
	nothing_is_there();
	T_EQ(sk_stats().recovered, 0);
	T_EQ(sk_stats().lost, 0);
}

/* A process that clears its store in the midst of what it does, and is killed. */
static void killed_run(uint64_t seed, unsigned later)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		sk_open("d e", MIB(64));
		fill(seed);
		for (unsigned i = 0; i < 40; i++)
			T_EQ(sk_delete(name(i)), 0);
		T_EQ(clear(), 0);
		for (unsigned i = 0; i < later; i++)
			T_EQ(sk_set(name(i), seed + 5000 + i, 7000), 7000);
		kill(getpid(), SIGKILL);
	}
	T_EQ(waitpid(pid, &status, 0), pid);
	T_OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void it_stays_so_after_a_kill(void)
{
	sk_close();
	killed_run(0, 0);
	sk_open("d e", MIB(64));
	T_EQ(sk_stats().recovered, 0);
	nothing_is_there();
	sk_close();
	killed_run(100, 20);
	sk_open("d e", MIB(64));
	T_EQ(sk_stats().recovered, 20);
	T_EQ(sk_stats().lost, 0);
	for (unsigned i = 0; i < KEYS; i++)
		T_EQ(sk_get(name(i), 5100 + i, 7000), i < 20 ? 7000 : -ENOENT);
}

/* ---------------------------------------------------------------- under way */

static sem_t blocked, go_on;

static void block_in_callback(void *arg, const struct penstock_store_done *done)
{
	(void)arg;
	(void)done;
	sem_post(&blocked);
	while (sem_wait(&go_on) < 0)
		T_EQ(errno, EINTR);
}

/* The one worker does nothing from here on until it is let go. */
static void block_worker(void)
{
	struct penstock_store_item item = {"x", 1, 0, NULL};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_EXISTS,
					 .nr = 1,
					 .items = &item,
					 .on_done = block_in_callback};

	T_OK(penstock_store_submit(sk, &b, NULL) > 0);
	while (sem_wait(&blocked) < 0)
		T_EQ(errno, EINTR);
}

static int64_t submit(uint32_t opcode, const char *key, const struct penstock_iov *iov,
		      int64_t *result)
{
	struct penstock_store_item item = {key, (uint32_t)strlen(key), 1, iov};
	struct penstock_store_batch b = {
		.opcode = opcode, .nr = 1, .items = &item, .results = result};
	int64_t ticket = penstock_store_submit(sk, &b, NULL);

	T_OK(ticket > 0);
	return ticket;
}

static void await(int64_t ticket)
{
	struct penstock_store_done done;

	T_EQ(penstock_store_wait(sk, (uint64_t)ticket, -1, &done), 0);
}

static void a_set_that_came_before_is_not_found_after(void)
{
	char bytes[3][100] = {"early", "late", ""};
	struct penstock_iov iov[3] = {{bytes[0], 100}, {bytes[1], 100}, {bytes[2], 100}};
	int64_t results[3], early, late, get;

	T_EQ(sk_set("c", 1, 100), 100);
	T_EQ(sem_init(&blocked, 0, 0), 0);
	T_EQ(sem_init(&go_on, 0, 0), 0);
	block_worker();
	early = submit(PENSTOCK_STORE_SET, "a", &iov[0], &results[0]);
	get = submit(PENSTOCK_STORE_GET, "c", &iov[2], &results[2]);
	T_EQ(clear(), 0);
	late = submit(PENSTOCK_STORE_SET, "b", &iov[1], &results[1]);
	sem_post(&go_on);
	await(early);
	await(late);
	await(get);
	T_EQ(results[0], -ECANCELED);
	T_EQ(results[1], 100);
	T_EQ(results[2], -ENOENT);
	T_EQ(sk_exists("a"), -ENOENT);
	T_EQ(sk_exists("b"), 100);
	T_EQ(sk_stats().errors, 0);
	sk_close();
	sk_open("d e", MIB(64));
	T_EQ(sk_stats().recovered, 1);
	T_EQ(sk_exists("a"), -ENOENT);
}

/* Values name the round they were submitted in; those of a round before @cleared are not found. */
static pthread_rwlock_t turn = PTHREAD_RWLOCK_INITIALIZER;
static unsigned round_nr;
static _Atomic unsigned cleared;
static atomic_bool over;

static int64_t set_of_this_round(const char *key, unsigned *value, struct penstock_iov iov)
{
	int64_t ticket, result;

	pthread_rwlock_rdlock(&turn);
	for (unsigned i = 0; i < iov.len / sizeof(*value); i++)
		value[i] = round_nr;
	ticket = submit(PENSTOCK_STORE_SET, key, &iov, &result);
	pthread_rwlock_unlock(&turn);
	await(ticket);
	return result;
}

static void *work(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg, *value = malloc(40000), least;
	struct penstock_iov iov = {value, 40000};
	int64_t r;

	T_CHECK(value != NULL);
	for (unsigned i = 0; !atomic_load(&over); i++) {
		char key[16];
		uint32_t n = (uint32_t)snprintf(key, sizeof(key), "%u", (id + i) % 20);

		memset(value, 0, iov.len);
		least = atomic_load(&cleared);
		r = sk_op(PENSTOCK_STORE_GET, key, n, value, iov.len, 0);
		T_CHECK(r == -ENOENT || (r == 40000 && value[0] >= least));
		for (unsigned j = 0; r > 0 && j < iov.len / sizeof(*value); j++)
			T_CHECK(value[j] == value[0]);
		r = set_of_this_round(key, value, iov);
		T_CHECK(r == 40000 || r == -ECANCELED);
	}
	free(value);
	return NULL;
}

static void others_may_work_meanwhile(void)
{
	pthread_t t[4];
	void *msg;

	sk_close();
	sk_opts.threads = 3;
	sk_opts.memory = 200000; /* some from memory, some from the drives */
	sk_open("d e", MIB(4));
	for (unsigned i = 0; i < T_COUNT(t); i++)
		T_EQ(pthread_create(&t[i], NULL, work, (void *)(uintptr_t)i), 0);
	for (unsigned i = 0; i < 200 / T_STEP; i++) {
		pthread_rwlock_wrlock(&turn);
		round_nr++;
		pthread_rwlock_unlock(&turn);
		T_EQ(clear(), 0);
		atomic_store(&cleared, round_nr);
		usleep(1000);
	}
	atomic_store(&over, true);
	for (unsigned i = 0; i < T_COUNT(t); i++) {
		T_EQ(pthread_join(t[i], &msg), 0);
		T_JOINED(msg);
	}
	T_OK(sk_stats().hits > 0 && sk_stats().stored > 0);
	T_EQ(clear(), 0);
	T_EQ(sk_stats().entries, 0);
	T_EQ(sk_stats().used_bytes, 0);
	T_EQ(sk_stats().errors, 0);
}

/* ----------------------------------------------------------------- failures */

/* It was away when the others were cleared. */
static void a_directory_that_comes_back_has_nothing(void)
{
	fill(0);
	sk_close();
	sk_open("d", MIB(32));
	T_EQ(clear(), 0);
	sk_close();
	sk_open("d e", MIB(64));
	nothing_is_there();
}

static void it_takes_no_more_descriptors(void)
{
	struct rlimit was, few;
	int r;

	fill(0);
	T_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = was;
	few.rlim_cur = 3;
	T_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = clear();
	T_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	T_EQ(r, 0);
	T_EQ(sk_stats().dirs_out, 0);
	sk_close();
	sk_open("d e", MIB(64));
	nothing_is_there();
}

static void the_child_of_a_fork_clears_nothing(void)
{
	int status;
	pid_t pid;

	T_EQ(sk_set("a", 1, 10), 10);
	pid = fork();
	if (pid == 0)
		_exit(penstock_store_clear(sk, NULL) == -ECHILD ? 0 : 1);
	T_EQ(waitpid(pid, &status, 0), pid);
	T_EQ(status, 0);
	T_EQ(sk_get("a", 1, 10), 10);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(what_was_set_before_is_not_found),
		T_CASE(it_stays_so_after_a_kill),
		T_CASE(a_set_that_came_before_is_not_found_after),
		T_CASE(others_may_work_meanwhile),
		T_CASE(a_directory_that_comes_back_has_nothing),
		T_CASE(it_takes_no_more_descriptors),
		T_CASE(the_child_of_a_fork_clears_nothing),
	};
	static const struct t_group groups[] = {
		{"kvclear", begin, sk_end, cases, T_COUNT(cases)},
	};

	(void)argc;
	return t_run(groups, T_COUNT(groups), argv + 1);
}
