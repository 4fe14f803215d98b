/* SPDX-License-Identifier: Apache-2.0 */
/* The configurations of sweep and tune: their number, order, meaning and names. */
#include <errno.h>

#include <penstock/penstock.h>

#include "base/util.h"
#include "common/t.h"
#include "load/bed/buffers.h"
#include "load/jobs/config_space.h"

static void upstreams_space_has_its_size(void **state)
{
	struct config_space s;

	(void)state;
	assert_int_equal(config_space_nvme_tune(&s, NULL), 0);
	assert_int_equal(config_space_points(&s), 64);
	config_space_fini(&s);
}

static void every_point_is_another_configuration(void **state)
{
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	char names[64][128];
	struct config_space s;

	(void)state;
	assert_int_equal(config_space_nvme_tune(&s, NULL), 0);
	for (unsigned i = 0; i < 64; i++) {
		config_space_name(names[i], sizeof(names[i]), &s, i, true, 1, &opts);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(names[i], names[k]);
	}
	/* The last axis varies fastest, as in upstream's product. */
	assert_string_equal(names[0], "read_block_sequential_ftd1_d32_bs1M_p1");
	assert_string_equal(names[1], "read_block_sequential_ftd1_d32_bs1M_p2");
	assert_string_equal(names[4], "read_single_sequential_ftd1_d32_bs1M_p1");
	assert_string_equal(names[63], "read_single_overlap_ftd1_d128_bs8M_p8");
	config_space_fini(&s);
}

static void a_point_sets_what_it_names_and_nothing_else(void **state)
{
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	struct config_space s = {.nr = 0};
	uint32_t memory = BED_ODD;
	char name[128];

	(void)state;
	opts.depth = 7;
	opts.threads = 3;
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_ENGINE, 0, "libaio", NULL), 0);
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_ENGINE, 0, "threads", NULL), 0);
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_SINGLE, 1, NULL, NULL), 0);
	assert_int_equal(config_space_points(&s), 2);
	config_space_apply(&s, 1, &opts, &memory);
	assert_string_equal(opts.engine, "threads");
	assert_int_equal(opts.flags, PENSTOCK_SINGLE_SUBMIT);
	assert_int_equal(opts.depth, 7);
	assert_int_equal(memory, BED_ODD);
	config_space_name(name, sizeof(name), &s, 0, false, 2, &opts);
	assert_string_equal(name, "write_single_overlap_ftd2-libaio_d7_bs1M_p3");
	config_space_fini(&s);
}

static void a_name_has_seven_fields_that_upstream_reads(void **state)
{
	static const struct {
		uint64_t block;
		const char *name;
	} cases[] = {
		{512, "read_block_overlap_ftd1_d1_bs512_p1"},
		{1536, "read_block_overlap_ftd1_d1_bs1536_p1"},
		{KIB(1), "read_block_overlap_ftd1_d1_bs1K_p1"},
		{KIB(1536), "read_block_overlap_ftd1_d1_bs1536K_p1"},
		{MIB(1), "read_block_overlap_ftd1_d1_bs1M_p1"},
		{MIB(1024), "read_block_overlap_ftd1_d1_bs1024M_p1"},
	};
	struct penstock_opts opts = PENSTOCK_OPTS_INIT;
	struct config_space s = {.nr = 0};
	char name[128];

	(void)state;
	/* One engine, one kind of memory: nothing to tell apart. */
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_ENGINE, 0, "io_uring", NULL), 0);
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_MEMORY, BED_PLAIN, NULL, NULL), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		opts.block = cases[i].block;
		config_space_name(name, sizeof(name), &s, 0, true, 1, &opts);
		assert_string_equal(name, cases[i].name);
	}
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_ENGINE, 0, "threads", NULL), 0);
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_MEMORY, BED_ODD, NULL, NULL), 0);
	config_space_name(name, sizeof(name), &s, 0, true, 1, &opts);
	assert_string_equal(name, "read_block_overlap_ftd1-io-uring-plain_d1_bs1024M_p1");
	config_space_name(name, sizeof(name), &s, 3, true, 1, &opts);
	assert_string_equal(name, "read_block_overlap_ftd1-threads-odd_d1_bs1024M_p1");
	config_space_fini(&s);
}

static void what_makes_no_sense_is_refused(void **state)
{
	struct penstock_err err = {0, ""};
	struct config_space s = {.nr = 0};

	(void)state;
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_QUEUE_DEPTH, 0, NULL, &err), -EINVAL);
	assert_string_equal(err.msg, "queue_depth: 0 is outside 1..4096");
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_BLOCK_SIZE, 1000, NULL, &err), -EINVAL);
	assert_string_equal(err.msg, "block_size: 1000 is not a multiple of 512");
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_IO_PARALLEL, 2, NULL, &err), 0);
	assert_int_equal(config_space_add(&s, CONFIG_SPACE_IO_PARALLEL, 2, NULL, &err), -EEXIST);
	assert_int_equal(config_space_points(&s), 1);
	config_space_fini(&s);
}

static void ranges_are_those_of_the_handles_options(void **state)
{
	static const struct {
		enum config_space_kind kind;
		const char *field;
	} all[] = {
		{CONFIG_SPACE_BLOCK_SIZE, "block"},
		{CONFIG_SPACE_QUEUE_DEPTH, "depth"},
		{CONFIG_SPACE_IO_PARALLEL, "threads"},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		struct config_space s = {.nr = 0};
		struct penstock_bounds is;

		assert_int_equal(penstock_get_bounds(all[i].field, &is), 0);
		assert_int_equal(config_space_add(&s, all[i].kind, is.min - 1, NULL, NULL),
				 -EINVAL);
		assert_int_equal(config_space_add(&s, all[i].kind, is.max + 1, NULL, NULL),
				 -EINVAL);
		assert_int_equal(config_space_add(&s, all[i].kind, is.min, NULL, NULL), 0);
		assert_int_equal(config_space_add(&s, all[i].kind, is.max, NULL, NULL), 0);
		assert_int_equal(config_space_add(&s, all[i].kind, is.min + is.step, NULL, NULL),
				 0);
		if (is.step > 1)
			assert_int_equal(config_space_add(&s, all[i].kind, is.max - 1, NULL, NULL),
					 -EINVAL);
		config_space_fini(&s);
	}
}

static void fewer_threads_are_cheaper_than_less_memory(void **state)
{
	struct penstock_opts a = PENSTOCK_OPTS_INIT, b = PENSTOCK_OPTS_INIT;

	(void)state;
	a.threads = 1;
	a.depth = 128;
	a.block = MIB(8);
	b.threads = 2;
	b.depth = 1;
	b.block = 4096;
	assert_true(config_space_cost(&a) < config_space_cost(&b));
	b = a;
	b.depth = 64;
	assert_true(config_space_cost(&b) < config_space_cost(&a));
	b = a;
	b.flags = PENSTOCK_SINGLE_SUBMIT;
	assert_true(config_space_cost(&a) < config_space_cost(&b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(upstreams_space_has_its_size),
		cmocka_unit_test(every_point_is_another_configuration),
		cmocka_unit_test(a_point_sets_what_it_names_and_nothing_else),
		cmocka_unit_test(a_name_has_seven_fields_that_upstream_reads),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(ranges_are_those_of_the_handles_options),
		cmocka_unit_test(fewer_threads_are_cheaper_than_less_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
