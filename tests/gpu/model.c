/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations against a model in memory, as tests/engine/model.c, on device memory
 * and host memory mixed:
 *
 *	gpu-model ENGINE [striped]
 *
 * The memory is of a device; the test looks at it from behind, and where the library is told
 * of that side it is host memory: none of it in the first case, more in each one that follows.
 */
#include "tests/common/modelcases.h"
#include "tests/gpu/fixture.h"

static unsigned nr_calls, host_share; /* of pieces, in quarters */
static CUdeviceptr memory;
static char *behind;

static void *get_memory(size_t len)
{
	standin_delay_us(5);
	host_share = nr_calls++ % 3;
	memory = fixture_alloc(1, len);
	behind = (char *)fixture_see(memory, len);
	return behind;
}

static void *address(void *at)
{
	size_t off = (size_t)((char *)at - behind);

	if ((off / 7) % 4 < host_share)
		return at;
	return (void *)(uintptr_t)(memory + off);
}

int main(int argc, char **argv)
{
	struct model_setup s = {
		.striped = argc > 2,
		.ops = argc > 2 ? 1500 : 3000,
		.setup = fixture_setup,
		.teardown = fixture_teardown,
		.memory = get_memory,
		.address = address,
	};

	if (argc > 1)
		fixture_engine = t_engine(argv[1]);
	s.engine = fixture_engine;
	T_EQ(cuInit(0), 0);
	return model_cases_run(&s);
}
