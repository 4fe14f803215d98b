/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory through the ring of pinned memory, on every engine:
 *
 *	gpu-ring ENGINE [GROUP...]
 *
 * The driver is a stand-in (standin/standin.h).  The cases stand in one file per group;
 * here is the table, and in fixture.c what they share.
 */
#include "tests/gpu/fixture.h"

int main(int argc, char **argv)
{
	static struct t_group groups[5];
	const struct t_group *all[] = {&rg_transfer, &rg_load, &rg_order, &rg_fault, &rg_pieces};
	struct penstock_err err = {0, ""};
	struct penstock_io *io = NULL;
	struct penstock_opts o;

	if (argc > 1)
		rg_engine = t_engine(argv[1]);
	rg_faulty = !strncmp(rg_engine, "fault", 5);
	T_EQ(cuInit(0), 0);
	o = rg_opts();
	if (penstock_open(&io, &o, &err) < 0)
		t_skip_all(t_engine_need(rg_engine), "%s: %s", rg_engine, err.msg);
	penstock_close(io, NULL);
	for (size_t i = 0; i < T_COUNT(all); i++)
		groups[i] = *all[i];
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
