/* SPDX-License-Identifier: Apache-2.0 */
/* One way to look at folders for sweep and tune: what both would fail at, told before. */
#include "load/bed/folders.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"

#define RESERVE (16ull << 20) /* directories, metadata */

static int check_usable(const char *folder, struct stat *st, struct sluice_err *err)
{
	if (stat(folder, st) < 0)
		return sluice_fail(err, -EINVAL, "folder: %s: %s", folder, sluice_strerror(errno));
	if (!S_ISDIR(st->st_mode))
		return sluice_fail(err, -EINVAL, "folder: %s is not a directory", folder);
	if (access(folder, W_OK | X_OK) < 0)
		return sluice_fail(err, -EINVAL, "folder: %s cannot be written to: %s", folder,
				   sluice_strerror(errno));
	return 0;
}

static int check_room(const char *folder, uint64_t need, struct sluice_err *err)
{
	char need_text[SLUICE_SIZE_TEXT], have_text[SLUICE_SIZE_TEXT];
	struct statvfs v;
	uint64_t have;

	if (statvfs(folder, &v) < 0 || !v.f_blocks)
		return 0; /* it does not say; writing will tell */
	have = (uint64_t)v.f_bavail * v.f_frsize;
	if (need <= have)
		return 0;
	return sluice_fail(err, -EINVAL, "%s: not enough free space: %s needed, %s available",
			   folder, sluice_size_format(need_text, need),
			   sluice_size_format(have_text, have));
}

/* Against those before it, whose room was found to be there: the last one has them all. */
static int check_one(const char *const *folders, unsigned i, uint64_t bytes, struct sluice_err *err)
{
	uint64_t need = RESERVE + bytes;
	struct stat st, other;
	int r = check_usable(folders[i], &st, err);

	for (unsigned k = 0; k < i && r == 0; k++) {
		if (stat(folders[k], &other) < 0 || other.st_dev != st.st_dev)
			continue;
		if (other.st_ino == st.st_ino)
			r = sluice_fail(err, -EINVAL,
					"folder: %s and %s are the same; name each folder once",
					folders[k], folders[i]);
		need += bytes;
	}
	return r < 0 ? r : check_room(folders[i], need, err);
}

int folders_check(const char *const *folders, unsigned nr, uint64_t bytes, struct sluice_err *err)
{
	int r = 0;

	for (unsigned i = 0; i < nr && r == 0; i++)
		r = check_one(folders, i, bytes, err);
	return r;
}
