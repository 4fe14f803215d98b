/* SPDX-License-Identifier: Apache-2.0 */
/* penstock ckpt: checkpoints and model files; see load/jobs/ckpt.h and load/ckpt. */
#include "cli/cli.h"

static const struct cli_cmd *const ckpt_subs[] = {
	&cmd_ckpt_bench, &cmd_ckpt_verify, &cmd_ckpt_ls, &cmd_ckpt_cp, NULL,
};

const struct cli_cmd cmd_ckpt = {
	.name = "ckpt",
	.summary = "checkpoints and model files: measure, verify, list, copy",
	.opts = cli_no_opts,
	.subs = ckpt_subs,
};
