/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that knows which engines were built; the order is the order of preference. */
#include <string.h>

#include <penstock/penstock.h>

#include "config.h"
#include "engine/engine.h"

const struct penstock_engine *const penstock_engines[] = {
#if PENSTOCK_HAVE_LIBURING
	&penstock_engine_uring,
#endif
#if PENSTOCK_HAVE_LIBAIO
	&penstock_engine_libaio,
#endif
	&penstock_engine_threads,
	&penstock_engine_cufile,
	&penstock_engine_null,
	&penstock_engine_fault,
	NULL,
};

const struct penstock_engine *penstock_engine_find(const char *name, const char **ret_settings)
{
	size_t len = strcspn(name, ":");

	for (unsigned i = 0; penstock_engines[i]; i++) {
		if (strlen(penstock_engines[i]->name) != len ||
		    strncmp(penstock_engines[i]->name, name, len) != 0)
			continue;
		if (ret_settings)
			*ret_settings = name[len] ? name + len + 1 : NULL;
		return penstock_engines[i];
	}
	return NULL;
}
