/* SPDX-License-Identifier: Apache-2.0 */
#include "load/bed/bed_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <penstock/s3.h>
#include <penstock/stripe.h>

#include "base/err.h"
#include "base/size.h"
#include "base/util.h"
#include "load/measure/free_space.h"
#include "load/measure/ram.h"

#define RESERVE (16ull << 20) /* directories, metadata */

int bed_check_folder(const char *folder, bool write, struct penstock_err *err)
{
	struct stat st;

	if (penstock_s3_is_uri(folder, NULL) > 0)
		return 0; /* the first request tells */
	if (stat(folder, &st) < 0)
		return penstock_fail(err, -EINVAL, "%s: %s", folder, penstock_strerror(errno));
	if (penstock_stripe_get_kind(folder) == 1)
		return penstock_fail(
			err, -EINVAL,
			"%s: is a striped file, not a folder; in a striped "
			"folder (`penstock stripe create --as-folder') files are striped",
			folder);
	if (!S_ISDIR(st.st_mode))
		return penstock_fail(err, -EINVAL, "%s: is not a directory", folder);
	if (write && access(folder, W_OK | X_OK) < 0)
		return penstock_fail(err, -EINVAL, "%s: cannot be written to: %s", folder,
				     penstock_strerror(errno));
	return 0;
}

int64_t bed_free_bytes(const char *folder)
{
	struct statvfs v;
	uint64_t bytes;
	dev_t dev;
	int r;

	if (statvfs(folder, &v) == 0 && !v.f_blocks)
		return -ENODATA;
	r = free_space_get(folder, &bytes, &dev, NULL);
	return r < 0 ? r : (int64_t)min_u64(bytes, INT64_MAX);
}

static bool same_fs(const char *a, const char *b)
{
	uint64_t bytes;
	dev_t da, db;

	return free_space_get(a, &bytes, &da, NULL) == 0 &&
	       free_space_get(b, &bytes, &db, NULL) == 0 && da == db;
}

int bed_check_space(const struct bed_need *needs, unsigned nr, struct penstock_err *err)
{
	for (unsigned i = 0; i < nr; i++) {
		char need_text[PENSTOCK_SIZE_TEXT], have_text[PENSTOCK_SIZE_TEXT];
		int64_t have = bed_free_bytes(needs[i].folder);
		uint64_t need = 0;

		/* In the end each was counted. */
		for (unsigned k = 0; k <= i; k++)
			if (k == i || same_fs(needs[i].folder, needs[k].folder))
				need += needs[k].bytes;
		if (have >= 0 && need > (uint64_t)have)
			return penstock_fail(err, -EINVAL,
					     "%s: not enough free space: %s (%" PRIu64
					     " bytes) needed, %s (%" PRId64 " bytes) available",
					     needs[i].folder, penstock_size_format(need_text, need),
					     need, penstock_size_format(have_text, (uint64_t)have),
					     have);
	}
	return 0;
}

int bed_check_memory(uint64_t len, uint64_t nr, struct penstock_err *err)
{
	char need_text[PENSTOCK_SIZE_TEXT], have_text[PENSTOCK_SIZE_TEXT];
	uint64_t have = ram_available(), need;

	if (__builtin_mul_overflow(len, nr, &need))
		need = UINT64_MAX;
	if (!have || need <= have)
		return 0;
	return penstock_fail(err, -EINVAL,
			     "not enough memory: %s needed for %" PRIu64 " buffer%s, %s available",
			     penstock_size_format(need_text, need), nr, nr == 1 ? "" : "s",
			     penstock_size_format(have_text, have));
}

/* Is folder @i another one than those before it? */
static int check_new(const char *const *folders, unsigned i, struct penstock_err *err)
{
	struct stat st, other;

	for (unsigned k = 0; k < i && stat(folders[i], &st) == 0; k++)
		if (stat(folders[k], &other) == 0 && other.st_dev == st.st_dev &&
		    other.st_ino == st.st_ino)
			return penstock_fail(err, -EINVAL,
					     "%s: is the same as %s; name each folder once",
					     folders[i], folders[k]);
	return 0;
}

int bed_check_folders(const char *const *folders, unsigned nr, uint64_t bytes,
		      struct penstock_err *err)
{
	CLEANUP_FREE struct bed_need *needs = calloc(nr, sizeof(*needs));
	int r = needs ? 0 : penstock_fail(err, -ENOMEM, "out of memory");

	for (unsigned i = 0; i < nr && r == 0; i++) {
		needs[i] = (struct bed_need){folders[i], bytes + (i ? 0 : RESERVE)};
		r = bed_check_folder(folders[i], true, err);
		if (r == 0)
			r = check_new(folders, i, err);
	}
	return r < 0 ? r : bed_check_space(needs, nr, err);
}
