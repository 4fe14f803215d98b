/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_REPORT_JOBS_CKPT_FILES_H
#define PENSTOCK_REPORT_JOBS_CKPT_FILES_H

/* What `penstock ckpt ls', `verify' and `cp' say of files: lines, and objects of "penstock-ckpt/1".
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct model_file;
struct model_pass;

void ckpt_ls_text(FILE *f, const struct model_file *m, const char *name, bool brief);
json_t *ckpt_ls_json(const struct model_file *m, const char *name);

void ckpt_verify_text(FILE *f, const struct model_pass *p);
/* @why: what is wrong with it, or NULL. */
json_t *ckpt_verify_json(const struct model_pass *p, const char *why);

/* The whole: @command is what was done; the reference to @files is taken. */
json_t *ckpt_files_json(const char *command, json_t *files);

#endif
