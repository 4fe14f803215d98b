/* SPDX-License-Identifier: Apache-2.0 */
/* The KV store and the time: lives that end, and clocks that are wrong. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "kvstore/kvstore.h"
#include "tests/common/storekit.h"

/* Seconds by which the clock on the wall is wrong, and that have gone by unseen. */
static _Atomic long clock_wrong, clock_passed;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, id, ts);

	if (id == CLOCK_REALTIME)
		ts->tv_sec += clock_wrong;
	if (id == CLOCK_BOOTTIME)
		ts->tv_sec += clock_passed;
	return r;
}

static void a_time_to_live_ends(void)
{
	char v[8] = "x";
	struct penstock_iov iov = {v, sizeof(v)};
	struct penstock_store_item item = {"a", 1, 1, &iov};
	struct penstock_store_batch b = {
		.opcode = PENSTOCK_STORE_SET, .nr = 1, .items = &item, .ttl_s = 1};

	T_EQ(penstock_store_run(sk, &b, NULL, NULL), 0);
	while (sk_exists("a") >= 0)
		usleep(20000);
	T_EQ(sk_get("a", 0, 8), -ENOENT);
	T_EQ(sk_stats().expired, 1);
	b.ttl_s = 1000;
	T_EQ(penstock_store_run(sk, &b, NULL, NULL), 0);
	T_EQ(sk_exists("a"), 8);
}

/* Close it, and open it with the clock so many seconds from now. */
static void open_at(long seconds)
{
	sk_close();
	clock_wrong = seconds;
	sk_opts.ttl_s = 1000;
	sk_open("d", MIB(64));
}

static void a_clock_that_goes_back_makes_nothing_young_again(void)
{
	open_at(0);
	T_EQ(sk_set("a", 1, 10), 10); /* until 1000 */
	open_at(500);
	T_EQ(sk_set("b", 2, 10), 10); /* until 1500 */
	open_at(-86400);
	T_EQ(sk_get("a", 1, 10), 10);
	T_EQ(sk_get("b", 2, 10), 10);
	T_EQ(sk_set("c", 3, 10), 10); /* until 1500, too: it is 500 */
	open_at(1100);
	T_EQ(sk_get("a", 1, 10), -ENOENT);
	T_EQ(sk_get("b", 2, 10), 10);
	T_EQ(sk_get("c", 3, 10), 10);
	T_EQ(sk_set("d", 4, 10), 10);
	open_at(0);
	T_EQ(sk_get("a", 1, 10), -ENOENT);
	T_EQ(sk_get("b", 2, 10), 10);
	open_at(1600);
	T_EQ(sk_get("b", 2, 10), -ENOENT);
	T_EQ(sk_get("c", 3, 10), -ENOENT);
	T_EQ(sk_get("d", 4, 10), 10);
	clock_wrong = 0;
}

/* Nobody sets anything, and the clock on the wall goes back. */
static void time_without_writes_counts(void)
{
	clock_passed = 0;
	open_at(0);
	T_EQ(sk_set("a", 1, 10), 10); /* until 1000 */
	clock_passed = 600;
	T_EQ(sk_get("a", 1, 10), 10);
	open_at(-86400); /* it is 600 */
	clock_passed += 390;
	T_EQ(sk_get("a", 1, 10), 10);
	clock_passed += 20;
	T_EQ(sk_get("a", 1, 10), -ENOENT);
	T_EQ(sk_stats().expired, 1);
	clock_wrong = 0;
}

static uint64_t clock_in_log(void)
{
	unsigned char raw[STORE_LOG_HEAD];
	struct store_log_head head;
	int fd = open(t_path("d/log"), O_RDONLY | O_CLOEXEC);

	T_OK(fd >= 0);
	T_EQ(pread(fd, raw, sizeof(raw), 0), sizeof(raw));
	close(fd);
	T_EQ(store_log_head_get(&head, raw), 0);
	return head.clock;
}

/* So that a process that is killed has lost little of it. */
static void the_clock_is_written_down_while_values_are_to_end(void)
{
	uint64_t before;

	open_at(0);
	atomic_store(&sk->clock_tick_ns, 1000000);
	T_EQ(sk_set("a", 1, 10), 10);
	before = clock_in_log();
	clock_passed += 1000;
	while (clock_in_log() < before + 1000)
		usleep(1000);
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(a_time_to_live_ends),
		T_CASE(a_clock_that_goes_back_makes_nothing_young_again),
		T_CASE(time_without_writes_counts),
		T_CASE(the_clock_is_written_down_while_values_are_to_end),
	};
	static const struct t_group groups[] = {
		{"kvtime", sk_begin, sk_end, cases, T_COUNT(cases)},
	};

	(void)argc;
	return t_run(groups, T_COUNT(groups), argv + 1);
}
