/* SPDX-License-Identifier: Apache-2.0 */
/* The KV store when space is short: how much it takes, what stays, and what is let in. */
#include <sys/stat.h>

#include "base/random.h"
#include "base/util.h"
#include "kvstore/kvstore.h"
#include "tests/common/storekit.h"

/* Bytes on disk, by what the file system says. */
static uint64_t disk(const char *dir)
{
	static const char *const names[] = {"penstock-store", "data", "log", "log.new"};
	uint64_t sum = 0;
	struct stat st;
	char path[600];

	for (unsigned i = 0; i < T_COUNT(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", t_path(dir), names[i]);
		if (stat(path, &st) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	}
	return sum;
}

static void capacity_holds_through_a_tenfold_overfill(void)
{
	uint64_t cap = MIB(16), set = 0;
	char key[16];

	sk_close();
	sk_open("d", cap);
	for (unsigned i = 0; set < 10 * cap; i++) {
		uint64_t len = 1 + (i * 7919u) % 300000;

		snprintf(key, sizeof(key), "k%u", i);
		T_EQ(sk_set(key, i, len), len);
		set += len;
		T_OK(disk("d") <= cap);
		T_EQ(sk_get(key, i, len), len); /* the newest is never the one to go */
	}
	T_OK(sk_stats().evictions > 100);
	T_OK(sk_stats().used_bytes > cap / 2);
	T_OK(sk_stats().disk_bytes <= cap);
}

static const char *long_key(unsigned i)
{
	static char key[4000];

	memset(key, 'x', sizeof(key));
	memcpy(key, &i, sizeof(i));
	return key;
}

/* Every value that is there is right; how many? */
static unsigned long_keys_there(unsigned nr)
{
	unsigned char buf[100];
	unsigned there = 0;
	int64_t r;

	for (unsigned i = 0; i < nr; i++) {
		r = sk_op(PENSTOCK_STORE_GET, long_key(i), 4000, buf, sizeof(buf), 0);
		T_OK(r == -ENOENT || r == sizeof(buf));
		if (r == -ENOENT)
			continue;
		T_EQ(penstock_pattern_check(buf, sizeof(buf), i, 0), sizeof(buf));
		there++;
	}
	return there;
}

/* Of logs, too: what they say and what they have behind it. */
static void a_smaller_capacity_gives_space_back(void)
{
	enum { N = 1800 };
	static const uint64_t caps[] = {MIB(63), MIB(20), MIB(8), MIB(1)};
	unsigned char buf[100];
	unsigned there;

	sk_close();
	sk_opts.log_bytes = MIB(16);
	sk_open("d", MIB(256));
	for (unsigned i = 0; i < N; i++) {
		penstock_pattern_fill(buf, sizeof(buf), i, 0);
		T_EQ(sk_op(PENSTOCK_STORE_SET, long_key(i), 4000, buf, sizeof(buf), 0),
		     sizeof(buf));
	}
	sk_close();
	sk_open("d", MIB(256));
	sk_close();
	T_OK(disk("d") > MIB(32)); /* two logs of 16 MiB */
	for (unsigned c = 0; c < T_COUNT(caps); c++) {
		sk_opts.log_bytes = c ? 0 : MIB(15);
		sk_open("d", caps[c]);
		T_OK(disk("d") <= caps[c]);
		T_OK(sk_stats().disk_bytes <= caps[c]);
		there = long_keys_there(N);
		T_EQ(sk_stats().recovered, there);
		T_OK(c ? there < N : there == N);
		T_OK(there > 0 || caps[c] == MIB(1)); /* those that the log keeps lie behind that */
		T_EQ(sk_set("new", c, 1000), 1000);
		T_OK(disk("d") <= caps[c]);
		sk_close();
		sk_open("d", caps[c]);
		T_EQ(long_keys_there(N), there);
		T_EQ(sk_get("new", c, 1000), 1000);
		T_EQ(sk_delete("new"), 0);
		sk_close();
	}
	sk_open("d", MIB(64));
}

static void many_small_values_rewrite_the_log_and_stay(void)
{
	char key[16];

	sk_close();
	sk_open("d", MIB(4));
	for (unsigned i = 0; i < 6000; i++) {
		snprintf(key, sizeof(key), "k%u", i % 50);
		T_EQ(sk_set(key, i % 50, 10), 10);
		T_OK(i % 64 || disk("d") <= MIB(4));
	}
	T_OK(sk_stats().log_bytes > KIB(300)); /* of which half can be there */
	sk_close();
	sk_open("d", MIB(4));
	T_EQ(sk_stats().recovered, 50);
	for (unsigned i = 0; i < 50; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		T_EQ(sk_get(key, i, 10), 10);
	}
}

static void a_value_larger_than_the_store_is_not_stored(void)
{
	T_EQ(sk_set("big", 1, MIB(80)), -ENOSPC);
	T_EQ(sk_set("ok", 1, MIB(40)), MIB(40));
	T_EQ(sk_get("ok", 1, MIB(40)), MIB(40));
}

/* The store has room for 7 of them: the others wait until those can be sent away. */
static void many_sets_at_once_fit_into_a_small_store(void)
{
	enum { N = 64, LEN = 250000 };
	struct penstock_store_item items[N];
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_SET, .nr = N, .items = items};
	struct penstock_store_done done;
	unsigned char *value = calloc(1, LEN);
	struct penstock_iov iov = {value, LEN};
	int64_t results[N], tickets[4];
	char keys[N][8];

	sk_close();
	sk_open("d", MIB(2));
	b.results = results;
	for (unsigned i = 0; i < N; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%u", i);
		items[i] =
			(struct penstock_store_item){keys[i], (uint32_t)strlen(keys[i]), 1, &iov};
	}
	for (unsigned round = 0; round < 4; round++) {
		T_EQ(penstock_store_run(sk, &b, &done, NULL), 0);
		T_EQ(done.good, N);
	}
	/* The same with one key that is read meanwhile, and one that is too large at any time. */
	b.results = NULL;
	b.deadline_ns = UINT64_MAX / 4;
	for (unsigned i = 0; i < T_COUNT(tickets); i++) {
		tickets[i] = penstock_store_submit(sk, &b, NULL);
		T_OK(tickets[i] > 0);
		T_OK(sk_get("k63", 1, 1) < 0);
		T_EQ(sk_set("big", 1, MIB(3)), -ENOSPC);
	}
	for (unsigned i = 0; i < T_COUNT(tickets); i++) {
		T_EQ(penstock_store_wait(sk, (uint64_t)tickets[i], -1, &done), 0);
		T_EQ(done.good, N);
	}
	T_EQ(sk_stats().sets_no_space, T_COUNT(tickets));
	free(value);
}

/* As a batch that is waited for. */
static void touch_later(const char *key)
{
	struct penstock_store_item item = {key, (uint32_t)strlen(key), 0, NULL};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_EXISTS,
					 .nr = 1,
					 .items = &item,
					 .flags = PENSTOCK_STORE_TOUCH | PENSTOCK_STORE_PREFIX};
	struct penstock_store_done d;
	int64_t ticket = penstock_store_submit(sk, &b, NULL);

	T_EQ(penstock_store_wait(sk, (uint64_t)ticket, T_NO_LIMIT, &d), 0);
	T_EQ(d.prefix, 1);
}

static void what_is_used_stays(uint32_t policy, bool touch)
{
	char key[16];

	sk_close();
	sk_opts.policy = policy;
	sk_open("d", MIB(16));
	T_EQ(sk_set("hot", 99, 100000), 100000);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		T_EQ(sk_set(key, i, 100000), 100000);
		if (i % 10 == 0 && touch)
			touch_later("hot");
		else if (i % 10 == 0)
			T_EQ(sk_get("hot", 99, 100000), 100000);
	}
	T_EQ(sk_get("k0", 0, 100000), -ENOENT);
	T_EQ(sk_stats().gets, touch ? 1 : 101);
}

static void lru_keeps_what_is_used(void)
{
	what_is_used_stays(PENSTOCK_STORE_LRU, false);
}

static void s3fifo_keeps_what_is_used(void)
{
	what_is_used_stays(PENSTOCK_STORE_S3FIFO, false);
}

static void what_is_touched_is_used(void)
{
	what_is_used_stays(PENSTOCK_STORE_LRU, true);
	sk_end();
	sk_begin();
	what_is_used_stays(PENSTOCK_STORE_S3FIFO, true);
}

/* Also while a table is being moved into a wider one, which is no more than a few places at once.
 */
static void the_index_finds_all_while_it_grows(void)
{
	enum { N = 20000 };
	struct store_index x;
	unsigned twice = 0;

	T_EQ(store_index_init(&x), 0);
	for (unsigned i = 0; i < N; i++) {
		struct store_entry *e = store_index_new(&x);
		uint32_t moved = x.moved;

		T_OK(e);
		e->hash = (struct store_hash){i * 0x9e3779b9u, i};
		T_EQ(store_index_add(&x, e), 0);
		T_OK(!x.old || x.moved < moved || x.moved - moved < 100);
		twice += x.old != NULL;
		if (i % 3 == 2) { /* of those that have been there for a while */
			e = store_index_find(&x, (struct store_hash){i / 2 * 0x9e3779b9u, i / 2});
			if (e) {
				store_index_remove(&x, e);
				store_index_free(&x, e);
			}
		}
		for (unsigned k = i > 50 ? i - 50 : 0; i % 100 == 0 && k <= i; k++)
			T_OK(store_index_find(&x, (struct store_hash){k * 0x9e3779b9u, k}));
	}
	T_OK(twice > 100);
	for (unsigned i = 0; i < N; i++) {
		struct store_entry *e =
			store_index_find(&x, (struct store_hash){i * 0x9e3779b9u, i});
		bool gone = false;

		for (unsigned k = 2 * i; k <= 2 * i + 1; k++)
			gone = gone || (k < N && k % 3 == 2);
		T_OK(gone ? !e : e && e->hash.b == i);
	}
	store_index_fini(&x);
}

/* Whatever has been used: the store waits while one is looked for that is to go. */
static void a_value_that_goes_is_found_soon(void)
{
	enum { N = 20000 };
	struct store_index *x = &sk->index;
	struct store_policy *p = &sk->policy;
	unsigned passed = 0, used = 0;

	for (unsigned i = 0; i < N; i++) {
		struct store_entry *e = store_index_new(x);

		T_OK(e);
		e->hash = (struct store_hash){i, i};
		e->freq = 3;
		T_EQ(store_index_add(x, e), 0);
		store_policy_add(p, x, e);
	}
	T_OK(store_policy_victim(p, x) != NULL);
	for (unsigned i = 0; i < N; i++) {
		struct store_entry *e = store_index_find(x, (struct store_hash){i, i});

		passed += e->freq < 3;
		used += e->freq == 3;
		store_policy_remove(p, x, e);
		store_index_remove(x, e);
		store_index_free(x, e);
	}
	T_OK(passed > 0 && passed < 1000 && used > 0);
}

static void dear_values_stay_longer(void)
{
	struct penstock_iov iov;
	struct penstock_store_item item = {"dear", 4, 1, &iov};
	struct penstock_store_batch b = {
		.opcode = PENSTOCK_STORE_SET, .nr = 1, .items = &item, .cost = 3};
	static char value[100000];
	char key[16];

	sk_close();
	sk_open("d", MIB(16));
	iov = (struct penstock_iov){value, sizeof(value)};
	T_EQ(penstock_store_run(sk, &b, NULL, NULL), 0);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		T_EQ(sk_set(key, i, 100000), 100000);
	}
	T_EQ(sk_exists("k0"), -ENOENT);
	T_EQ(sk_exists("dear"), 100000);
}

static void the_second_touch_admits(void)
{
	sk_close();
	sk_opts.flags = PENSTOCK_STORE_SECOND_TOUCH;
	sk_open("d", MIB(16));
	T_EQ(sk_set("a", 1, 10), -EAGAIN);
	T_EQ(sk_get("a", 1, 10), -ENOENT);
	T_EQ(sk_set("a", 1, 10), 10);
	T_EQ(sk_get("a", 1, 10), 10);
	T_EQ(sk_stats().sets_refused, 1);
}

static void what_is_there_is_not_written_again_if_so_asked(void)
{
	char v[8] = "old";
	struct penstock_iov iov = {v, sizeof(v)};
	struct penstock_store_item item = {"a", 1, 1, &iov};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_SET,
					 .nr = 1,
					 .items = &item,
					 .flags = PENSTOCK_STORE_ABSENT};
	struct penstock_store_done d;

	T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
	T_EQ(d.good, 1);
	strcpy(v, "new");
	T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
	T_EQ(d.good, 1);
	T_EQ(sk_stats().stored, 1);
	T_EQ(sk_stats().sets_present, 1);
	T_EQ(sk_op(PENSTOCK_STORE_GET, "a", 1, v, 8, 0), 8);
	T_OK(!strcmp(v, "old"));
	iov.len = 4; /* another length is another value */
	T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
	T_EQ(sk_stats().stored, 2);
	T_EQ(sk_get("a", 0, 0), -EMSGSIZE);
	T_EQ(sk_exists("a"), 4);
}

static void values_are_spread_over_directories(void)
{
	char key[16];

	sk_close();
	sk_open("a b c", MIB(48));
	for (unsigned i = 0; i < 60; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		T_EQ(sk_set(key, i, 100000), 100000);
	}
	T_OK(disk("a") > MIB(1) && disk("b") > MIB(1) && disk("c") > MIB(1));
	sk_close();
	sk_open("c a b", MIB(48)); /* in another order */
	T_EQ(sk_stats().recovered, 60);
	for (unsigned i = 0; i < 60; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		T_EQ(sk_get(key, i, 100000), 100000);
	}
	/* One that was not there meanwhile may have missed something. */
	sk_close();
	sk_open("a b", MIB(32));
	T_OK(sk_stats().recovered < 60);
	sk_close();
	sk_open("a b c", MIB(48));
	T_OK(sk_stats().recovered < 60);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(capacity_holds_through_a_tenfold_overfill),
		T_CASE(a_smaller_capacity_gives_space_back),
		T_CASE(many_small_values_rewrite_the_log_and_stay),
		T_CASE(a_value_larger_than_the_store_is_not_stored),
		T_CASE(many_sets_at_once_fit_into_a_small_store),
		T_CASE(lru_keeps_what_is_used),
		T_CASE(s3fifo_keeps_what_is_used),
		T_CASE(the_index_finds_all_while_it_grows),
		T_CASE(a_value_that_goes_is_found_soon),
		T_CASE(what_is_touched_is_used),
		T_CASE(dear_values_stay_longer),
		T_CASE(the_second_touch_admits),
		T_CASE(what_is_there_is_not_written_again_if_so_asked),
		T_CASE(values_are_spread_over_directories),
	};
	static const struct t_group groups[] = {
		{"kvspace", sk_begin, sk_end, cases, T_COUNT(cases)},
	};

	(void)argc;
	return t_run(groups, T_COUNT(groups), argv + 1);
}
