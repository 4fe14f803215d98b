/* SPDX-License-Identifier: Apache-2.0 */
#include "load/jobs/external_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/program.h"

bool external_program_exists(const char *name)
{
	const char *path = getenv("PATH");
	char full[4096];

	if (strchr(name, '/'))
		return access(name, X_OK) == 0;
	while (path && *path) {
		size_t len = strcspn(path, ":");

		if ((size_t)snprintf(full, sizeof(full), "%.*s/%s", (int)len, path, name) <
			    sizeof(full) &&
		    access(full, X_OK) == 0)
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

int external_program_run(char *const argv[], const char *dir, const atomic_int *stop, char **ret)
{
	struct penstock_program p = {.argv = argv, .dir = dir, .stop = stop};
	int status, r = penstock_program_run(&p, ret, &status);

	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
