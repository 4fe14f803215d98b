/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/modelcases.h"

#include "base/random.h"
#include "tests/common/modelrun.h"
#include "tests/common/t.h"

static const struct model_setup *on;
static uint64_t seed;

struct dice {
	struct penstock_random rnd;
	unsigned long left;
};

static uint64_t dice_below(void *arg, uint64_t n)
{
	struct dice *d = arg;

	return penstock_random_below(&d->rnd, n);
}

static bool dice_more(void *arg)
{
	struct dice *d = arg;

	return d->left && d->left--;
}

/* The errno value in the settings of the fault engine, if it injects errors. */
static int injected(void)
{
	const char *p = strstr(on->engine, "errno=");

	if (!strstr(on->engine, "error=") && !strstr(on->engine, "nth="))
		return 0;
	return p ? atoi(p + 6) : EIO;
}

static void run_model(struct model_config *c, unsigned long ops, uint64_t salt)
{
	struct dice d = {.left = ops};
	struct model_source s = {dice_below, dice_more, &d};
	struct model_result r;

	penstock_random_seed(&d.rnd, seed + salt);
	c->engine = on->engine;
	c->dir = t_dir();
	c->device = on->device;
	c->striped = on->striped;
	c->may_fail = injected();
	c->memory = on->memory;
	c->address = on->address;
	if (on->device)
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

	run_model(&c, t_ops(on->ops), 0);
}

static void large_operations_agree_with_the_model(void)
{
	struct model_config c = {
		.nr_files = 2, .max_size = 1000000, .max_len = 400000, .reopen_every = 200};

	run_model(&c, t_ops(on->ops) / 4, 1);
}

/* Everything happens in two pages. */
static void crowded_operations_agree_with_the_model(void)
{
	struct model_config c = {
		.nr_files = 1, .max_size = 8192, .max_len = 1500, .reopen_every = 300};

	run_model(&c, t_ops(on->ops) / 4, 2);
}

static const struct t_case cases[] = {
	T_CASE(small_operations_agree_with_the_model),
	T_CASE(large_operations_agree_with_the_model),
	T_CASE(crowded_operations_agree_with_the_model),
};

int model_cases_run(const struct model_setup *s)
{
	const struct t_group group = {"model", s->setup, s->teardown, cases, T_COUNT(cases)};
	struct penstock_opts o = PENSTOCK_OPTS_INIT;
	struct penstock_err err = {0, ""};
	struct penstock_io *io = NULL;

	on = s;
	o.engine = s->engine;
	if (penstock_open(&io, &o, &err) < 0)
		t_skip_all(t_engine_need(s->engine), "%s: %s", s->engine, err.msg);
	penstock_close(io, NULL);
	seed = t_seed();
	return t_run(&group, 1, NULL);
}
