/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_TRACE_H
#define PENSTOCK_CLI_TRACE_H

/* What the commands of `penstock trace' share: how a trace is read, and how it is written. */
#include "cli/cli.h"
#include "load/kv/kv.h"
#include "load/trace/copy.h"

struct cli_trace_in {
	struct trace_reader_opts opts;
	const char *model;
};
extern const struct cli_opt cli_trace_in_opts[];
/* Let @a->opts be whole.  CLI_OK, or CLI_USAGE after a message. */
int cli_trace_in(struct cli_trace_in *a, const struct cli_cmd *cmd);

/* May the trace be read a second time?  What comes through a pipe may not even be looked at. */
bool cli_trace_twice(const char *path);

/*
 * Carry out @c to the file @out, which appears when it is complete, and say on stderr what is lost.
 * An exit status.
 */
int cli_trace_copy(struct trace_copy *c, const char *out, const struct cli_cmd *cmd);
/* The first bad rows on stderr, a line each, and how many there are if that is more. */
void cli_trace_report_bad(const struct trace_bad *bad, const struct cli_cmd *cmd);

/* Traces that hold requests, not operations: the model they go through. */

struct cli_requests {
	struct kv_params params; /* which the options set */
	struct trace_row_generator generator;
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
