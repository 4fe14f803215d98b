/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <stdlib.h>
#include <string.h>

char *penstock_glob_pattern(const char *path, const char *what)
{
	char *pattern = malloc(2 * strlen(path) + strlen(what) + 2), *to = pattern;

	if (!pattern)
		return NULL;
	for (const char *p = path; *p; p++) {
		if (strchr("*?[\\", *p))
			*to++ = '\\';
		*to++ = *p;
	}
	*to++ = '/';
	strcpy(to, what);
	return pattern;
}
