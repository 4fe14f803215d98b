/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/data/cp_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/util.h"
#include "cli/cli_s3.h"

static int add_item(struct cp_list *l, char *from, char *to)
{
	if (!from || !to || ARRAY_GROW(l->v, l->nr) < 0) {
		free(from);
		free(to);
		return -ENOMEM;
	}
	l->v[l->nr++] = (struct cp_item){.from = from, .to = to};
	return 0;
}

void cp_list_fini(struct cp_list *l)
{
	for (uint64_t i = 0; i < l->nr; i++) {
		free(l->v[i].from);
		free(l->v[i].to);
	}
	free(l->v);
}

static char *join(const char *above, const char *name)
{
	size_t len = strlen(above);
	char *out;

	return asprintf(&out, "%s%s%s", above, len && above[len - 1] == '/' ? "" : "/", name) < 0
		       ? NULL
		       : out;
}

int cp_list_add(struct cp_list *l, const char *from, const char *to)
{
	const char *base = strrchr(from, '/');
	size_t len = strlen(to);
	bool folder = len && to[len - 1] == '/';
	struct stat st;

	if (!folder && cli_is_object(to))
		folder = !strchr(to + strlen("s3://"), '/');
	else if (!folder)
		folder = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
	return add_item(l, strdup(from), folder ? join(to, base ? base + 1 : from) : strdup(to));
}

/* ---------------------------------------------------------------------- prefixes */

/* Can it be a name below a folder, and of no other place? */
static bool names_a_file(const char *name)
{
	size_t n;

	for (const char *at = name;; at += n + 1) {
		n = strcspn(at, "/");
		if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && !strncmp(at, "..", 2)))
			return false;
		if (!at[n])
			return true;
	}
}

static int cp_add_key(struct cp_list *l, const char *bucket, const char *key, const char *name,
		      const char *to, struct penstock_err *err)
{
	size_t n = strlen(name);

	if (n && name[n - 1] == '/') /* what some tools put where a folder would be */
		return 0;
	if (!cli_is_object(to) && !names_a_file(name))
		return penstock_fail(err, -EINVAL, "%s/%s: names no file below %s", bucket, key,
				     to);
	return add_item(l, join(bucket, key), join(to, name)) < 0
		       ? penstock_fail(err, -ENOMEM, "out of memory")
		       : 0;
}

static int add_prefix(struct cp_list *l, const char *from, const char *to, struct penstock_s3 *c,
		      struct penstock_err *err)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3_list *list;
	size_t scheme = strlen("s3://"), bucket = scheme + strcspn(from + scheme, "/");
	CLEANUP_FREE char *below = join(from, ""), *name = strndup(from, bucket);
	int r, more;

	if (!below || !name)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = penstock_s3_list_open(&list, c, below, PENSTOCK_S3_LIST_FLAT, err);
	if (r < 0)
		return r;
	while (r == 0 && (more = penstock_s3_list_next(list, &e, err)) != 0)
		r = more < 0 ? more
			     : cp_add_key(l, name, e.key, e.key + strlen(below) - bucket - 1, to,
					  err);
	penstock_s3_list_close(list);
	return r;
}

/* ----------------------------------------------------------------------- folders */

/* FILE.crc beside FILE: it is looked at when FILE is read, and made where FILE is written. */
static bool is_checksums(const char *path)
{
	size_t n = strlen(path);
	CLEANUP_FREE char *of = n > 4 ? strndup(path, n - 4) : NULL;
	struct stat st;

	return of && !strcmp(path + n - 4, ".crc") && lstat(of, &st) == 0 && S_ISREG(st.st_mode);
}

static int add_folder(struct cp_list *l, const char *from, const char *to, uint64_t *passed,
		      struct penstock_err *err)
{
	struct dirent **v = NULL;
	int n = scandir(from, &v, NULL, alphasort), r = 0;

	if (n < 0)
		return penstock_fail(err, -errno, "%s: %s", from, strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *name = v[i]->d_name;
		bool dot = !strcmp(name, ".") || !strcmp(name, "..");
		char *a = dot || r ? NULL : join(from, name), *b = dot || r ? NULL : join(to, name);
		struct stat st;

		if (a && b && lstat(a, &st) < 0)
			r = penstock_fail(err, -errno, "%s: %s", a, strerror(errno));
		else if (a && b && S_ISDIR(st.st_mode))
			r = add_folder(l, a, b, passed, err);
		else if (a && b && !S_ISREG(st.st_mode))
			++*passed;
		else if (a && b && !is_checksums(a))
			r = add_item(l, TAKE_PTR(a), TAKE_PTR(b));
		else if (!dot && !r && (!a || !b))
			r = -ENOMEM;
		if (r == -ENOMEM)
			penstock_fail(err, r, "out of memory");
		free(a);
		free(b);
		free(v[i]);
	}
	free(v);
	return r;
}

int cp_list_add_tree(struct cp_list *l, const char *from, const char *to, struct penstock_s3 *c,
		     uint64_t *passed, struct penstock_err *err)
{
	struct stat st;

	if (cli_is_object(from))
		return add_prefix(l, from, to, c, err);
	if (stat(from, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s", from, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return penstock_fail(err, -ENOTDIR, "%s: is no folder", from);
	return add_folder(l, from, to, passed, err);
}

int cp_make_folders(const char *path)
{
	CLEANUP_FREE char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(copy, 0777) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return 0;
}
