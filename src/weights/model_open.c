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

#include <sluice/object.h>
#include <sluice/stripe.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/optscopy.h"
#include "base/util.h"
#include "weights/model.h"

struct finding {
	struct sluice_model *m;
	struct sluice_io *io;
	const char *path;
	uint32_t by;
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

static int model_add_file(const struct finding *f, const char *path, struct sluice_err *err)
{
	unsigned char head[9] = {0};
	struct sluice_short room;
	struct sluice_file *file;
	int64_t n;
	int r = sluice_file_open(&file, f->io, path, O_RDONLY, 0, err); /* it may be striped */

	if (r < 0)
		return r;
	n = sluice_pread(file, head, sizeof(head), 0, err);
	sluice_file_close(file, NULL);
	if (n < 0)
		return (int)n;
	if (ends_with(path, ".index.json"))
		return shards_add(f->m, f->io, path, err);
	if (gguf_is(head, (uint64_t)n))
		return gguf_add(f->m, f->io, path, f->by, err);
	if (ends_with(path, ".safetensors") || (n == sizeof(head) && head[8] == '{'))
		return shard_add(f->m, f->io, path, err);
	return sluice_fail(err, -EINVAL,
			   "%s: is neither safetensors nor an index of such files nor GGUF",
			   sluice_shorten(&room, path));
}

/* ------------------------------------------------------------------- swap folders */

/* Of ".../float16params/rank0" what its elements are; NULL: not told. */
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

static int add_swapped(const struct finding *f, const char *path, struct sluice_err *err)
{
	const char *name = strrchr(path, '/') + 1, *dtype = swap_dtype(path);
	unsigned bytes = !dtype ? 1 : !strcmp(dtype, "F32") ? 4 : 2;
	struct sluice_weight w = {.path = path, .name = name, .dtype = dtype, .rank = 1};
	struct sluice_short room;
	struct stat st;
	int64_t len = stat(path, &st) < 0 ? -errno : sluice_stripe_bytes(path, st.st_size);
	uint64_t n;
	int r;

	if (len < 0)
		return sluice_fail(err, (int)len, "%s: %s", sluice_shorten(&room, path),
				   strerror((int)-len));
	w.len = (uint64_t)len;
	n = w.len / bytes;
	w.shape = &n;
	r = w.len % bytes ? sluice_fail(err, -EINVAL, "%s: its size is not whole elements of %s",
					sluice_shorten(&room, path), dtype)
			  : sluice_model_add(f->m, &w, err);
	return r;
}

static int by_number(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* -------------------------------------------------------------------- folders */

static bool is_prefix(const char *path)
{
	return sluice_object_is_uri(path, NULL) > 0 && ends_with(path, "/");
}

/* The URIs of the objects of this form right below the prefix: how many, or -errno. */
static int64_t list_objects(const struct finding *f, const char *what, char ***ret,
			    struct sluice_err *err)
{
	struct sluice_object_entry e = {.size = sizeof(e)};
	struct sluice_object *c = sluice_get_objects(f->io);
	struct sluice_object_list *l;
	size_t n = 0;
	int r = c ? sluice_object_list_open(&l, c, f->path, 0, err)
		  : sluice_fail(err, -ENOTSUP, "%s: the handle has no client of an object store",
				f->path);

	if (r < 0)
		return r;
	while ((r = sluice_object_list_next(l, &e, err)) > 0) {
		const char *name = strrchr(e.key, '/') ? strrchr(e.key, '/') + 1 : e.key;

		if (e.is_prefix || fnmatch(what, name, FNM_PERIOD) != 0)
			continue;
		if (ARRAY_MORE(*ret, n) < 0 || asprintf(&(*ret)[n], "%s%s", f->path, name) < 0) {
			r = sluice_fail(err, -ENOMEM, "out of memory");
			break;
		}
		n++;
	}
	sluice_object_list_close(l);
	if (n)
		qsort(*ret, n, sizeof(char *), by_number);
	for (size_t i = 0; r < 0 && i < n; i++)
		free((*ret)[i]);
	return r < 0 ? r : (int64_t)n;
}

static int64_t each_object(const struct finding *f, const char *what,
			   int (*add)(const struct finding *, const char *, struct sluice_err *),
			   struct sluice_err *err)
{
	CLEANUP_FREE char **uris = NULL;
	int64_t n = list_objects(f, what, &uris, err);
	int r = 0;

	for (int64_t i = 0; i < n; i++) {
		r = r < 0 ? r : add(f, uris[i], err);
		free(uris[i]);
	}
	return r < 0 ? r : n;
}

/* @add for each file of this form: how many, or -errno. */
static int64_t each(const struct finding *f, const char *what,
		    int (*add)(const struct finding *, const char *, struct sluice_err *),
		    struct sluice_err *err)
{
	if (is_prefix(f->path))
		return each_object(f, what + 1, add, err);

	CLEANUP_FREE char *pattern = sluice_glob_folder(f->path, what);
	glob_t found;
	int64_t n = 0;
	int r;

	r = pattern ? glob(pattern, 0, NULL, &found) : GLOB_NOSPACE;
	if (r == GLOB_NOMATCH)
		return 0;
	if (r)
		return sluice_fail(err, r == GLOB_NOSPACE ? -ENOMEM : -EIO,
				   "%s: the folder cannot be read", f->path);
	qsort(found.gl_pathv, found.gl_pathc, sizeof(char *), by_number);
	for (r = 0; r == 0 && (size_t)n < found.gl_pathc; n++)
		r = add(f, found.gl_pathv[n], err);
	globfree(&found);
	return r < 0 ? r : n;
}

/* Files of one form alone count: a folder may have the same weights in several. */
static int add_folder(const struct finding *f, struct sluice_err *err)
{
	static const char *const forms[] = {"/*.safetensors.index.json", "/*.safetensors",
					    "/*.gguf"};
	struct sluice_short room;
	int64_t n = 0;

	for (size_t i = 0; n == 0 && i < ARRAY_SIZE(forms); i++)
		n = each(f, forms[i], model_add_file, err);
	if (n)
		return n < 0 ? (int)n : 0;
	if (!is_prefix(f->path))
		n = each(f, "/*_param.tensor.swp", add_swapped, err);
	if (n)
		return n < 0 ? (int)n : 1;
	return sluice_fail(err, -ENOENT,
			   "%s: has no *.safetensors, *.gguf or *_param.tensor.swp in it",
			   sluice_shorten(&room, f->path));
}

static int model_fill(const struct finding *f, struct sluice_err *err)
{
	struct sluice_short room;
	struct stat st = {.st_mode = is_prefix(f->path) ? S_IFDIR : S_IFREG};
	int r;

	if (sluice_object_is_uri(f->path, NULL) <= 0 && stat(f->path, &st) < 0)
		return sluice_fail(err, -errno, "%s: %s", sluice_shorten(&room, f->path),
				   strerror(errno));
	r = sluice_model_group(f->m, "", err);
	if (r == 0)
		r = S_ISDIR(st.st_mode) ? add_folder(f, err) : model_add_file(f, f->path, err);
	if (r < 0)
		return r;
	if (!f->m->nr)
		return sluice_fail(err, -EINVAL, "%s: has no tensor in it",
				   sluice_shorten(&room, f->path));
	/* swapped parameters are tensors in the order of their numbers */
	return model_regroup(f->m, r == 1 ? SLUICE_BY_TENSOR : f->by, err);
}

int sluice_model_open(struct sluice_model **out, struct sluice_io *io, const char *path,
		      const struct sluice_model_opts *opts, struct sluice_err *err)
{
	struct sluice_model_opts o;
	struct finding f = {.io = io, .path = path};
	int r = sluice_opts_copy(&o, sizeof(o), opts, err);

	if (r < 0)
		return r;
	if (o.by > SLUICE_BY_TENSOR)
		return sluice_fail(err, -EINVAL, "by: %u is none of enum sluice_model_by", o.by);
	f.by = o.by;
	r = sluice_model_new(&f.m, err);
	if (r < 0)
		return r;
	r = model_fill(&f, err);
	if (r < 0)
		sluice_model_close(f.m);
	else
		*out = f.m;
	return r < 0 ? r : 0;
}
