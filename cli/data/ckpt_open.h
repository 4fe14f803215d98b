/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_CKPT_OPEN_H
#define PENSTOCK_CLI_CKPT_OPEN_H

/* How `ckpt cp', `ckpt ls' and `ckpt verify' begin and end, whatever they do with their files. */
#include <stdbool.h>

#include <jansson.h>

#include <penstock/penstock.h>

#include "cli/cli.h"
#include "cli/cli_s3.h"
#include "cli/opt/opt_file.h"

struct ckpt_open {
	const struct cli_cmd *cmd;
	struct penstock_opts opts;
	struct penstock_io *io;
	bool text;     /* standard output is for people */
	json_t *files; /* what is to be said of each */
	struct cli_file json;
};

/*
 * The file of --json, then a handle for @names, which may be objects.  An exit status after a
 * message; ckpt_close() is due either way.
 */
int ckpt_open(struct ckpt_open *k, const struct cli_cmd *cmd, const struct penstock_opts *opts,
	      struct penstock_s3_opts *s3, const char *const *names, size_t nr, const char *json);
/* Write --json, unless @status is that of an interruption.  @status, or that of writing. */
int ckpt_close(struct ckpt_open *k, const char *what, int status);

#endif
