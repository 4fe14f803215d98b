/* SPDX-License-Identifier: Apache-2.0 */
/* sluice kv: the commands of the KV-cache workload. */
#include "cli/cli.h"

static const struct cli_cmd *const kv_subs[] = {&cmd_kv_vectors, NULL};

const struct cli_cmd cmd_kv = {
	.name = "kv",
	.summary = "the KV-cache workload of a language model",
	.opts = cli_no_opts,
	.subs = kv_subs,
};
