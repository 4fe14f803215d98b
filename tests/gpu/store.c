/* SPDX-License-Identifier: Apache-2.0 */
/* The KV store with memory of a GPU, alone and beside the host's. */
#include <penstock/gpu.h>

#include "base/random.h"
#include "tests/common/storekit.h"
#include "tests/gpu/standin/standin.h"

enum { LEN = 3000001 };

static const char *engine;
static void *dev;
static unsigned char *host;

static void begin(void)
{
	sk_reset();
	sk_opts.engine = engine;
	sk_open("d", MIB(64));
	T_EQ(penstock_gpu_alloc(&dev, 0, LEN, NULL), 0);
	host = malloc(LEN);
	T_OK(host != NULL);
}

static void end(void)
{
	T_EQ(penstock_gpu_free(dev), 0);
	free(host);
	sk_close();
	T_EQ(penstock_store_drop(t_path("d"), NULL), 0);
}

static void fill(uint64_t seed)
{
	penstock_pattern_fill(host, LEN, seed, 0);
	T_EQ(penstock_gpu_copy(dev, host, LEN, NULL), 0);
	memset(host, 0, LEN);
}

static unsigned asked;

/* The store answers while the driver unpins: it has let go of its lock. */
static void ask_store(void)
{
	asked += sk_stats().sets > 0;
}

static void device_memory_is_set_and_got(void)
{
	T_EQ(penstock_gpu_device(dev), 0);
	T_EQ(penstock_gpu_device(host), -ENOENT);
	for (int recent = 0; recent < 2; recent++) {
		fill(7);
		T_EQ(sk_op(PENSTOCK_STORE_SET, "k", 1, dev, LEN, 0), LEN);
		T_EQ(sk_get("k", 7, LEN), LEN);
		fill(8);
		T_EQ(sk_op(PENSTOCK_STORE_GET, "k", 1, dev, LEN, recent ? 60000000000ull : 0), LEN);
		T_EQ(penstock_gpu_copy(host, dev, LEN, NULL), 0);
		T_EQ(penstock_pattern_check(host, LEN, 7, 0), LEN);
		sk_close();
		sk_opts.flags = PENSTOCK_STORE_NO_RECENT;
		sk_open("d", MIB(64));
	}
}

static void host_and_device_memory_are_one_value(void)
{
	struct penstock_iov iov[] = {{host, 5000}, {dev, LEN - 5000}};
	struct penstock_store_item item = {"k", 1, 2, iov};
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_SET, .nr = 1, .items = &item};
	struct penstock_store_done d;

	penstock_pattern_fill(host, LEN, 3, 0);
	T_EQ(penstock_gpu_copy(dev, host + 5000, LEN - 5000, NULL), 0);
	T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
	T_EQ(d.good, 1);
	T_EQ(sk_get("k", 3, LEN), LEN);
	fill(9);
	b.opcode = PENSTOCK_STORE_GET;
	T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
	T_EQ(d.good, 1);
	T_EQ(penstock_pattern_check(host, 5000, 3, 0), 5000);
	T_EQ(penstock_gpu_copy(host, dev, LEN - 5000, NULL), 0);
	T_EQ(penstock_pattern_check(host, LEN - 5000, 3, 5000), LEN - 5000);
}

/* Where it is not, the driver copies in the thread of the I/O. */
static void what_values_pass_through_is_pinned(void)
{
	struct standin_count before = standin_count(), now;

	for (int i = 0; i < 8; i++) {
		T_EQ(sk_op(PENSTOCK_STORE_SET, "k", 1, dev, LEN, 0), LEN);
		T_EQ(sk_op(PENSTOCK_STORE_GET, "k", 1, dev, LEN, 0), LEN);
	}
	now = standin_count();
	T_OK(now.copies >= before.copies + 16);
	T_EQ(now.unpinned, before.unpinned);
	T_OK(now.registrations > before.registrations);
	T_OK(now.registrations <= before.registrations + 8);
	sk_close();
	T_EQ(standin_count().registrations, before.registrations);
	sk_open("d", MIB(64));
}

/* 30 values of 3 MB, of which copies are kept as long as there is room for them. */
static void values_of_a_device_get_more_memory(void)
{
	char key[8];

	sk_close();
	sk_open("d", MIB(256));
	for (unsigned i = 0; i < 30; i++) {
		snprintf(key, sizeof(key), "%u", i);
		T_EQ(sk_op(PENSTOCK_STORE_SET, key, (uint32_t)strlen(key), dev, LEN, 0), LEN);
	}
	T_OK(sk_stats().buffer_bytes > MIB(80));
	sk_close();
	sk_opts.memory = MIB(16);
	sk_open("d", MIB(256));
	T_EQ(sk_op(PENSTOCK_STORE_GET, "0", 1, dev, LEN, 0), LEN);
	for (unsigned i = 0; i < 30; i++) {
		snprintf(key, sizeof(key), "%u", i);
		T_EQ(sk_op(PENSTOCK_STORE_SET, key, (uint32_t)strlen(key), dev, LEN, 0), LEN);
	}
	T_OK(sk_stats().buffer_bytes <= MIB(16));
}

/* Each asks the driver for its memory once when it starts, and once when it is copied. */
static void those_that_wait_for_memory_are_served_in_turn(void)
{
	enum { N = 200, PART = LEN / N };
	struct penstock_iov iov[N];
	struct penstock_store_item items[N];
	struct penstock_store_batch b = {.opcode = PENSTOCK_STORE_SET, .nr = N, .items = items};
	unsigned long before = standin_count().attributes;
	struct penstock_store_done d;
	char keys[N][8];

	sk_close();
	sk_opts.flags = PENSTOCK_STORE_NO_RECENT;
	sk_opts.memory = 65536; /* three of them */
	sk_open("d", MIB(64));
	fill(5);
	for (unsigned i = 0; i < N; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%u", i);
		iov[i] = (struct penstock_iov){(char *)dev + i * PART, PART};
		items[i] = (struct penstock_store_item){keys[i], (uint32_t)strlen(keys[i]), 1,
							&iov[i]};
	}
	T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
	T_EQ(d.good, N);
	fill(6);
	b.opcode = PENSTOCK_STORE_GET;
	for (int timed = 0; timed < 2; timed++) {
		b.deadline_ns = timed ? 60000000000ull : 0;
		T_EQ(penstock_store_run(sk, &b, &d, NULL), 0);
		T_EQ(d.good, N);
	}
	T_EQ(penstock_gpu_copy(host, dev, LEN, NULL), 0);
	T_EQ(penstock_pattern_check(host, (size_t)N * PART, 5, 0), (size_t)N * PART);
	T_OK(standin_count().attributes - before < 3 * N * 6);
}

/* The memory of buffers that go is unpinned, which takes the driver long. */
static void nobody_waits_while_memory_is_unpinned(void)
{
	struct standin_count before = standin_count();

	sk_close();
	sk_opts.flags = PENSTOCK_STORE_NO_RECENT;
	sk_opts.memory = MIB(4);
	sk_open("d", MIB(64));
	T_EQ(sk_op(PENSTOCK_STORE_SET, "k", 1, dev, LEN, 0), LEN);
	standin_on_unregister(ask_store);
	T_EQ(sk_op(PENSTOCK_STORE_SET, "l", 1, dev, LEN / 2, 0), LEN / 2);
	T_EQ(sk_op(PENSTOCK_STORE_GET, "k", 1, dev, LEN, 0), LEN);
	standin_on_unregister(NULL);
	T_OK(asked > 0);
	T_EQ(sk_op(PENSTOCK_STORE_GET, "l", 1, dev, LEN, 0), LEN / 2);
	sk_close();
	T_EQ(standin_count().registrations, before.registrations);
	sk_open("d", MIB(64));
}

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(device_memory_is_set_and_got),
		T_CASE(host_and_device_memory_are_one_value),
		T_CASE(what_values_pass_through_is_pinned),
		T_CASE(values_of_a_device_get_more_memory),
		T_CASE(those_that_wait_for_memory_are_served_in_turn),
		T_CASE(nobody_waits_while_memory_is_unpinned),
	};
	static const struct t_group groups[] = {{"store", begin, end, cases, T_COUNT(cases)}};

	engine = argc > 1 ? t_engine(argv[1]) : NULL;
	return t_run(groups, T_COUNT(groups), NULL);
}
