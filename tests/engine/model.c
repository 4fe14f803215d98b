/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations against a model in memory:
 *
 *	model ENGINE [DEVICE]
 *
 * SLUICE_TEST_SEED and SLUICE_TEST_OPS (10,000) say which and how many.  With
 * DEVICE its first megabyte is overwritten, instead of files.
 */
#include "tests/common/modelrun.h"

#include "base/random.h"
#include "tests/common/t.h"

static const char *engine = "threads";
static const char *device;
static uint64_t seed;

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

/* The errno value in the settings of the fault engine, if it injects errors. */
static int injected(void)
{
	const char *p = strstr(engine, "errno=");

	if (!strstr(engine, "error=") && !strstr(engine, "nth="))
		return 0;
	return p ? atoi(p + 6) : EIO;
}

static void run(struct model_config *c, unsigned long ops, uint64_t salt)
{
	struct dice d = {.left = ops};
	struct model_source s = {below, more, &d};
	struct model_result r;

	sluice_random_seed(&d.rnd, seed + salt);
	c->engine = engine;
	c->dir = t_dir();
	c->device = device;
	c->may_fail = injected();
	if (device)
		c->nr_files = 1;
	if (!model_run(c, &s, &r))
		T_FAIL("%s", r.why);
	t_note("%lu operations, %lu failed, %lu cancelled, %lu direct, %llu bytes", r.ops, r.failed,
	       r.cancelled, r.direct, (unsigned long long)r.bytes);
}

static void small_operations_agree_with_the_model(void)
{
	struct model_config c = {
		.nr_files = 3, .max_size = 300000, .max_len = 9000, .reopen_every = 500};

	run(&c, t_ops(10000), 0);
}

static void large_operations_agree_with_the_model(void)
{
	struct model_config c = {
		.nr_files = 2, .max_size = 1000000, .max_len = 400000, .reopen_every = 200};

	run(&c, t_ops(10000) / 4, 1);
}

/* Everything happens in two pages. */
static void crowded_operations_agree_with_the_model(void)
{
	struct model_config c = {
		.nr_files = 1, .max_size = 8192, .max_len = 1500, .reopen_every = 300};

	run(&c, t_ops(10000) / 4, 2);
}

static const struct t_case cases[] = {
	T_CASE(small_operations_agree_with_the_model),
	T_CASE(large_operations_agree_with_the_model),
	T_CASE(crowded_operations_agree_with_the_model),
};

int main(int argc, char **argv)
{
	static const struct t_group group = {"model", NULL, NULL, cases, T_COUNT(cases)};
	struct sluice_opts o = SLUICE_OPTS_INIT;
	struct sluice_err err = {0, ""};
	struct sluice_io *io = NULL;

	if (argc > 1)
		engine = t_engine(argv[1]);
	if (argc > 2)
		device = argv[2];
	o.engine = engine;
	if (sluice_open(&io, &o, &err) < 0)
		t_skip_all(t_engine_need(engine), "%s: %s", engine, err.msg);
	sluice_close(io, NULL);
	seed = t_seed();
	return t_run(&group, 1, NULL);
}
