/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PENSTOCK_TESTS_FUZZ_SCRATCH_H
#define PENSTOCK_TESTS_FUZZ_SCRATCH_H

/* A folder of this process for targets that need files; it goes with the process. */
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

static char scratch[64];

static int scratch_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void scratch_remove(void)
{
	nftw(scratch, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Path of @name in it; two live at a time. */
static inline const char *scratch_path(const char *name)
{
	static char paths[2][128];
	static unsigned next;

	if (!scratch[0]) {
		snprintf(scratch, sizeof(scratch), "%s/penstock-fuzz-XXXXXX",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".");
		FUZZ_CHECK(mkdtemp(scratch));
		atexit(scratch_remove);
	}
	next ^= 1;
	snprintf(paths[next], sizeof(paths[next]), "%s/%s", scratch, name);
	return paths[next];
}

static inline void scratch_write(const char *name, const void *data, size_t len)
{
	int fd = open(scratch_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	FUZZ_CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	close(fd);
}

#endif
