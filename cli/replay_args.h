/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_REPLAY_ARGS_H
#define PENSTOCK_CLI_REPLAY_ARGS_H

/* The options of `penstock replay', and how they become a job. */
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/cli_trace.h"
#include "cli/opt/transfer_opts.h"
#include "load/replay/replay.h"

struct replay_setup {
	struct replay_job job;
	struct cli_trace_in in;
	struct cli_requests requests;
	struct cli_list target, tier;
	const char *pace, *export_fio;
	bool no_check, dry_run;
	struct cli_result_args files;
	/* made of them */
	const char *paths[REPLAY_TIERS][REPLAY_PLACES * 8];
	char *dirs[REPLAY_TIERS]; /* of a store */
	bool once;                /* the trace cannot be read twice, or is not to be */
};
extern const struct cli_opt replay_opts[];

/* CLI_OK, or another exit status after a message.  replay_setup_fini() is due in any case. */
int replay_setup(struct replay_setup *s, const char *trace);
void replay_setup_fini(struct replay_setup *s);

#endif
