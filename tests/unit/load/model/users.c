/* SPDX-License-Identifier: Apache-2.0 */
/* The population of a seed is that of the benchmark this stands in for. */
#include <math.h>

#include "base/util.h"
#include "load/model/kv_load.h"
#include "tests/common/t.h"

static struct kv_params p;
static struct kv_user users[1000];

static void setup(void)
{
	memset(&p, 0, sizeof(p));
	T_EQ(kv_config_defaults(&p.config), 0);
	p.seed = 42;
}

static void teardown(void)
{
	kv_config_fini(&p.config);
}

static void make(uint64_t seed, uint32_t n)
{
	p.seed = seed;
	p.users = n;
	kv_users_make(&p, users);
}

static void the_first_users_of_seed_42_are_these(void)
{
	static const struct kv_user want[] = {
		{0, KV_INTERACTIVE, 16245, 481, 0.5938702245641714},
		{0, KV_BATCH, 3283, 189, 0.13477553305176648},
		{0, KV_INTERACTIVE, 7166, 211, 0.3861287147125917},
		{0, KV_INTERACTIVE, 7353, 758, 0.8034237851539905},
		{0, KV_BATCH, 4308, 488, 0.8446554014662464},
		{0, KV_RESPONSIVE, 8648, 359, 0.5583765145291065},
		{0, KV_INTERACTIVE, 16545, 149, 0.48718350438770275},
		{0, KV_BATCH, 5519, 473, 0.567539903737474},
	};

	make(42, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		T_EQ(users[i].context, want[i].context);
		T_EQ(users[i].generation, want[i].generation);
		T_EQ(users[i].qos, want[i].qos);
		T_OK(users[i].think == want[i].think);
	}
}

struct population {
	uint64_t seed;
	uint32_t users, min, max;
	uint64_t sum;
	uint32_t qos[KV_QOS];
	double think;
};

static void a_population(const struct population *want)
{
	struct population got = {.min = UINT32_MAX};

	make(want->seed, want->users);
	for (uint32_t i = 0; i < want->users; i++) {
		got.min = (uint32_t)min_u64(got.min, users[i].context);
		got.max = (uint32_t)max_u64(got.max, users[i].context);
		got.sum += users[i].context;
		got.qos[users[i].qos]++;
		got.think += users[i].think / want->users;
	}
	T_EQ(got.min, want->min);
	T_EQ(got.max, want->max);
	T_EQ(got.sum, want->sum);
	for (int i = 0; i < KV_QOS; i++)
		T_EQ(got.qos[i], want->qos[i]);
	T_OK(fabs(got.think - want->think) < 0.00005);
}

static void whole_populations_add_up(void)
{
	static const struct population all[] = {
		{42, 70, 598, 22617, 579311, {11, 23, 36}, 0.5893},
		{42, 100, 598, 22617, 838307, {14, 35, 51}, 0.5893},
		{42, 200, 598, 24836, 1866025, {25, 78, 97}, 0.5989},
		{43, 200, 554, 24695, 1718475, {38, 72, 90}, 0.5907},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		a_population(&all[i]);
}

static void more_users_begin_with_the_same_ones(void)
{
	struct kv_user few[10];

	make(7, 10);
	memcpy(few, users, sizeof(few));
	make(7, 1000);
	T_MEM(few, users, sizeof(few));
}

static void templates_and_qos_come_from_the_configuration(void)
{
	struct kv_config *c = &p.config;

	for (int i = 0; i < KV_TEMPLATES; i++)
		c->user[i] = (struct kv_template){{10, 12}, {3, 3}, {2, 2.5}};
	c->interactive_probability = 0;
	c->responsive_threshold = 1;
	make(1, 1000);
	for (int i = 0; i < 1000; i++) {
		T_OK(users[i].context >= 10 && users[i].context <= 12);
		T_EQ(users[i].generation, 3);
		T_OK(users[i].think >= 2 && users[i].think <= 2.5);
		T_EQ(users[i].qos, KV_RESPONSIVE);
	}
}

static void about_one_in_seven_is_interactive(void)
{
	unsigned n = 0;

	make(99, 1000);
	for (int i = 0; i < 1000; i++)
		n += users[i].qos == KV_INTERACTIVE;
	T_OK(n >= 75 && n <= 225);
}

int main(int argc, char **argv)
{
	const struct t_case cases[] = {
		T_CASE(the_first_users_of_seed_42_are_these),
		T_CASE(whole_populations_add_up),
		T_CASE(more_users_begin_with_the_same_ones),
		T_CASE(templates_and_qos_come_from_the_configuration),
		T_CASE(about_one_in_seven_is_interactive),
	};
	const struct t_group group = {"users", setup, teardown, cases, ARRAY_SIZE(cases)};

	return t_run(&group, 1, argc > 1 ? argv + 1 : NULL);
}
