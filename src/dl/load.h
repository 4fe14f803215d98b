/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_DL_LOAD_H
#define SLUICE_DL_LOAD_H

#include <stddef.h>

struct sluice_dl_symbol {
	const char *name;
	void **at; /* NULL is stored where the library lacks an optional one */
	int optional;
};

/*
 * Load @library for the life of the process and look up @n symbols.  Returns 0,
 * or -ENOENT with the reason in @why: library absent, or too old for a symbol.
 */
int sluice_dl_load(const char *library, const struct sluice_dl_symbol *symbols, size_t n, char *why,
		   size_t size);

#endif
