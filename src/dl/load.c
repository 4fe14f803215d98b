/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/load.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

int penstock_dl_load(const char *library, const struct penstock_dl_symbol *symbols, size_t n,
		     char *why, size_t size)
{
	/* Never closed: these libraries start threads that outlive a dlclose(). */
	void *dl = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	const char *text;

	if (!dl) {
		text = dlerror();
		snprintf(why, size, "%s", text ? text : library);
		return -ENOENT;
	}
	for (size_t i = 0; i < n; i++) {
		*symbols[i].at = dlsym(dl, symbols[i].name);
		if (!*symbols[i].at && !symbols[i].optional) {
			snprintf(why, size, "%s: has no %s", library, symbols[i].name);
			return -ENOENT;
		}
	}
	return 0;
}
