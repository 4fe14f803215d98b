/* SPDX-License-Identifier: Apache-2.0 */
/* What callers may ask about the engines that were built. */
#include <errno.h>

#include <sluice/sluice.h>

#include "base/err.h"
#include "engine/engine.h"

const char *sluice_engine_name(unsigned i)
{
	for (unsigned k = 0; sluice_engines[k]; k++)
		if (k == i)
			return sluice_engines[k]->name;
	return NULL;
}

const char *sluice_engine_descr(const char *name)
{
	const struct sluice_engine *e = name ? sluice_engine_find(name, NULL) : NULL;

	return e ? e->descr : NULL;
}

int sluice_engine_probe(const char *name, struct sluice_err *err)
{
	const struct sluice_engine *e = name ? sluice_engine_find(name, NULL) : NULL;

	if (!e)
		return sluice_fail(err, -ENOTSUP, "engine: no engine \"%s\" is built in",
				   name ? name : "");
	return e->probe(err);
}
