/* SPDX-License-Identifier: Apache-2.0 */
/* The KV store as its users see it: what is set can be got, by whom, how, and after what. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "base/util.h"
#include "kvstore/kvstore.h"
#include "tests/common/storekit.h"

static void what_is_set_can_be_got_and_what_is_deleted_not(void)
{
	T_EQ(sk_get("a", 1, 100), -ENOENT);
	T_EQ(sk_set("a", 1, 100), 100);
	T_EQ(sk_get("a", 1, 100), 100);
	T_EQ(sk_exists("a"), 100);
	T_EQ(sk_set("a", 2, 70000), 70000);
	T_EQ(sk_get("a", 2, 70000), 70000);
	T_EQ(sk_delete("a"), 0);
	T_EQ(sk_delete("a"), -ENOENT);
	T_EQ(sk_get("a", 2, 70000), -ENOENT);
	T_EQ(sk_exists("a"), -ENOENT);
}

static void values_of_every_length_come_back(void)
{
	static const uint64_t lens[] = {0,    1,     511,   512,     4095,    4096,
					4097, 65535, 65536, 1 << 20, 5000001, 20 << 20};

	for (int recent = 0; recent < 2; recent++) {
		for (unsigned i = 0; i < T_COUNT(lens); i++) {
			char key[16];

			snprintf(key, sizeof(key), "k%u", i);
			T_EQ(sk_set(key, i, lens[i]), lens[i]);
			T_EQ(sk_get(key, i, lens[i]), lens[i]);
			T_EQ(sk_get(key, i, lens[i] + 5000), lens[i]);
			if (lens[i])
				T_EQ(sk_get(key, i, lens[i] - 1), -EMSGSIZE);
			T_EQ(sk_delete(key), 0);
		}
		sk_close();
		sk_opts.flags |= PENSTOCK_STORE_NO_RECENT;
		sk_open("d", MIB(64));
	}
}

static void keys_of_1_to_4096_bytes_are_different(void)
{
	static unsigned char key[4097];
	char out[16];
	int64_t r;

	memset(key, 'k', sizeof(key));
	for (uint32_t n = 1; n <= 4096; n += n < 40 ? 1 : 507) {
		snprintf(out, sizeof(out), "%u", n);
		T_EQ(sk_op(PENSTOCK_STORE_SET, key, n, out, strlen(out), 0), strlen(out));
	}
	for (uint32_t n = 1; n <= 4096; n += n < 40 ? 1 : 507) {
		memset(out, 0, sizeof(out));
		r = sk_op(PENSTOCK_STORE_GET, key, n, out, sizeof(out) - 1, 0);
		T_OK(r > 0);
		T_EQ(atoi(out), n);
	}
}

static void bad_batches_are_refused_with_a_line(void)
{
	struct penstock_store_item item = {"k", 1, 0, NULL};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_GET, .nr = 1, .items = &item};
	struct penstock_err err = {0, ""};

	item.key_len = 4097;
	T_ERR(penstock_store_submit(sk, &b, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "4097");
	item.key_len = 0;
	T_ERR(penstock_store_submit(sk, &b, &err), -EINVAL, &err);
	item.key_len = 1;
	b.opcode = 9;
	T_ERR(penstock_store_submit(sk, &b, &err), -EINVAL, &err);
	b.opcode = PENSTOCK_STORE_GET;
	b.flags = PENSTOCK_STORE_PREFIX;
	T_ERR(penstock_store_submit(sk, &b, &err), -EINVAL, &err);
	b.flags = 0;
	b.reserved[1] = 1;
	T_ERR(penstock_store_submit(sk, &b, &err), -EINVAL, &err);
}

static void a_restart_finds_what_was_there(void)
{
	T_EQ(sk_set("a", 1, 300000), 300000);
	T_EQ(sk_set("b", 2, 5), 5);
	T_EQ(sk_set("c", 3, 0), 0);
	T_EQ(sk_set("a", 4, 300001), 300001);
	T_EQ(sk_delete("b"), 0);
	sk_close();
	sk_open("d", MIB(64));
	T_EQ(sk_stats().recovered, 2);
	T_EQ(sk_get("a", 4, 300001), 300001);
	T_EQ(sk_get("b", 2, 5), -ENOENT);
	T_EQ(sk_get("c", 3, 0), 0);
}

/* It may have said that something before it is gone. */
static void nothing_before_a_bad_record_is_believed(void)
{
	uint64_t third;
	int fd;

	T_EQ(sk_set("a", 1, 10), 10);
	T_EQ(sk_set("b", 2, 10), 10);
	third = (uint64_t)t_file_size(t_path("d/log"));
	T_EQ(sk_delete("a"), 0);
	T_EQ(sk_set("c", 3, 10), 10);
	sk_close();
	fd = open(t_path("d/log"), O_WRONLY);
	T_EQ(pwrite(fd, "!", 1, (off_t)third + 20), 1);
	close(fd);
	sk_open("d", MIB(64));
	T_EQ(sk_get("a", 1, 10), -ENOENT);
	T_EQ(sk_get("b", 2, 10), -ENOENT);
	T_EQ(sk_get("c", 3, 10), 10);
	T_EQ(sk_stats().lost, 3); /* the record, and two values */
	T_EQ(sk_reported_errors(), 1);
	/* At the end it is a write that was cut off, of which nobody was told. */
	T_EQ(sk_set("d", 4, 10), 10);
	sk_close();
	T_EQ(truncate(t_path("d/log"), t_file_size(t_path("d/log")) - 3), 0);
	sk_open("d", MIB(64));
	T_EQ(sk_get("c", 3, 10), 10);
	T_EQ(sk_get("d", 4, 10), -ENOENT);
	T_EQ(sk_set("d", 4, 10), 10);
	T_EQ(sk_get("d", 4, 10), 10);
}

static void two_stores_do_not_share_a_directory(void)
{
	struct penstock_store *first = sk;
	struct penstock_err err = {0, ""};

	T_ERR(sk_try_open("d", MIB(64), &err), -EBUSY, &err);
	T_STR_HAS(err.msg, "another store has it open");
	sk = first;
}

static void a_directory_with_other_files_is_refused(void)
{
	struct penstock_err err = {0, ""};

	sk_close();
	T_EQ(mkdir(t_path("other"), 0700), 0);
	t_file_make(t_path("other/precious"), 1, 10);
	T_ERR(sk_try_open("other", MIB(64), &err), -EEXIST, &err);
	T_STR_HAS(err.msg, "precious");
	T_FILE_PATTERN(t_path("other/precious"), 1, 10);
	T_ERR(penstock_store_open(&sk, (const char *const[]){"s3://b/x"}, 1, MIB(64), NULL, &err),
	      -EINVAL, &err);
	T_STR_HAS(err.msg, "s3://b/x");
	T_ERR(sk_try_open("d", 1000, &err), -EINVAL, &err);
	T_STR_HAS(err.msg, "1000");
}

static void another_version_is_refused_in_one_line(void)
{
	struct penstock_err err = {0, ""};
	int fd;

	sk_close();
	fd = open(t_path("d/penstock-store"), O_WRONLY | O_TRUNC);
	T_OK(fd >= 0);
	T_EQ(write(fd, "penstock-store 2 and more\n", 26), 26);
	close(fd);
	T_ERR(sk_try_open("d", MIB(64), &err), -EPROTO, &err);
	T_STR_HAS(err.msg, "version 2");
}

static void what_was_just_written_is_read_from_memory(void)
{
	T_EQ(sk_set("a", 1, 100000), 100000);
	T_EQ(sk_get("a", 1, 100000), 100000);
	T_EQ(sk_stats().hits_recent, 1);
	T_EQ(sk_stats().bytes_read, 0);
	T_OK(sk_stats().buffer_bytes <= MIB(64));
}

static uint64_t blocks_fixed(void)
{
	struct penstock_stats st = {.size = sizeof(st)};

	T_EQ(penstock_store_get_io_stats(sk, &st), 0);
	return st.blocks_fixed;
}

static void memory_can_be_registered_for_the_values(void)
{
	struct penstock_buf_info info = {0};
	struct penstock_err err = {0, ""};
	uint64_t fixed;
	void *mem;

	sk_close();
	sk_opts.flags |= PENSTOCK_STORE_NO_RECENT;
	sk_open("d", MIB(64));
	T_EQ(penstock_mem_alloc(&mem, 1 << 20, 0, 0, NULL, NULL), 0);
	penstock_pattern_fill(mem, 1 << 20, 3, 0);
	T_ERR(penstock_store_register(sk, mem, 1 << 20, PENSTOCK_BUF_HUGE, &info, &err), 0, &err);
	T_EQ(sk_op(PENSTOCK_STORE_SET, "a", 1, mem, 1 << 20, 0), 1 << 20);
	memset(mem, 0, 1 << 20);
	T_EQ(sk_op(PENSTOCK_STORE_GET, "a", 1, mem, 1 << 20, 0), 1 << 20);
	T_EQ(penstock_pattern_check(mem, 1 << 20, 3, 0), 1 << 20);
	fixed = blocks_fixed();
	if (info.got & PENSTOCK_BUF_REGISTERED)
		T_OK(fixed >= 2);
	T_EQ(penstock_store_unregister(sk, mem), 0);
	T_EQ(sk_op(PENSTOCK_STORE_GET, "a", 1, mem, 1 << 20, 0), 1 << 20);
	T_EQ(blocks_fixed(), fixed);
	penstock_mem_free(mem, 1 << 20);
}

static void exists_tells_the_length_of_the_prefix(void)
{
	struct penstock_store_item items[40];
	int64_t results[40];
	char keys[40][8];
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_EXISTS,
					 .nr = 40,
					 .items = items,
					 .results = results,
					 .flags = PENSTOCK_STORE_PREFIX};
	struct penstock_store_done d;

	for (unsigned i = 0; i < 40; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%u", i);
		items[i] =
			(struct penstock_store_item){keys[i], (uint32_t)strlen(keys[i]), 0, NULL};
		if (i != 23)
			T_EQ(sk_set(keys[i], i, i), i);
	}
	for (int async = 0; async < 2; async++) {
		if (async) {
			T_EQ(penstock_store_wait(sk, (uint64_t)penstock_store_submit(sk, &b, NULL),
						 T_NO_LIMIT, &d),
			     0);
		} else {
			T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
		}
		T_EQ(d.prefix, 23);
		T_EQ(results[22], 22);
		T_EQ(results[23], -ENOENT);
		T_EQ(results[24], -ENOENT);
		T_EQ(d.good, 23);
	}
	b.flags = 0;
	T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
	T_EQ(d.good, 39);
	T_EQ(d.prefix, 23);
}

static void batches_come_back_through_the_eventfd(void)
{
	enum { N = 50 };
	static char values[N][5000], got[N][5000];
	struct penstock_iov iov[N];
	struct penstock_store_item items[N];
	int64_t results[N];
	char keys[N][8];
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_SET,
					 .nr = N,
					 .items = items,
					 .results = results,
					 .tag = 77};
	struct penstock_store_done d;
	struct pollfd p = {penstock_store_fd(sk), POLLIN, 0};
	int64_t ticket;

	for (unsigned i = 0; i < N; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%u", i);
		memset(values[i], (int)i, sizeof(values[i]));
		iov[i] = (struct penstock_iov){values[i], sizeof(values[i])};
		items[i] = (struct penstock_store_item){keys[i], (uint32_t)strlen(keys[i]), 1,
							&iov[i]};
	}
	for (int get = 0; get < 2; get++) {
		ticket = penstock_store_submit(sk, &b, NULL);
		T_OK(ticket > 0);
		T_EQ(poll(&p, 1, -1), 1);
		T_EQ(penstock_store_drain(sk, &d, 1), 1);
		T_EQ(d.ticket, ticket);
		T_EQ(d.tag, 77);
		T_EQ(d.good, N);
		T_EQ(poll(&p, 1, 0), 0);
		T_EQ(penstock_store_drain(sk, &d, 1), 0);
		T_EQ(penstock_store_wait(sk, (uint64_t)ticket, 0, &d), -ENOENT);
		b.opcode = PENSTOCK_STORE_GET;
		for (unsigned i = 0; i < N; i++)
			iov[i].addr = got[i];
	}
	T_MEM(values, got, sizeof(values));
	b.nr = 0;
	T_OK(penstock_store_submit(sk, &b, NULL) > 0);
	T_EQ(poll(&p, 1, -1), 1);
	T_EQ(penstock_store_drain(sk, &d, 1), 1);
}

static void what_is_left_after_a_drain_can_be_waited_for(void)
{
	struct penstock_store_batch none = {.opcode = PENSTOCK_STORE_EXISTS};
	struct pollfd p = {.fd = penstock_store_fd(sk), .events = POLLIN};
	struct penstock_store_done d;
	uint64_t n;

	for (int i = 0; i < 3; i++) /* of no keys */
		T_OK(penstock_store_submit(sk, &none, NULL) > 0);
	for (int i = 0; i < 3; i++) {
		T_EQ(poll(&p, 1, -1), 1);
		T_EQ(read(p.fd, &n, sizeof(n)), (ssize_t)sizeof(n));
		T_EQ(penstock_store_drain(sk, &d, 1), 1);
		T_EQ(d.good, 0);
	}
	T_EQ(penstock_store_drain(sk, &d, 1), 0);
	T_EQ(poll(&p, 1, 0), 0);
}

static void scatter_lists_are_one_value(void)
{
	char a[5000], b[3], c[70000], back[75003];
	struct penstock_iov iov[] = {{a, 5000}, {b, 0}, {b, 3}, {c, 70000}};
	struct penstock_store_item item = {"k", 1, 4, iov};
	struct penstock_store_batch u = {.opcode = PENSTOCK_STORE_SET, .nr = 1, .items = &item};
	struct penstock_store_done d;

	for (int recent = 0; recent < 2; recent++) {
		penstock_pattern_fill(a, 5000, 5, 0);
		penstock_pattern_fill(b, 3, 5, 5000);
		penstock_pattern_fill(c, 70000, 5, 5003);
		u.opcode = PENSTOCK_STORE_SET;
		T_EQ(penstock_store_run(sk, &u, &d, NULL), 0);
		T_EQ(d.good, 1);
		T_EQ(sk_op(PENSTOCK_STORE_GET, "k", 1, back, sizeof(back), 0), 75003);
		T_EQ(penstock_pattern_check(back, 75003, 5, 0), 75003);
		memset(a, 0, sizeof(a));
		memset(c, 0, sizeof(c));
		u.opcode = PENSTOCK_STORE_GET;
		T_EQ(penstock_store_run(sk, &u, &d, NULL), 0);
		T_EQ(penstock_pattern_check(a, 5000, 5, 0), 5000);
		T_EQ(penstock_pattern_check(c, 70000, 5, 5003), 70000);
		sk_close();
		sk_opts.flags = PENSTOCK_STORE_NO_RECENT;
		sk_open("d", MIB(64));
	}
}

static void a_deadline_gives_misses_and_leaves_the_memory_alone(void)
{
	static unsigned char buf[100000];
	int64_t r;

	T_EQ(sk_set("a", 1, sizeof(buf)), sizeof(buf));
	sk_close();
	/* Every request is held back for a while, some for long. */
	sk_opts.engine = "fault:delay=1,seed=3";
	sk_open("d", MIB(64));
	memset(buf, 0xaa, sizeof(buf));
	r = sk_op(PENSTOCK_STORE_GET, "a", 1, buf, sizeof(buf), 1);
	T_EQ(r, -ETIME);
	T_EQ(sk_stats().late, 1);
	sk_close(); /* waits for what was under way */
	for (unsigned i = 0; i < sizeof(buf); i++)
		T_EQ(buf[i], 0xaa);
	sk_opts.engine = NULL;
	sk_open("d", MIB(64));
	T_EQ(sk_op(PENSTOCK_STORE_GET, "a", 1, buf, sizeof(buf), 60000000000ull), sizeof(buf));
	T_EQ(penstock_pattern_check(buf, sizeof(buf), 1, 0), sizeof(buf));
	T_EQ(sk_op(PENSTOCK_STORE_SET, "b", 1, buf, sizeof(buf), 60000000000ull), sizeof(buf));
	T_EQ(sk_op(PENSTOCK_STORE_SET, "c", 1, buf, sizeof(buf), 1), -ETIME);
	T_EQ(sk_get("b", 1, sizeof(buf)), sizeof(buf));
}

static void *hammer(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;
	unsigned char *buf = malloc(40000);

	for (unsigned i = 0; i < 200 / T_STEP; i++) {
		struct penstock_iov iov = {buf, 1000 + (i * 37) % 39000};
		char key[16];
		struct penstock_store_item item = {key, 0, 1, &iov};
		struct penstock_store_batch b = {
			.opcode = PENSTOCK_STORE_SET, .nr = 1, .items = &item};
		int64_t r;

		b.results = &r;
		snprintf(key, sizeof(key), "%u-%u", id, i % 20);
		item.key_len = (uint32_t)strlen(key);
		memset(buf, (int)(id * 20 + i % 20), iov.len);
		T_CHECK(penstock_store_run(sk, &b, NULL, NULL) == 0 && r == (int64_t)iov.len);
		b.opcode = PENSTOCK_STORE_GET;
		memset(buf, 0, iov.len);
		T_CHECK(penstock_store_run(sk, &b, NULL, NULL) == 0);
		T_CHECK(r == (int64_t)iov.len && buf[0] == id * 20 + i % 20);
		b.opcode = i % 3 ? PENSTOCK_STORE_EXISTS : PENSTOCK_STORE_DELETE;
		T_CHECK(penstock_store_run(sk, &b, NULL, NULL) == 0 && r >= 0);
	}
	free(buf);
	return NULL;
}

static void several_threads_use_one_store(void)
{
	pthread_t t[6];
	void *msg;

	sk_close();
	sk_opts.threads = 3;
	sk_open("d e", MIB(16));
	for (unsigned i = 0; i < T_COUNT(t); i++)
		T_EQ(pthread_create(&t[i], NULL, hammer, (void *)(uintptr_t)i), 0);
	for (unsigned i = 0; i < T_COUNT(t); i++) {
		T_EQ(pthread_join(t[i], &msg), 0);
		T_JOINED(msg);
	}
}

static _Atomic unsigned hammers;

static void *hammer_and_leave(void *arg)
{
	void *msg = hammer(arg);

	hammers--;
	return msg;
}

/* They wait for batches of their own meanwhile. */
static void a_drain_sees_nothing_of_those_who_wait_for_theirs(void)
{
	struct penstock_store_done d;
	unsigned drained = 0;
	pthread_t t[3];
	void *msg;

	hammers = T_COUNT(t);
	for (unsigned i = 0; i < T_COUNT(t); i++)
		T_EQ(pthread_create(&t[i], NULL, hammer_and_leave, (void *)(uintptr_t)i), 0);
	while (hammers)
		drained += penstock_store_drain(sk, &d, 1) == 1;
	T_EQ(drained, 0);
	for (unsigned i = 0; i < T_COUNT(t); i++) {
		T_EQ(pthread_join(t[i], &msg), 0);
		T_JOINED(msg);
	}
}

static void the_child_of_a_fork_has_no_store(void)
{
	struct penstock_store_item item = {"a", 1, 0, NULL};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_EXISTS, .nr = 1, .items = &item};
	struct penstock_store_stats st = {.size = sizeof(st)};
	struct penstock_stats io = {.size = sizeof(io)};
	struct penstock_store_done done;
	static char memory[4096];
	int status;
	pid_t pid;

	T_EQ(sk_set("a", 1, 10), 10);
	T_EQ(penstock_store_register(sk, memory, sizeof(memory), 0, NULL, NULL), 0);
	pthread_mutex_lock(&sk->lock); /* as another thread may have it just then */
	pid = fork();
	if (pid == 0) {
		bool ok = penstock_store_run(sk, &b, NULL, NULL) == -ECHILD &&
			  penstock_store_submit(sk, &b, NULL) == -ECHILD &&
			  penstock_store_drain(sk, &done, 1) == -ECHILD &&
			  penstock_store_wait(sk, 1, 0, &done) == -ECHILD &&
			  penstock_store_get_stats(sk, &st) == -ECHILD &&
			  penstock_store_get_io_stats(sk, &io) == -ECHILD &&
			  penstock_store_metrics(sk, memory, sizeof(memory)) == -ECHILD &&
			  penstock_store_register(sk, memory, 1, 0, NULL, NULL) == -ECHILD &&
			  penstock_store_unregister(sk, memory) == -ECHILD &&
			  penstock_store_close(sk, NULL) == 0;

		_exit(ok ? 0 : 1);
	}
	pthread_mutex_unlock(&sk->lock);
	T_EQ(waitpid(pid, &status, 0), pid);
	T_EQ(status, 0);
	T_EQ(sk_get("a", 1, 10), 10);
}

/* It has descriptors of the same open files, and lives on. */
static void the_child_of_a_fork_keeps_no_lock(void)
{
	struct penstock_err err = {0, ""};
	int status, r;
	pid_t pid;

	T_EQ(sk_set("a", 1, 10), 10);
	pid = fork();
	T_OK(pid >= 0);
	while (pid == 0)
		pause();
	sk_close();
	r = sk_try_open("d", MIB(64), &err);
	kill(pid, SIGKILL);
	T_EQ(waitpid(pid, &status, 0), pid);
	T_ERR(r, 0, &err);
	T_EQ(sk_get("a", 1, 10), 10);
}

static void metrics_are_text_for_prometheus(void)
{
	char text[16384];
	int n;

	T_EQ(sk_set("a", 1, 10), 10);
	n = penstock_store_metrics(sk, text, sizeof(text));
	T_OK(n > 0 && (size_t)n < sizeof(text));
	T_STR_HAS(text,
		  "# TYPE penstock_store_stored_total counter\npenstock_store_stored_total 1\n");
	T_STR_HAS(text, "penstock_store_entries 1\n");
	T_EQ(penstock_store_metrics(sk, text, 10), n);
}

static int sum_up(void *arg, const struct penstock_store_entry *e)
{
	*(uint64_t *)arg += e->len * 100 + e->key_len;
	return e->code;
}

static void a_look_from_outside_sees_keys_and_damage(void)
{
	struct penstock_store_summary sum = {.size = sizeof(sum)};
	struct penstock_err err = {0, ""};
	uint64_t seen = 0;
	struct stat st;
	int fd;

	T_EQ(sk_set("a", 1, 5), 5);
	T_EQ(sk_set("bbb", 2, 5000), 5000);
	T_EQ(sk_set("cc", 2, 5000), 5000);
	T_EQ(sk_delete("cc"), 0);
	T_ERR(penstock_store_inspect(t_path("d"), 0, NULL, NULL, &sum, &err), -EBUSY, &err);
	sk_close();
	T_ERR(penstock_store_inspect(t_path("d"), PENSTOCK_STORE_VERIFY, sum_up, &seen, &sum, &err),
	      0, &err);
	T_EQ(sum.entries, 2);
	T_EQ(sum.value_bytes, 5005);
	T_EQ(sum.bad, 0);
	T_EQ(seen, 500504);
	fd = open(t_path("d/data"), O_RDWR);
	for (unsigned i = 0; i < 8; i++)
		T_EQ(pwrite(fd, "!", 1, i * 4096 + 3), 1);
	close(fd);
	T_EQ(penstock_store_inspect(t_path("d"), PENSTOCK_STORE_VERIFY, NULL, NULL, &sum, &err), 0);
	T_EQ(sum.bad, 2);
	t_file_make(t_path("d/mine"), 1, 10);
	T_ERR(penstock_store_drop(t_path("d"), &err), 0, &err);
	T_FILE_PATTERN(t_path("d/mine"), 1, 10);
	T_OK(stat(t_path("d/data"), &st) < 0);
	T_ERR(penstock_store_drop(t_path("d"), &err), -ENOENT, &err);
}

static void descriptors_and_memory_go_with_the_store(void)
{
	int before;

	sk_close();
	before = t_nr_fds();
	for (unsigned i = 0; i < 20; i++) {
		sk_open("d e", MIB(16));
		T_EQ(sk_set("a", 1, 1000), 1000);
		sk_close();
	}
	T_EQ(t_nr_fds(), before);
}

/* An open finds all there is or fails, and no directory is to blame that a process has no more. */
static void a_lack_of_descriptors_loses_nothing(void)
{
	enum { KEYS = 40, MORE = 60 };
	struct penstock_err err = {0, ""};
	struct rlimit was, few;
	unsigned failed = 0;
	rlim_t least;
	char key[16];

	sk_close();
	sk_opts.engine = "threads"; /* liburing raises the limit */
	sk_open("d e", MIB(64));
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		T_EQ(sk_set(key, i, 5000), 5000);
	}
	sk_close();
	T_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = was;
	least = (rlim_t)t_nr_fds();
	for (few.rlim_cur = least; few.rlim_cur < least + MORE; few.rlim_cur++) {
		int r;

		T_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
		r = sk_try_open("d e", MIB(64), &err);
		T_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
		failed += r < 0;
		if (r < 0)
			continue;
		T_EQ(sk_stats().dirs_out, 0);
		T_EQ(sk_stats().recovered, KEYS);
		sk_close();
	}
	T_OK(failed > 5 && failed < MORE);
	sk_open("d e", MIB(64));
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		T_EQ(sk_get(key, i, 5000), 5000);
	}
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(what_is_set_can_be_got_and_what_is_deleted_not),
		T_CASE(values_of_every_length_come_back),
		T_CASE(keys_of_1_to_4096_bytes_are_different),
		T_CASE(bad_batches_are_refused_with_a_line),
		T_CASE(a_restart_finds_what_was_there),
		T_CASE(nothing_before_a_bad_record_is_believed),
		T_CASE(two_stores_do_not_share_a_directory),
		T_CASE(a_directory_with_other_files_is_refused),
		T_CASE(another_version_is_refused_in_one_line),
		T_CASE(what_was_just_written_is_read_from_memory),
		T_CASE(memory_can_be_registered_for_the_values),
		T_CASE(exists_tells_the_length_of_the_prefix),
		T_CASE(batches_come_back_through_the_eventfd),
		T_CASE(what_is_left_after_a_drain_can_be_waited_for),
		T_CASE(scatter_lists_are_one_value),
		T_CASE(a_deadline_gives_misses_and_leaves_the_memory_alone),
		T_CASE(several_threads_use_one_store),
		T_CASE(a_drain_sees_nothing_of_those_who_wait_for_theirs),
		T_CASE(the_child_of_a_fork_has_no_store),
		T_CASE(the_child_of_a_fork_keeps_no_lock),
		T_CASE(metrics_are_text_for_prometheus),
		T_CASE(a_look_from_outside_sees_keys_and_damage),
		T_CASE(descriptors_and_memory_go_with_the_store),
		T_CASE(a_lack_of_descriptors_loses_nothing),
	};
	static const struct t_group groups[] = {
		{"kvstore", sk_begin, sk_end, cases, T_COUNT(cases)},
	};

	(void)argc;
	return t_run(groups, T_COUNT(groups), argv + 1);
}
