/* SPDX-License-Identifier: Apache-2.0 */
/* penstock s3: object stores as a whole.  What it has is written in Python. */
#include "cli/cli.h"

static const struct cli_cmd cmd_s3_compare = {
	.name = "s3 compare",
	.summary = "the same objects through penstock and other clients, in turns",
	.usage = "s3://BUCKET/PREFIX",
	.notes = "Part of the Python package: python3 -m penstock s3 compare --help\n",
	.opts = cli_no_opts,
	.elsewhere = "python3 -m penstock s3 compare ...",
};

static const struct cli_cmd *const s3_subs[] = {&cmd_s3_compare, NULL};

const struct cli_cmd cmd_s3 = {
	.name = "s3",
	.summary = "clients of object stores, compared",
	.opts = cli_no_opts,
	.subs = s3_subs,
};
