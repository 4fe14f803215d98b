/* SPDX-License-Identifier: Apache-2.0 */
/* The KV store with memory of a GPU, alone and beside the host's. */
#include <sluice/gpu.h>

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
	T_EQ(sluice_gpu_alloc(&dev, 0, LEN, NULL), 0);
	host = malloc(LEN);
	T_OK(host != NULL);
}

static void end(void)
{
	T_EQ(sluice_gpu_free(dev), 0);
	free(host);
	sk_close();
	T_EQ(sluice_store_drop(t_path("d"), NULL), 0);
}

static void fill(uint64_t seed)
{
	sluice_pattern_fill(host, LEN, seed, 0);
	T_EQ(sluice_gpu_copy(dev, host, LEN, NULL), 0);
	memset(host, 0, LEN);
}

static void device_memory_is_set_and_got(void)
{
	T_EQ(sluice_gpu_device(dev), 0);
	T_EQ(sluice_gpu_device(host), -ENOENT);
	for (int recent = 0; recent < 2; recent++) {
		fill(7);
		T_EQ(sk_op(SLUICE_STORE_SET, "k", 1, dev, LEN, 0), LEN);
		T_EQ(sk_get("k", 7, LEN), LEN);
		fill(8);
		T_EQ(sk_op(SLUICE_STORE_GET, "k", 1, dev, LEN, recent ? 60000000000ull : 0), LEN);
		T_EQ(sluice_gpu_copy(host, dev, LEN, NULL), 0);
		T_EQ(sluice_pattern_check(host, LEN, 7, 0), LEN);
		sk_close();
		sk_opts.flags = SLUICE_STORE_NO_RECENT;
		sk_open("d", MIB(64));
	}
}

static void host_and_device_memory_are_one_value(void)
{
	struct sluice_iov iov[] = {{host, 5000}, {dev, LEN - 5000}};
	struct sluice_store_item item = {"k", 1, 2, iov};
	struct sluice_store_batch b = {.opcode = SLUICE_STORE_SET, .nr = 1, .items = &item};
	struct sluice_store_done d;

	sluice_pattern_fill(host, LEN, 3, 0);
	T_EQ(sluice_gpu_copy(dev, host + 5000, LEN - 5000, NULL), 0);
	T_EQ(sluice_store_run(sk, &b, &d, NULL), 0);
	T_EQ(d.good, 1);
	T_EQ(sk_get("k", 3, LEN), LEN);
	fill(9);
	b.opcode = SLUICE_STORE_GET;
	T_EQ(sluice_store_run(sk, &b, &d, NULL), 0);
	T_EQ(d.good, 1);
	T_EQ(sluice_pattern_check(host, 5000, 3, 0), 5000);
	T_EQ(sluice_gpu_copy(host, dev, LEN - 5000, NULL), 0);
	T_EQ(sluice_pattern_check(host, LEN - 5000, 3, 5000), LEN - 5000);
}

/* Where it is not, the driver copies in the thread of the I/O. */
static void what_values_pass_through_is_pinned(void)
{
	struct standin_count before = standin_count(), now;

	for (int i = 0; i < 8; i++) {
		T_EQ(sk_op(SLUICE_STORE_SET, "k", 1, dev, LEN, 0), LEN);
		T_EQ(sk_op(SLUICE_STORE_GET, "k", 1, dev, LEN, 0), LEN);
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

int main(int argc, char **argv)
{
	static const struct t_case cases[] = {
		T_CASE(device_memory_is_set_and_got),
		T_CASE(host_and_device_memory_are_one_value),
		T_CASE(what_values_pass_through_is_pinned),
	};
	static const struct t_group groups[] = {{"store", begin, end, cases, T_COUNT(cases)}};

	engine = argc > 1 ? t_engine(argv[1]) : NULL;
	return t_run(groups, T_COUNT(groups), NULL);
}
