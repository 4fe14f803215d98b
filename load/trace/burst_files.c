/* SPDX-License-Identifier: Apache-2.0 */
#include "load/trace/burst.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/util.h"
#include "load/trace/trace.h"

/* What has to be searched for with glob(3), or NULL: a single file. */
static int pattern_of(char **out, const char *path, struct penstock_err *err)
{
	struct stat st;
	bool there = stat(path, &st) == 0;

	*out = NULL;
	if (there ? !S_ISDIR(st.st_mode) : !strpbrk(path, "*?"))
		return 0;
	*out = there ? penstock_glob_pattern(path, "*.csv") : strdup(path);
	return *out ? 0 : penstock_fail(err, -ENOMEM, "out of memory");
}

static int search(glob_t *g, const char *pattern, const char *path, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	int r = glob(pattern, 0, NULL, g);

	if (r == GLOB_NOMATCH)
		return penstock_fail(err, -ENOENT, "%s: no CSV file there",
				     penstock_shorten_name(&short_name, path));
	if (r)
		return penstock_fail(err, r == GLOB_NOSPACE ? -ENOMEM : -EIO,
				     "%s: cannot be searched",
				     penstock_shorten_name(&short_name, path));
	return 0;
}

int burst_files_find(struct burst_files *f, const char *path, struct penstock_err *err)
{
	CLEANUP_FREE char *pattern = NULL;
	int r = pattern_of(&pattern, path, err);

	*f = (struct burst_files){.one = NULL};
	if (r < 0)
		return r;
	if (pattern)
		return search(&f->found, pattern, path, err);
	f->one = strdup(path);
	return f->one ? 0 : penstock_fail(err, -ENOMEM, "out of memory");
}

void burst_files_fini(struct burst_files *f)
{
	if (!f->one)
		globfree(&f->found);
	free(f->one);
}

size_t burst_files_nr(const struct burst_files *f)
{
	return f->one ? 1 : f->found.gl_pathc;
}

const char *burst_files_name(const struct burst_files *f, size_t i)
{
	return f->one ? f->one : f->found.gl_pathv[i];
}

int trace_burst_find(const char *path, struct penstock_err *err)
{
	struct burst_files f;
	struct penstock_short_name short_name;
	int r = burst_files_find(&f, path, err);

	if (r < 0)
		return r;
	if (f.one && access(path, R_OK) < 0)
		r = penstock_fail(err, -errno, "%s: %s", penstock_shorten_name(&short_name, path),
				  strerror(errno));
	burst_files_fini(&f);
	return r;
}
