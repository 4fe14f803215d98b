/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OBJECT_H
#define PENSTOCK_CLI_OBJECT_H

/* Object stores, for commands that take URIs: their options and the client behind them. */
#include <penstock/object.h>

#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/opt/opt_json.h"

/* For a struct penstock_object_opts. */
extern const struct cli_opt cli_object_opts[];

/* What they leave open comes from the environment. */
void cli_object_env(struct penstock_object_opts *opts);

/* Open the client.  An exit status, having said what is wrong. */
int cli_object_open(struct penstock_object **out, struct penstock_object_opts *opts,
		    const struct cli_cmd *cmd);

/*
 * Where one of these @n names is in a store: a client for the handles of a job; *@out stays NULL
 * where none is.  An exit status.
 */
int cli_object_for(struct penstock_object **out, struct penstock_object_opts *opts,
		   const char *const *names, size_t n, const struct cli_cmd *cmd);

/*
 * @one for @name, or, where that is s3://BUCKET/PREFIX/, for every model file right below it.
 * Returns the last exit status that is not CLI_OK; one of 128 and more ends it.
 */
int cli_object_models(struct penstock_object *c, const char *name, const struct cli_cmd *cmd,
		      int (*one)(void *arg, const char *name), void *arg);

/* The exit status for what the library returned, after its message. */
int cli_object_fail(const struct cli_cmd *cmd, int code, const char *why);

/* How its requests went, as the member of a result, and to @f unless that is NULL. */
json_t *cli_object_report(FILE *f, struct penstock_object *c);

/*
 * Write --json, if it was asked for: @entries, which are taken, and how the requests went; @c may
 * be NULL.  An exit status.
 */
int cli_objects_json(struct cli_file *f, const struct cli_cmd *cmd, json_t *entries,
		     struct penstock_object *c);

/* Say what was tried again, if anything was. */
void cli_object_tell(const struct cli_cmd *cmd, struct penstock_object *c);

/* Is it a URI?  Schemes that are not built were refused with the command line. */
bool cli_is_object(const char *name);

#endif
