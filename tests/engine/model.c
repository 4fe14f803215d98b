/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations against a model in memory:
 *
 *	model ENGINE [DEVICE]
 *
 * With DEVICE its first megabyte is overwritten, instead of files.
 */
#include "tests/common/modelcases.h"
#include "tests/common/t.h"

int main(int argc, char **argv)
{
	const struct model_setup s = {
		.engine = argc > 1 ? t_engine(argv[1]) : "threads",
		.device = argc > 2 ? argv[2] : NULL,
		.ops = 10000,
	};

	return model_cases_run(&s);
}
