/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_DL_LOAD_H
#define PENSTOCK_DL_LOAD_H

#include <stddef.h>

struct penstock_dl_symbol {
	const char *name;
	void **at; /* NULL is stored where the library lacks an optional one */
	int optional;
};

/*
 * Load @library for the life of the process and look up @n symbols.  Returns 0,
 * or -ENOENT with the reason in @why: library absent, or too old for a symbol.
 */
int penstock_dl_load(const char *library, const struct penstock_dl_symbol *symbols, size_t n,
		     char *why, size_t size);

#endif
