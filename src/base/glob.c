/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <stdlib.h>
#include <string.h>

char *penstock_glob_pattern(const char *path, const char *files)
{
	char *pattern = malloc(2 * strlen(path) + strlen(files) + 2), *to = pattern;

	if (!pattern)
		return NULL;
	for (const char *p = path; *p; p++) {
		if (strchr("*?[\\", *p))
			*to++ = '\\';
		*to++ = *p;
	}
	*to++ = '/';
	strcpy(to, files);
	return pattern;
}
