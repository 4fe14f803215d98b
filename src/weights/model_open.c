/* SPDX-License-Identifier: Apache-2.0 */
/* What lies at a path: a file of weights, an index of them, a folder of either, a swap folder. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <penstock/s3.h>
#include <penstock/stripe.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/optscopy.h"
#include "base/util.h"
#include "weights/model.h"

struct model_source {
	struct penstock_model *m;
	struct penstock_io *io;
	const char *path;
	uint32_t by;
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

static int model_add_file(const struct model_source *f, const char *path, struct penstock_err *err)
{
	unsigned char head[9] = {0};
	struct penstock_short_name short_name;
	struct penstock_file *file;
	int64_t n;
	int r = penstock_file_open(&file, f->io, path, O_RDONLY, 0, err); /* it may be striped */

	if (r < 0)
		return r;
	n = penstock_pread(file, head, sizeof(head), 0, err);
	penstock_file_close(file, NULL);
	if (n < 0)
		return (int)n;
	if (ends_with(path, ".index.json"))
		return shards_add(f->m, f->io, path, err);
	if (gguf_is(head, (uint64_t)n))
		return gguf_add(f->m, f->io, path, f->by, err);
	if (ends_with(path, ".safetensors") || (n == sizeof(head) && head[8] == '{'))
		return shard_add(f->m, f->io, path, err);
	return penstock_fail(err, -EINVAL,
			     "%s: is neither safetensors nor an index of such files nor GGUF",
			     penstock_shorten_name(&short_name, path));
}

/* ------------------------------------------------------------------- swap folders */

/* The type of the elements in a swap folder (".../float16params/rank0"); NULL: unknown. */
static const char *swap_dtype(const char *folder)
{
	static const struct {
		const char *part, *dtype;
	} known[] = {
		{"/bfloat16params", "BF16"}, {"/float16params", "F16"}, {"/float32params", "F32"}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strstr(folder, known[i].part))
			return known[i].dtype;
	return NULL;
}

static int add_swapped(const struct model_source *f, const char *path, struct penstock_err *err)
{
	const char *name = strrchr(path, '/') + 1, *dtype = swap_dtype(path);
	unsigned bytes = !dtype ? 1 : !strcmp(dtype, "F32") ? 4 : 2;
	struct penstock_weight w = {.path = path, .name = name, .dtype = dtype, .rank = 1};
	struct penstock_short_name short_name;
	struct stat st;
	int64_t len = stat(path, &st) < 0 ? -errno : penstock_stripe_bytes(path, st.st_size);
	uint64_t n;
	int r;

	if (len < 0)
		return penstock_fail(err, (int)len, "%s: %s",
				     penstock_shorten_name(&short_name, path), strerror((int)-len));
	w.len = (uint64_t)len;
	n = w.len / bytes;
	w.shape = &n;
	r = w.len % bytes ? penstock_fail(err, -EINVAL, "%s: its size is not whole elements of %s",
					  penstock_shorten_name(&short_name, path), dtype)
			  : penstock_model_add(f->m, &w, err);
	return r;
}

static int by_number(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* -------------------------------------------------------------------- folders */

static bool is_prefix(const char *path)
{
	return penstock_s3_is_uri(path, NULL) > 0 && ends_with(path, "/");
}

/* The URIs of the objects of this form right below the prefix: how many, or -errno. */
static int64_t list_objects(const struct model_source *f, const char *pattern, char ***ret,
			    struct penstock_err *err)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3 *c = penstock_get_s3(f->io);
	struct penstock_s3_list *l;
	size_t n = 0;
	int r = c ? penstock_s3_list_open(&l, c, f->path, 0, err)
		  : penstock_fail(err, -ENOTSUP, "%s: the handle has no client of an object store",
				  f->path);

	if (r < 0)
		return r;
	while ((r = penstock_s3_list_next(l, &e, err)) > 0) {
		const char *name = strrchr(e.key, '/') ? strrchr(e.key, '/') + 1 : e.key;

		if (e.is_prefix || fnmatch(pattern, name, FNM_PERIOD) != 0)
			continue;
		if (ARRAY_GROW(*ret, n) < 0 || asprintf(&(*ret)[n], "%s%s", f->path, name) < 0) {
			r = penstock_fail(err, -ENOMEM, "out of memory");
			break;
		}
		n++;
	}
	penstock_s3_list_close(l);
	if (n)
		qsort(*ret, n, sizeof(char *), by_number);
	for (size_t i = 0; r < 0 && i < n; i++)
		free((*ret)[i]);
	return r < 0 ? r : (int64_t)n;
}

static int64_t for_each_object(const struct model_source *f, const char *pattern,
			       int (*add)(const struct model_source *, const char *,
					  struct penstock_err *),
			       struct penstock_err *err)
{
	CLEANUP_FREE char **uris = NULL;
	int64_t n = list_objects(f, pattern, &uris, err);
	int r = 0;

	for (int64_t i = 0; i < n; i++) {
		r = r < 0 ? r : add(f, uris[i], err);
		free(uris[i]);
	}
	return r < 0 ? r : n;
}

/* @add for each file of this form: how many, or -errno. */
static int64_t for_each_file(const struct model_source *f, const char *pattern,
			     int (*add)(const struct model_source *, const char *,
					struct penstock_err *),
			     struct penstock_err *err)
{
	if (is_prefix(f->path))
		return for_each_object(f, pattern + 1, add, err);

	CLEANUP_FREE char *full = penstock_glob_pattern(f->path, pattern);
	glob_t found;
	int64_t n = 0;
	int r;

	r = full ? glob(full, 0, NULL, &found) : GLOB_NOSPACE;
	if (r == GLOB_NOMATCH)
		return 0;
	if (r)
		return penstock_fail(err, r == GLOB_NOSPACE ? -ENOMEM : -EIO,
				     "%s: the folder cannot be read", f->path);
	qsort(found.gl_pathv, found.gl_pathc, sizeof(char *), by_number);
	for (r = 0; r == 0 && (size_t)n < found.gl_pathc; n++)
		r = add(f, found.gl_pathv[n], err);
	globfree(&found);
	return r < 0 ? r : n;
}

/* Files of one form alone count: a folder may have the same weights in several. */
static int add_folder(const struct model_source *f, struct penstock_err *err)
{
	static const char *const forms[] = {"/*.safetensors.index.json", "/*.safetensors",
					    "/*.gguf"};
	struct penstock_short_name short_name;
	int64_t n = 0;

	for (size_t i = 0; n == 0 && i < ARRAY_SIZE(forms); i++)
		n = for_each_file(f, forms[i], model_add_file, err);
	if (n)
		return n < 0 ? (int)n : 0;
	if (!is_prefix(f->path))
		n = for_each_file(f, "/*_param.tensor.swp", add_swapped, err);
	if (n)
		return n < 0 ? (int)n : 1;
	return penstock_fail(err, -ENOENT,
			     "%s: has no *.safetensors, *.gguf or *_param.tensor.swp in it",
			     penstock_shorten_name(&short_name, f->path));
}

static int model_fill(const struct model_source *f, struct penstock_err *err)
{
	struct penstock_short_name short_name;
	struct stat st = {.st_mode = is_prefix(f->path) ? S_IFDIR : S_IFREG};
	int r;

	if (penstock_s3_is_uri(f->path, NULL) <= 0 && stat(f->path, &st) < 0)
		return penstock_fail(err, -errno, "%s: %s",
				     penstock_shorten_name(&short_name, f->path), strerror(errno));
	r = penstock_model_group(f->m, "", err);
	if (r == 0)
		r = S_ISDIR(st.st_mode) ? add_folder(f, err) : model_add_file(f, f->path, err);
	if (r < 0)
		return r;
	if (!f->m->nr)
		return penstock_fail(err, -EINVAL, "%s: has no tensor in it",
				     penstock_shorten_name(&short_name, f->path));
	/* swapped parameters are tensors in the order of their numbers */
	return model_regroup(f->m, r == 1 ? PENSTOCK_BY_TENSOR : f->by, err);
}

int penstock_model_open(struct penstock_model **out, struct penstock_io *io, const char *path,
			const struct penstock_model_opts *opts, struct penstock_err *err)
{
	struct penstock_model_opts o;
	struct model_source f = {.io = io, .path = path};
	int r = penstock_opts_copy(&o, sizeof(o), opts, err);

	if (r < 0)
		return r;
	if (o.by > PENSTOCK_BY_TENSOR)
		return penstock_fail(err, -EINVAL, "by: %u is none of enum penstock_model_by",
				     o.by);
	f.by = o.by;
	r = penstock_model_new(&f.m, err);
	if (r < 0)
		return r;
	r = model_fill(&f, err);
	if (r < 0)
		penstock_model_close(f.m);
	else
		*out = f.m;
	return r < 0 ? r : 0;
}
