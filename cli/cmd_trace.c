/* SPDX-License-Identifier: Apache-2.0 */
/* penstock trace: recorded operations, in every format; see load/trace/trace.h. */
#include "cli/cli.h"

static const struct cli_cmd *const trace_subs[] = {
	&cmd_trace_convert,
	&cmd_trace_stat,
	&cmd_trace_cut,
	NULL,
};

const struct cli_cmd cmd_trace = {
	.name = "trace",
	.summary = "recorded operations: convert, look at, cut",
	.opts = cli_no_opts,
	.subs = trace_subs,
};
