/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Striped files, of two to five members with odd units: random operations against a model
 * in memory.
 *
 *	stripe ENGINE
 */
#include "tests/common/modelcases.h"
#include "tests/common/t.h"

int main(int argc, char **argv)
{
	const struct model_setup s = {
		.engine = argc > 1 ? t_engine(argv[1]) : "threads",
		.striped = true,
		.ops = 4000,
	};

	return model_cases_run(&s);
}
