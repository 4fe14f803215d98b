/* SPDX-License-Identifier: Apache-2.0 */
/* A KV store on a file system that others fill up: older values make room, and nothing fails. */
#include <fcntl.h>
#include <unistd.h>

#include "base/util.h"
#include "kvstore/kvstore.h"
#include "tests/common/mounts.h"
#include "tests/common/storekit.h"

enum { SMALL = 3000, LARGE = 150000, ROUNDS = 3000 };

static void setup_on(const char *fs)
{
	int r = !strcmp(fs, "tmpfs") ? mounts_tmpfs("mnt", "size=48M")
				     : mounts_image("mnt", fs, MIB(strcmp(fs, "xfs") ? 64 : 320));

	if (r < 0)
		T_SKIP(fs, "no %s here: %s", fs, strerror(-r));
	sk_reset();
}

static void setup_ext4(void)
{
	setup_on("ext4");
}

static void setup_xfs(void)
{
	setup_on("xfs");
}

static void setup_tmpfs(void)
{
	setup_on("tmpfs");
}

static void teardown(void)
{
	if (sk)
		sk_close();
	mounts_end("mnt");
}

/* All that is left, to the last byte. */
static void fill_up(void)
{
	static char block[1 << 16];
	int fd = open(t_path("mnt/ballast"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	T_OK(fd >= 0);
	for (size_t n = sizeof(block); n;)
		if (write(fd, block, n) <= 0)
			n /= 2;
	close(fd);
}

static const char *key_of(unsigned i)
{
	static char key[16];

	snprintf(key, sizeof(key), "k%u", i);
	return key;
}

static uint64_t len_of(unsigned i)
{
	return i % 10 ? SMALL : LARGE;
}

/* Each can be set, and is there then; some of those before it are. */
static void set_and_get(unsigned from, unsigned to)
{
	unsigned hits = 0;

	for (unsigned i = from; i < to; i++) {
		T_EQ(sk_set(key_of(i), i, len_of(i)), len_of(i));
		T_EQ(sk_get(key_of(i), i, LARGE), len_of(i));
		hits += i > 50 && sk_get(key_of(i - 50), i - 50, LARGE) == (int64_t)len_of(i - 50);
	}
	T_OK(hits > (to - from) / 4);
}

static void a_full_file_system_is_an_eviction(void)
{
	struct penstock_store_stats before;
	uint64_t entries;

	sk_open("mnt/kv", MIB(32));
	set_and_get(0, 200);
	T_EQ(sk_stats().evictions, 0);
	fill_up();
	before = sk_stats();
	set_and_get(200, ROUNDS);
	T_OK(sk_stats().evictions > before.evictions + ROUNDS / 2);
	T_EQ(sk_stats().errors + sk_stats().sets_no_space + sk_stats().dirs_out, 0);
	/* Its log has been written anew meanwhile. */
	T_OK(sk_stats().log_bytes - before.log_bytes > sk->dirs[0].log_allocated);
	entries = sk_stats().entries;
	sk_close();
	sk_open("mnt/kv", MIB(32)); /* it is full still */
	T_OK(sk_stats().recovered >= entries && sk_stats().lost == 0);
	set_and_get(ROUNDS, ROUNDS + 500);
	T_EQ(sk_stats().sets_no_space, 0);
	T_EQ(unlink(t_path("mnt/ballast")), 0);
	before = sk_stats();
	for (unsigned i = ROUNDS + 500; sk_stats().disk_bytes < before.disk_bytes + MIB(2);
	     i += 100)
		set_and_get(i, i + 100); /* it asks again for space, once a second */
	T_EQ(sk_stats().errors + sk_stats().sets_no_space + sk_stats().dirs_out, 0);
}

/* Logs that would like to be larger than they can be when it is opened. */
static void many_small_values_outlive_a_restart(void)
{
	sk_open("mnt/kv", MIB(30));
	for (unsigned i = 0; i < 20; i++)
		T_EQ(sk_set(key_of(i), i, LARGE), LARGE);
	fill_up();
	for (unsigned i = 20; i < ROUNDS; i++)
		T_EQ(sk_set(key_of(i), i, SMALL), SMALL);
	T_OK(5 * sk->dirs[0].log_live > sk->dirs[0].log_allocated);
	sk_close();
	sk_open("mnt/kv", MIB(30));
	for (unsigned i = 0; i < ROUNDS; i++)
		T_EQ(sk_set(key_of(i), i, SMALL), SMALL);
	T_EQ(sk_stats().errors + sk_stats().sets_no_space + sk_stats().lost, 0);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(a_full_file_system_is_an_eviction),
		T_CASE(many_small_values_outlive_a_restart),
	};
	static const struct t_group groups[] = {
		{"ext4", setup_ext4, teardown, cases, T_COUNT(cases)},
		{"xfs", setup_xfs, teardown, cases, T_COUNT(cases)},
		{"tmpfs", setup_tmpfs, teardown, cases, T_COUNT(cases)},
	};

	mounts_need();
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
