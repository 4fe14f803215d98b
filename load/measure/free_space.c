/* SPDX-License-Identifier: Apache-2.0 */
#include "load/measure/free_space.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <penstock/stripe.h>

#include "base/err.h"
#include "base/util.h"

/* All members take the same: what the one with the least has, which may share its room. */
static int stripe_free_bytes(const struct penstock_stripe_info *info, uint64_t *ret, dev_t *ret_dev,
			     struct penstock_err *err)
{
	dev_t devs[PENSTOCK_STRIPE_MEMBERS];
	uint64_t least = UINT64_MAX;
	struct statvfs fs;
	struct stat st;
	unsigned nr;
	int r = 0;

	for (unsigned i = 0; i < info->nr && r == 0; i++) {
		const char *member = info->members[i].path;

		if (stat(member, &st) < 0)
			r = penstock_fail(err, -errno, "%s: %s", member, strerror(errno));
		devs[i] = st.st_dev;
	}
	for (unsigned i = 0; i < info->nr && r == 0; i++) {
		const char *member = info->members[i].path;

		nr = 0;
		for (unsigned k = 0; k < info->nr; k++)
			nr += devs[k] == devs[i];
		if (statvfs(member, &fs) < 0)
			r = penstock_fail(err, -errno, "%s: %s", member, strerror(errno));
		least = min_u64(least, (uint64_t)fs.f_bavail * fs.f_frsize / nr);
	}
	*ret = least / 2 > UINT64_MAX / 2 / info->nr ? UINT64_MAX : least * info->nr;
	*ret_dev = devs[0];
	return r;
}

int free_space_get(const char *path, uint64_t *ret, dev_t *ret_dev, struct penstock_err *err)
{
	struct penstock_stripe_info *striped = NULL;
	struct statvfs fs;
	struct stat st;
	int r;

	if (stat(path, &st) < 0 || statvfs(path, &fs) < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	*ret = (uint64_t)fs.f_bavail * fs.f_frsize;
	*ret_dev = st.st_dev;
	r = S_ISDIR(st.st_mode) ? penstock_stripe_load_folder(&striped, path, err) : 0;
	if (r == 1)
		r = stripe_free_bytes(striped, ret, ret_dev, err);
	penstock_stripe_free(striped);
	return r;
}
