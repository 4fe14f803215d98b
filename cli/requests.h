/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_CLI_REQUESTS_H
#define SLUICE_CLI_REQUESTS_H

/* Traces that hold requests, not operations: the model they go through. */
#include "cli/cli.h"
#include "load/kv/kv_rows.h"

struct cli_requests {
	struct kv_params params; /* which the options set */
	struct trace_maker maker;
};
extern const struct cli_opt cli_requests_opts[];
/*
 * Let @o, whose other members are filled, read @trace through the model if it holds requests.
 * @model NULL: a usual one.  CLI_OK, or another exit status after a message.
 * cli_requests_fini() is due in any case, and later than the last use of @o.
 */
int cli_requests(struct cli_requests *q, struct trace_reader_opts *o, const char *model,
		 uint64_t seed, const char *trace, const struct cli_cmd *cmd);
void cli_requests_fini(struct cli_requests *q);

#endif
