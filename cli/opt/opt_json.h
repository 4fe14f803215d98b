/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_OPT_JSON_H
#define PENSTOCK_CLI_OPT_JSON_H

/* Files of JSON that are read, and the file behind --json. */
#include <jansson.h>
#include <stdio.h>

struct cli_cmd;
struct cli_file;

/* What @file, which @option names, holds.  NULL with a message on stderr. */
json_t *cli_json_load(const struct cli_cmd *cmd, const char *option, const char *file);
/* @root and the end of its line, by steps of @indent.  Returns 0, or -errno of the file. */
int cli_json_dump(FILE *f, const json_t *root, int indent);
/* All of @file: @root, whose reference is taken, or NULL for want of memory.  An exit status. */
int cli_json_write(struct cli_file *file, const struct cli_cmd *cmd, json_t *root);

#endif
