/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_S3_H
#define PENSTOCK_CLI_S3_H

/* Object stores, for commands that take URIs: their options and the client behind them. */
#include <penstock/s3.h>

#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/opt/opt_json.h"

/* For a struct penstock_s3_opts. */
extern const struct cli_opt cli_s3_opts[];

/* What they leave open comes from the environment. */
void cli_s3_env(struct penstock_s3_opts *opts);

/* Open the client.  An exit status, having said what is wrong. */
int cli_s3_open(struct penstock_s3 **out, struct penstock_s3_opts *opts, const struct cli_cmd *cmd);

/*
 * Where one of these @n names is in a store: a client for the handles of a job; *@out stays NULL
 * where none is.  An exit status.
 */
int cli_s3_for(struct penstock_s3 **out, struct penstock_s3_opts *opts, const char *const *names,
	       size_t n, const struct cli_cmd *cmd);

/*
 * @one for @name, or, where that is s3://BUCKET/PREFIX/, for every model file right below it.
 * Returns the last exit status that is not CLI_OK; one of 128 and more ends it.
 */
int cli_s3_models(struct penstock_s3 *c, const char *name, const struct cli_cmd *cmd,
		  int (*one)(void *arg, const char *name), void *arg);

/* The exit status for what the library returned, after its message. */
int cli_s3_fail(const struct cli_cmd *cmd, int code, const char *why);

/* How its requests went, as the member of a result, and to @f unless that is NULL. */
json_t *cli_s3_report(FILE *f, struct penstock_s3 *c);

/*
 * Write --json, if it was asked for: @entries, which are taken, and how the requests went; @c may
 * be NULL.  An exit status.
 */
int cli_s3s_json(struct cli_file *f, const struct cli_cmd *cmd, json_t *entries,
		 struct penstock_s3 *c);

/* Say what was tried again, if anything was. */
void cli_s3_print_requests(const struct cli_cmd *cmd, struct penstock_s3 *c);

/* Is it a URI?  Schemes that are not built were refused with the command line. */
bool cli_is_object(const char *name);

#endif
