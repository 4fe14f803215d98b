/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_CLI_CP_LIST_H
#define PENSTOCK_CLI_CP_LIST_H

/* What `penstock cp' is to copy, one by one: made of its operands before anything is copied. */
#include <stdbool.h>
#include <stdint.h>

#include <penstock/s3.h>

struct cp_item {
	char *from, *to;
	/* how it went */
	uint64_t bytes;
	double seconds;
	int code; /* 0 or -errno */
	struct penstock_err err;
};

struct cp_list {
	struct cp_item *v;
	uint64_t nr;
};

/* @from to @to, or by its name to the folder @to.  0 or -ENOMEM. */
int cp_list_add(struct cp_list *l, const char *from, const char *to);
/*
 * All that is below @from, a folder or prefix, to the same names below @to.  0 or -errno, with @err
 * filled.  Files that are no files (links, sockets) are passed over and counted in *@passed.
 */
int cp_list_add_tree(struct cp_list *l, const char *from, const char *to, struct penstock_s3 *c,
		     uint64_t *passed, struct penstock_err *err);
void cp_list_fini(struct cp_list *l);

/* The folders above @path, as far as they are missing.  0 or -errno. */
int cp_make_folders(const char *path);

#endif
