/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TRACE_BURST_H
#define PENSTOCK_TRACE_BURST_H

/* The files of a BurstGPT input: one, all CSV files of a folder, or those of a pattern. */
#include <glob.h>
#include <stdbool.h>
#include <stddef.h>

#include <penstock/penstock.h>

struct burst_files {
	char *one; /* NULL: those that were searched for */
	glob_t found;
};
/* Sorted.  burst_files_fini() is due when it returns 0. */
int burst_files_find(struct burst_files *f, const char *path, struct penstock_err *err);
void burst_files_fini(struct burst_files *f);
size_t burst_files_nr(const struct burst_files *f);
const char *burst_files_name(const struct burst_files *f, size_t i);

#endif
