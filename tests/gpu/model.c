/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations against a model in memory, as tests/engine/model.c, on device memory
 * and host memory mixed:
 *
 *	gpu-model ENGINE
 *
 * The memory is of a device; the test looks at it from behind, and where the library is told
 * of that side it is host memory.
 */
#include "tests/common/modelrun.h"

#include "tests/gpu/ring.h"

static uint64_t seed;
static unsigned host_share; /* of pieces, in quarters */
static CUdeviceptr memory;
static char *behind;

static void *get_memory(size_t len)
{
	memory = rg_alloc(1, len);
	behind = (char *)rg_see(memory, len);
	return behind;
}

static void *address(void *at)
{
	size_t off = (size_t)((char *)at - behind);

	if ((off / 7) % 4 < host_share)
		return at;
	return (void *)(uintptr_t)(memory + off);
}

struct dice {
	struct sluice_random rnd;
	unsigned long left;
};

static uint64_t below(void *arg, uint64_t n)
{
	struct dice *d = arg;

	return sluice_random_below(&d->rnd, n);
}

static bool more(void *arg)
{
	struct dice *d = arg;

	return d->left && d->left--;
}

static void run(struct model_config *c, unsigned long ops, uint64_t salt)
{
	struct dice d = {.left = ops};
	struct model_source s = {below, more, &d};
	struct model_result r;

	standin_delay_us(5);
	sluice_random_seed(&d.rnd, seed + salt);
	c->engine = rg_engine;
	c->dir = t_dir();
	c->may_fail = strstr(rg_engine, "error=") ? EIO : 0;
	c->memory = get_memory;
	c->address = address;
	if (!model_run(c, &s, &r))
		T_FAIL("%s", r.why);
	t_note("%lu operations, %lu failed, %lu cancelled, %lu direct, %llu bytes", r.ops, r.failed,
	       r.cancelled, r.direct, (unsigned long long)r.bytes);
}

static void small_operations_agree_with_the_model(void)
{
	struct model_config c = {
		.nr_files = 3, .max_size = 300000, .max_len = 9000, .reopen_every = 500};

	host_share = 0;
	run(&c, t_ops(2000), 0);
	host_share = 2;
	run(&c, t_ops(2000), 1);
}

static void large_operations_agree_with_the_model(void)
{
	struct model_config c = {
		.nr_files = 2, .max_size = 1000000, .max_len = 400000, .reopen_every = 200};

	host_share = 1;
	run(&c, t_ops(2000) / 2, 2);
}

/* Everything happens in two pages. */
static void crowded_operations_agree_with_the_model(void)
{
	struct model_config c = {
		.nr_files = 1, .max_size = 8192, .max_len = 1500, .reopen_every = 300};

	host_share = 1;
	run(&c, t_ops(2000) / 2, 3);
}

static const struct t_case cases[] = {
	T_CASE(small_operations_agree_with_the_model),
	T_CASE(large_operations_agree_with_the_model),
	T_CASE(crowded_operations_agree_with_the_model),
};

int main(int argc, char **argv)
{
	static const struct t_group group = {"model", rg_setup, rg_teardown, cases, T_COUNT(cases)};
	struct sluice_opts o = SLUICE_OPTS_INIT;
	struct sluice_err err = {0, ""};
	struct sluice_io *io = NULL;

	if (argc > 1)
		rg_engine = t_engine(argv[1]);
	o.engine = rg_engine;
	T_EQ(cuInit(0), 0);
	if (sluice_open(&io, &o, &err) < 0)
		t_skip_all(t_engine_need(rg_engine), "%s: %s", rg_engine, err.msg);
	sluice_close(io, NULL);
	seed = t_seed();
	return t_run(&group, 1, NULL);
}
