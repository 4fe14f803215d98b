/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that knows which engines were built; the order is the order of preference. */
#include <string.h>

#include <sluice/sluice.h>

#include "config.h"
#include "engine/engine.h"

const struct sluice_engine *const sluice_engines[] = {
#if SLUICE_HAVE_LIBURING
	&sluice_engine_uring,
#endif
#if SLUICE_HAVE_LIBAIO
	&sluice_engine_libaio,
#endif
	&sluice_engine_threads,
	&sluice_engine_cufile,
	&sluice_engine_null,
	&sluice_engine_fault,
	NULL,
};

const struct sluice_engine *sluice_engine_find(const char *name, const char **ret_settings)
{
	size_t len = strcspn(name, ":");

	for (unsigned i = 0; sluice_engines[i]; i++) {
		if (strlen(sluice_engines[i]->name) != len ||
		    strncmp(sluice_engines[i]->name, name, len) != 0)
			continue;
		if (ret_settings)
			*ret_settings = name[len] ? name + len + 1 : NULL;
		return sluice_engines[i];
	}
	return NULL;
}
