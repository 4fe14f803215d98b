/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole objects moved between places, on every engine:
 *
 *	flow ENGINE [GROUP...]
 */
#include "tests/common/flowkit.h"

int main(int argc, char **argv)
{
	struct t_group groups[] = {fk_moves, fk_orders, fk_ranges};
	struct penstock_err err = {0, ""};

	if (argc > 1)
		fk_engine = t_engine(argv[1]);
	if (penstock_engine_probe(t_engine_need(fk_engine), &err) < 0)
		t_skip_all(t_engine_need(fk_engine), "%s: %s", fk_engine, err.msg);
	return t_run(groups, T_COUNT(groups), argc > 2 ? argv + 2 : NULL);
}
