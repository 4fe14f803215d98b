/* SPDX-License-Identifier: Apache-2.0 */
/* What callers may ask about the engines that were built. */
#include <errno.h>

#include <penstock/penstock.h>

#include "base/err.h"
#include "engine/engine.h"

const char *penstock_engine_name(unsigned i)
{
	for (unsigned k = 0; penstock_engines[k]; k++)
		if (k == i)
			return penstock_engines[k]->name;
	return NULL;
}

const char *penstock_engine_descr(const char *name)
{
	const struct penstock_engine *e = name ? penstock_engine_find(name, NULL) : NULL;

	return e ? e->descr : NULL;
}

int penstock_engine_probe(const char *name, struct penstock_err *err)
{
	const struct penstock_engine *e = name ? penstock_engine_find(name, NULL) : NULL;

	if (!e)
		return penstock_fail(err, -ENOTSUP, "engine: no engine \"%s\" is built in",
				     name ? name : "");
	return e->probe(err);
}
