/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h and what probe.h says about GPUs, with a stand-in for the CUDA driver. */
#include <penstock/gpu.h>
#include <penstock/probe.h>

#include "tests/gpu/fixture.h"

static void memory_is_handed_out_and_copied(void)
{
	unsigned char *a = malloc(MIB(1)), *b = calloc(1, MIB(1));
	struct penstock_err err = {0, ""};
	void *mem[STANDIN_DEVICES];

	T_EQ(cuMemHostRegister_v2(a, MIB(1), 0), 0); /* the teardown counts what is not */
	T_EQ(cuMemHostRegister_v2(b, MIB(1), 0), 0);
	penstock_pattern_fill(a, MIB(1), 3, 0);
	for (unsigned i = 0; i < STANDIN_DEVICES; i++) {
		T_ERR(penstock_gpu_alloc(&mem[i], i, MIB(1), &err), 0, &err);
		T_EQ(standin_ordinal((uintptr_t)mem[i]), i);
		T_ERR(penstock_gpu_copy(mem[i], a, MIB(1), &err), 0, &err);
		memset(b, 0, MIB(1));
		T_ERR(penstock_gpu_copy(b, mem[i], MIB(1), &err), 0, &err);
		T_MEM(b, a, MIB(1));
	}
	T_EQ(penstock_gpu_copy(mem[0], mem[0], 0, &err), 0);
	T_EQ(penstock_gpu_copy(a, b, 10, &err), -EINVAL);
	T_EQ(penstock_gpu_free(a), -EINVAL);
	T_EQ(penstock_gpu_free(NULL), 0);
	for (unsigned i = 0; i < STANDIN_DEVICES; i++)
		T_EQ(penstock_gpu_free(mem[i]), 0);
	T_EQ(cuMemHostUnregister(a), 0);
	T_EQ(cuMemHostUnregister(b), 0);
	free(a);
	free(b);
}

static void host_memory_is_pinned_until_it_is_not(void)
{
	struct standin_count was = standin_count();
	unsigned char *a = malloc(MIB(1));
	struct penstock_err err = {0, ""};
	void *mem;

	T_ERR(penstock_gpu_alloc(&mem, 1, MIB(1), &err), 0, &err);
	T_ERR(penstock_gpu_pin(a, MIB(1), &err), 0, &err);
	T_EQ(standin_count().registrations, was.registrations + 1);
	T_ERR(penstock_gpu_copy(mem, a, MIB(1), &err), 0, &err);
	T_ERR(penstock_gpu_copy(a, mem, MIB(1), &err), 0, &err);
	T_EQ(standin_count().unpinned, was.unpinned);
	T_EQ(penstock_gpu_unpin(a), 0);
	T_EQ(standin_count().registrations, was.registrations);
	T_OK(penstock_gpu_unpin(a) < 0);
	fixture_errors = 1; /* that one */
	standin_fail("cuMemHostRegister_v2", 1, 2, false);
	T_EQ(penstock_gpu_pin(a, MIB(1), &err), -ENOMEM);
	T_STR_HAS(err.msg, "cuMemHostRegister");
	T_EQ(penstock_gpu_free(mem), 0);
	free(a);
}

static void what_is_not_there_is_told(void)
{
	struct penstock_gpu_device d = {.size = sizeof(d)};
	struct penstock_gpu_speed s = {.size = sizeof(s)};
	struct penstock_err err;
	void *mem;

	T_EQ(penstock_gpu_alloc(&mem, STANDIN_DEVICES, 1, &err), -ENODEV);
	T_STR_HAS(err.msg, "no GPU memory: device 2: there are 2 CUDA devices");
	err.msg[0] = 0;
	T_EQ(penstock_probe_gpu_device(STANDIN_DEVICES, &d, &err), -ENODEV);
	T_STR_HAS(err.msg, "no GPU memory: device 2: there are 2 CUDA devices");
	T_EQ(penstock_probe_gpu_speed(STANDIN_DEVICES, &s, &err), -ENODEV);
	d.size = s.size = 0;
	T_EQ(penstock_probe_gpu_device(0, &d, &err), -EINVAL);
	T_EQ(penstock_probe_gpu_speed(0, &s, &err), -EINVAL);
	standin_fail("cuMemAlloc_v2", 1, 2, false);
	T_EQ(penstock_gpu_alloc(&mem, 0, 1, &err), -ENOMEM);
	T_STR_HAS(err.msg, "CUDA_ERROR_OUT_OF_MEMORY");
}

static void devices_are_described(void)
{
	struct {
		struct penstock_gpu_device d;
		char behind[16];
	} newer;
	struct penstock_gpu_device d = {.size = sizeof(d)};

	T_EQ(penstock_probe_gpu_device(1, &d, NULL), 0);
	T_OK(!strcmp(d.name, "Stand-in 1"));
	T_OK(!strcmp(d.pci, "0000:02:00.0"));
	T_OK(d.memory && d.capability);
	memset(&newer, 0x55, sizeof(newer));
	newer.d.size = sizeof(newer);
	T_EQ(penstock_probe_gpu_device(0, &newer.d, NULL), 0);
	T_EQ(newer.behind[15], 0);
	memset(&newer, 0x55, sizeof(newer));
	newer.d.size = offsetof(struct penstock_gpu_device, name);
	T_EQ(penstock_probe_gpu_device(0, &newer.d, NULL), 0);
	T_EQ(newer.d.name[0], 0x55);
}

static char host[100], pinned[100];
static unsigned nr_used;

static void use_all(void)
{
	struct penstock_gpu_speed s = {.size = sizeof(s)};
	void *mem = NULL;

	if (nr_used++ % T_STEP == 0)
		penstock_probe_gpu_speed(0, &s, NULL);
	if (penstock_gpu_pin(pinned, sizeof(pinned), NULL) == 0 && penstock_gpu_unpin(pinned) < 0) {
		standin_fail(NULL, 0, 0, false);
		T_EQ(penstock_gpu_unpin(pinned), 0);
	}
	if (penstock_gpu_alloc(&mem, 1, sizeof(host), NULL) < 0)
		return;
	penstock_gpu_copy(mem, host, sizeof(host), NULL);
	penstock_gpu_copy(host, mem, sizeof(host), NULL);
	/* What cannot be freed for want of an answer can be freed later. */
	if (penstock_gpu_free(mem) < 0) {
		standin_fail(NULL, 0, 0, false);
		T_EQ(penstock_gpu_free(mem), 0);
	}
}

/* But for cuMemFree(): then the memory is lost, and nothing can be done about it. */
static void any_call_may_fail(void)
{
	static const char *const functions[] = {
		"cuDeviceGet",          "cuDevicePrimaryCtxRetain",
		"cuCtxPushCurrent_v2",  "cuMemAlloc_v2",
		"cuMemHostRegister_v2", "cuStreamCreate",
		"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
		"cuMemcpyAsync",        "cuPointerGetAttributes",
		"cuStreamSynchronize",
	};
	struct standin_count before, now;
	unsigned long n;

	standin_delay_us(0);
	T_EQ(cuMemHostRegister_v2(host, sizeof(host), 0), 0);
	before = standin_count();
	for (unsigned i = 0; i < T_COUNT(functions); i++) {
		n = 0;
		do {
			standin_fail(functions[i], ++n, 700, false);
			use_all();
			now = standin_count();
			T_EQ(now.streams, before.streams);
			T_EQ(now.allocations, before.allocations);
			T_EQ(now.registrations, before.registrations);
			T_EQ(now.contexts, before.contexts);
		} while (n < 2 && standin_failed());
		standin_fail(NULL, 0, 0, false);
	}
	T_EQ(cuMemHostUnregister(host), 0);
}

static const struct t_case cases[] = {
	T_CASE(memory_is_handed_out_and_copied),
	T_CASE(host_memory_is_pinned_until_it_is_not),
	T_CASE(what_is_not_there_is_told),
	T_CASE(devices_are_described),
	T_CASE(any_call_may_fail),
};

int main(int argc, char **argv)
{
	static const struct t_group groups[] = {
		{"gpu", fixture_setup, fixture_teardown, cases, T_COUNT(cases)},
	};

	T_EQ(cuInit(0), 0);
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
