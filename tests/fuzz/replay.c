/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target on files, without a fuzzer:
 *
 *	TARGET FILE|DIRECTORY...
 *
 * TAP, one line a file.  What aborts is named on the line before.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static unsigned nr;

static void replay(const char *path)
{
	FILE *f = fopen(path, "re");
	size_t n = 0, room = 1 << 20;
	uint8_t *data = malloc(room), *fit = NULL;
	const char *name = strrchr(path, '/');

	nr++;
	printf("# %s\n", path);
	fflush(stdout);
	if (f && data) {
		n = fread(data, 1, room, f);
		fit = malloc(n ? n : 1); /* so that a sanitizer sees where it ends */
	}
	if (fit) {
		memcpy(fit, data, n);
		LLVMFuzzerTestOneInput(fit, n);
		printf("ok %u - %s\n", nr, name ? name + 1 : path);
	} else {
		printf("not ok %u - %s\n# %s\n", nr, path, strerror(errno));
	}
	if (f)
		fclose(f);
	free(data);
	free(fit);
}

static int not_hidden(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static void replay_dir(const char *dir)
{
	struct dirent **list = NULL;
	int n = scandir(dir, &list, not_hidden, alphasort);

	for (int i = 0; i < n; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		replay(path);
		free(list[i]);
	}
	free(list);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
			replay_dir(argv[i]);
		else
			replay(argv[i]);
	}
	printf("1..%u\n", nr);
	return nr ? 0 : 1;
}
