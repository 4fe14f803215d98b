/* SPDX-License-Identifier: Apache-2.0 */
/* Models of safetensors: one file, or several with an index that says which has which tensor. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/ckpt.h>

#include "base/err.h"
#include "base/util.h"
#include "weights/model.h"

enum { INDEX_MAX = 256 << 20 };

static int add_tensor(struct penstock_model *m, const char *path, const struct penstock_tensor *t,
		      struct penstock_err *err)
{
	struct penstock_weight w = {
		.name = t->name,
		.path = path,
		.dtype = penstock_dtype_name(t->dtype),
		.offset = t->offset,
		.len = t->len,
		.shape = t->shape,
		.rank = t->rank,
	};

	return penstock_model_add(m, &w, err);
}

int shard_add(struct penstock_model *m, struct penstock_io *io, const char *path,
	      struct penstock_err *err)
{
	struct penstock_safetensors *s;
	int r = penstock_safetensors_open(&s, io, path, NULL, err);
	const struct penstock_tensor *t;

	if (r < 0)
		return r;
	for (uint64_t i = 0; r == 0 && (t = penstock_safetensors_get(s, i)); i++)
		r = add_tensor(m, path, t, err);
	penstock_safetensors_close(s);
	return r;
}

/* ---------------------------------------------------------------- the index */

/* A tensor and the file it is in. */
struct entry {
	char *name, *file;
	uint64_t nr; /* the place in the index, for a stable order */
};

struct index {
	const char *path;
	char *text, *at;
	struct entry *v;
	uint64_t nr;
};

static int fail_index(const struct index *x, const char *why, struct penstock_err *err)
{
	struct penstock_short_name short_name;

	return penstock_fail(err, -EINVAL, "%s: byte %td: %s",
			     penstock_shorten_name(&short_name, x->path), x->at - x->text, why);
}

static void skip_blanks(struct index *x)
{
	x->at += strspn(x->at, " \t\r\n");
}

static bool accept_char(struct index *x, char c)
{
	skip_blanks(x);
	if (*x->at != c)
		return false;
	x->at++;
	return true;
}

/* A string, where it stands.  Names with an escape in them are none that anybody uses. */
static char *parse_string(struct index *x)
{
	char *start;

	if (!accept_char(x, '"'))
		return NULL;
	start = x->at;
	x->at += strcspn(x->at, "\"\\\n");
	if (*x->at != '"')
		return NULL;
	*x->at++ = '\0';
	return start;
}

static int index_pairs(struct index *x, struct penstock_err *err)
{
	bool more = !accept_char(x, '}');

	while (more) {
		struct entry e = {.nr = x->nr};

		e.name = parse_string(x);
		if (!e.name || !accept_char(x, ':') || !(e.file = parse_string(x)))
			return fail_index(x, "a name and a file, both in quotes, are due here",
					  err);
		if (strchr(e.file, '/') || !strcmp(e.file, "..") || !*e.file)
			return fail_index(x, "the file is not one of the same folder", err);
		if (ARRAY_GROW(x->v, x->nr) < 0)
			return penstock_fail(err, -ENOMEM, "out of memory");
		x->v[x->nr++] = e;
		more = accept_char(x, ',');
		if (!more && !accept_char(x, '}'))
			return fail_index(x, "',' or '}' is due here", err);
	}
	return 0;
}

static int by_file(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int r = strcmp(x->file, y->file);

	return r ? r : (x->nr > y->nr) - (x->nr < y->nr);
}

static int index_parse(struct index *x, struct penstock_err *err)
{
	char *map = strstr(x->text, "\"weight_map\"");
	int r;

	x->at = map ? map + strlen("\"weight_map\"") : x->text;
	if (!map || !accept_char(x, ':') || !accept_char(x, '{'))
		return fail_index(x, "it has no \"weight_map\"", err);
	r = index_pairs(x, err);
	if (r == 0 && x->nr)
		qsort(x->v, x->nr, sizeof(*x->v), by_file);
	return r;
}

/* Entries from @i on that are in the same file; *@ret_next: the first behind them. */
static int add_shard(struct penstock_model *m, struct penstock_io *io, const struct index *x,
		     uint64_t i, uint64_t *ret_next, struct penstock_err *err)
{
	size_t dir =
		(size_t)((strrchr(x->path, '/') ? strrchr(x->path, '/') + 1 : x->path) - x->path);
	const char *file = x->v[i].file;
	CLEANUP_FREE char *path = NULL;
	struct penstock_safetensors *s;
	struct penstock_short_name short_name;
	int r;

	if (asprintf(&path, "%.*s%s", (int)dir, x->path, file) < 0)
		return penstock_fail(err, -ENOMEM, "out of memory");
	r = penstock_safetensors_open(&s, io, path, NULL, err);
	if (r < 0)
		return r;
	for (; r == 0 && i < x->nr && !strcmp(x->v[i].file, file); i++) {
		int64_t k = penstock_safetensors_find(s, x->v[i].name);

		r = k < 0 ? penstock_fail(err, -EINVAL,
					  "%s: has no tensor '%.200s', which the index says it has",
					  penstock_shorten_name(&short_name, path), x->v[i].name)
			  : add_tensor(m, path, penstock_safetensors_get(s, (uint64_t)k), err);
	}
	penstock_safetensors_close(s);
	*ret_next = i;
	return r;
}

/* The text of a small file, with a NUL behind it. */
static int read_text(char **ret, struct penstock_io *io, const char *path, struct penstock_err *err)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_file *f;
	char *text = NULL;
	int64_t n;
	int r = penstock_file_open(&f, io, path, O_RDONLY, 0, err);

	if (r < 0)
		return r;
	r = penstock_file_stat(f, &info);
	if (r == 0 && info.bytes > INDEX_MAX)
		r = penstock_fail(err, -EINVAL, "%s: is no index: it has %" PRIu64 " bytes", path,
				  info.bytes);
	if (r == 0 && !(text = calloc(1, info.bytes + 1)))
		r = penstock_fail(err, -ENOMEM, "out of memory");
	n = r < 0 ? r : penstock_pread(f, text, info.bytes, 0, err);
	penstock_file_close(f, NULL);
	if (n < 0) {
		free(text);
		return (int)n;
	}
	text[n] = '\0';
	*ret = text;
	return 0;
}

int shards_add(struct penstock_model *m, struct penstock_io *io, const char *index,
	       struct penstock_err *err)
{
	struct index x = {.path = index};
	int r = read_text(&x.text, io, index, err);

	if (r == 0)
		r = index_parse(&x, err);
	for (uint64_t i = 0; r == 0 && i < x.nr;)
		r = add_shard(m, io, &x, i, &i, err);
	free(x.v);
	free(x.text);
	return r;
}
