/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLUICE_MEASURE_NULL_H
#define SLUICE_MEASURE_NULL_H

/* The null engine moves nothing: no wear comes from it, and no device limits it. */
#include <stdbool.h>
#include <string.h>

/* What stands in the place of its limit. */
#define NULL_LIMIT "the null engine moves nothing"

/* Is that its name, perhaps with settings behind a colon? */
static inline bool engine_is_null(const char *name)
{
	return name && !strncmp(name, "null", 4) && (!name[4] || name[4] == ':');
}

#endif
