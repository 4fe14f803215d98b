/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory through the pinned pool, on every engine:
 *
 *	gpu-pinned-pool ENGINE [GROUP...]
 *
 * The driver is a stand-in (standin/standin.h).  The cases stand in one file per group;
 * here is the table, and in fixture.c what they share.
 */
#include "tests/gpu/fixture.h"

int main(int argc, char **argv)
{
	static struct t_group groups[5];
	const struct t_group *all[] = {&pinned_pool_transfer, &pinned_pool_load, &pinned_pool_order,
				       &pinned_pool_fault, &pinned_pool_pieces};
	struct penstock_err err = {0, ""};
	struct penstock_io *io = NULL;
	struct penstock_opts o;

	if (argc > 1)
		fixture_engine = t_engine(argv[1]);
	fixture_faulty = !strncmp(fixture_engine, "fault", 5);
	T_EQ(cuInit(0), 0);
	o = fixture_opts();
	if (penstock_open(&io, &o, &err) < 0)
		t_skip_all(t_engine_need(fixture_engine), "%s: %s", fixture_engine, err.msg);
	penstock_close(io, NULL);
	for (size_t i = 0; i < T_COUNT(all); i++)
		groups[i] = *all[i];
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
