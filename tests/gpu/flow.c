/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in device memory, moved to and from every other place:
 *
 *	flow ENGINE [GROUP...]
 */
#include "tests/common/flowkit.h"
#include "tests/gpu/standin/standin.h"

enum { ILLEGAL_ADDRESS = 700, OUT_OF_MEMORY = 2 };

static struct standin_count before;

static void setup(void)
{
	before = standin_count();
	standin_delay_us(10);
	fk_setup();
}

static void teardown(void)
{
	struct standin_count now;

	standin_fail(NULL, 0, 0, false);
	fk_teardown();
	now = standin_count();
	T_EQ(now.allocations, before.allocations);
	T_EQ(now.contexts, before.contexts);
	T_EQ(now.streams, before.streams);
	T_EQ(now.registrations, before.registrations);
}

static void a_copy_that_fails_is_the_result(void)
{
	unsigned gpu = fk_device(MIB(16)), slab = fk_slab("slab", MIB(16));

	fk_open();
	FK_DO(fk_write(gpu, 1, "on-the-device", MIB(12)), MIB(12));
	standin_fail("cuMemcpyAsync", 2, ILLEGAL_ADDRESS, false);
	FK_DO(fk_read(gpu, 1), -EIO);
	T_STR_HAS(fk_error(), "on-the-device");
	T_STR_HAS(fk_error(), "CUDA_ERROR_ILLEGAL_ADDRESS");
	FK_DO(fk_read(gpu, 1), MIB(12));
	standin_fail("cuMemcpyDtoHAsync_v2", 1, ILLEGAL_ADDRESS, false);
	FK_DO(fk_move(gpu, slab, 1, MIB(12)), -EIO);
	T_STR_HAS(fk_error(), "on-the-device");
	T_EQ(place_used(fk_place[gpu]) + place_used(fk_place[slab]), 0);
	fk_close();
}

static void demotion_goes_straight_from_the_device_to_storage(void)
{
	unsigned gpu = fk_device(MIB(64)), mem = fk_memory(MIB(64)),
		 slab = fk_slab("slab", MIB(64));
	struct flow_stats st;

	fk_open();
	FK_DO(fk_write(gpu, 1, "down", MIB(9)), MIB(9));
	FK_DO(fk_move(gpu, slab, 1, MIB(9)), MIB(9));
	flow_get_stats(fk_flow, &st);
	T_OK(st.io.blocks_pinned_pool > 0);
	T_EQ(fk_done[1].read_ns, 0);
	FK_DO(fk_read(slab, 1), MIB(9));
	FK_DO(fk_move(slab, gpu, 1, MIB(9)), MIB(9));
	FK_DO(fk_read(gpu, 1), MIB(9));
	FK_DO(fk_move(gpu, mem, 1, MIB(9)), MIB(9));
	T_OK(fk_done[5].read_ns > 0 && fk_done[5].write_ns > 0);
	FK_DO(fk_read(mem, 1), MIB(9));
	T_EQ(standin_count().unpinned, before.unpinned);
	fk_close_flow();
	T_EQ(standin_count().registrations, before.registrations);
	fk_open(); /* the memory has grown already */
	FK_DO(fk_write(mem, 2, "up", MIB(9)), MIB(9));
	FK_DO(fk_move(mem, gpu, 2, MIB(9)), MIB(9));
	FK_DO(fk_read(gpu, 2), MIB(9));
	T_EQ(standin_count().unpinned, before.unpinned);
	fk_close();
}

/* Host memory grows by 256 MiB at a time, and each piece is pinned by itself. */
static void copies_keep_within_what_was_pinned_at_once(void)
{
	unsigned gpu = fk_device(MIB(32)), mem = fk_memory(MIB(320));

	fk_open();
	FK_DO(fk_write(mem, 1, "before", MIB(250)), MIB(250));
	FK_DO(fk_write(gpu, 2, "across", MIB(15)), MIB(15));
	FK_DO(fk_move(gpu, mem, 2, MIB(15)), MIB(15));
	FK_DO(fk_read(mem, 2), MIB(15));
	FK_DO(fk_move(mem, gpu, 2, MIB(15)), MIB(15));
	FK_DO(fk_read(gpu, 2), MIB(15));
	T_EQ(standin_count().unpinned, before.unpinned);
	T_EQ(standin_count().errors, before.errors);
	fk_close();
}

static void more_than_the_device_has_is_refused(void)
{
	struct place_opts o = {.kind = PLACE_GPU, .capacity = 1ull << 60};
	struct penstock_err err = {0, ""};
	struct place *p;

	T_EQ(place_check(&o, &err), -ENOMEM);
	T_STR_HAS(err.msg, "GPU memory");
	o.capacity = MIB(1);
	standin_fail("cuMemAlloc_v2", 1, OUT_OF_MEMORY, false);
	T_EQ(place_open(&p, &o, &err), -ENOMEM);
	o.device = 77;
	T_EQ(place_check(&o, &err), -ENODEV);
	T_EQ(place_open(&p, &o, &err), -ENODEV);
}

static const struct t_case cases[] = {
	T_CASE(a_copy_that_fails_is_the_result),
	T_CASE(demotion_goes_straight_from_the_device_to_storage),
	T_CASE(copies_keep_within_what_was_pinned_at_once),
	T_CASE(more_than_the_device_has_is_refused),
};

int main(int argc, char **argv)
{
	struct t_group groups[] = {fk_moves, {"device", NULL, NULL, cases, T_COUNT(cases)}};
	struct penstock_err err = {0, ""};

	if (argc > 1)
		fk_engine = t_engine(argv[1]);
	if (penstock_engine_probe(t_engine_need(fk_engine), &err) < 0)
		t_skip_all(t_engine_need(fk_engine), "%s: %s", fk_engine, err.msg);
	fk_gpu = true;
	for (unsigned i = 0; i < T_COUNT(groups); i++) {
		groups[i].setup = setup;
		groups[i].teardown = teardown;
	}
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
