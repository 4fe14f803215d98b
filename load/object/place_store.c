/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A KV store as a place.  What was made here goes at the end, unless it is to be kept; a store that
 * was there before may be somebody's, and stays whatever happens, unless it is to be replaced.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/place.h"

enum { BATCH = 1000 }; /* objects that are deleted together */

#define STAY_NAME ".penstock-stay" /* keeps a directory from being removed with its store */

/* 0, or -ENOENT where there is none and none is in the way. */
static int store_summary(const char *path, struct penstock_store_summary *sum,
			 struct penstock_err *err)
{
	struct penstock_err why = {0, ""};
	int r;

	*sum = (struct penstock_store_summary){.size = sizeof(*sum)};
	r = penstock_store_inspect(path, 0, NULL, NULL, sum, &why);
	return r < 0 && r != -ENOENT ? penstock_fail(err, r, "%s", why.msg) : r;
}

bool store_place_is_there(const char *path)
{
	struct penstock_store_summary sum;
	int r = store_summary(path, &sum, NULL);

	return r == 0 || r == -EBUSY || r == -EPROTO;
}

static int check_empty(const char *path, struct penstock_err *err)
{
	DIR *d = opendir(path);
	const struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT
			       ? 0
			       : penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = penstock_fail(err, -EEXIST,
					  "%s: holds %s; a store needs a directory of its own",
					  path, e->d_name);
	closedir(d);
	return r;
}

int store_place_check(const char *path, const struct place_opts *o, uint64_t *ret_freed,
		      struct penstock_err *err)
{
	struct penstock_store_summary sum;
	int r = store_summary(path, &sum, err);

	*ret_freed = r == 0 ? sum.data_bytes + sum.log_bytes : 0;
	if (r == -ENOENT)
		return check_empty(path, err);
	if (r == 0 && !o->reuse && !o->replace)
		return penstock_fail(
			err, -EEXIST,
			"%s: holds a store already, which 'penstock store drop' removes", path);
	return r;
}

/* What is to be used is there on all paths or on none; what is to be replaced goes. */
static int paths_prepare(struct place *p, struct penstock_err *err)
{
	const struct place_opts *o = &p->o;
	struct stat st;
	int r = 0;

	p->dir_found = calloc(o->nr_paths, sizeof(*p->dir_found));
	if (!p->dir_found)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; r == 0 && i < o->nr_paths; i++) {
		uint64_t freed;
		bool there = store_place_is_there(o->paths[i]);

		p->dir_found[i] = stat(o->paths[i], &st) == 0;
		r = store_place_check(o->paths[i], o, &freed, err);
		if (r == 0 && there && o->reuse)
			p->store_found = true;
		else if (r == 0 && there)
			r = penstock_store_drop(o->paths[i], err);
	}
	return r;
}

/* A prefix that nobody else has: of what the store puts there nothing outlives it. */
static int name_below(struct place *p, struct penstock_err *err)
{
	size_t n = strlen(p->o.below);
	uint64_t v;

	if (getrandom(&v, sizeof(v), 0) != sizeof(v))
		return penstock_fail(err, -errno, "no random numbers: %s", strerror(errno));
	while (n && p->o.below[n - 1] == '/')
		n--;
	if (asprintf(&p->below, "%.*s/penstock-below-%016" PRIx64 "/", (int)n, p->o.below, v) < 0) {
		p->below = NULL;
		return penstock_fail(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* All that is listed below the prefix, a batch at a time. */
static int clear_list(struct penstock_s3 *c, const char *prefix, struct penstock_err *err)
{
	struct penstock_s3_entry e = {.size = sizeof(e)};
	struct penstock_s3_list *l;
	char *uris[BATCH];
	unsigned n = 0;
	int r = penstock_s3_list_open(&l, c, prefix, PENSTOCK_S3_LIST_FLAT, err), bucket;

	if (r < 0)
		return r;
	bucket = (int)(strcspn(prefix + strlen("s3://"), "/") + strlen("s3://"));
	while ((r = penstock_s3_list_next(l, &e, err)) > 0 && n < BATCH)
		if (asprintf(&uris[n], "%.*s/%s", bucket, prefix, e.key) >= 0)
			n++;
	penstock_s3_list_close(l);
	r = r < 0 ? r : n ? penstock_s3_delete(c, (const char *const *)uris, n, err) : 0;
	for (unsigned i = 0; i < n; i++)
		free(uris[i]);
	return r < 0 ? r : n == BATCH;
}

static int clear_below(struct place *p, struct penstock_err *err)
{
	struct penstock_s3 *c;
	int r = penstock_s3_open(&c, p->o.s3, err);

	if (r < 0)
		return r;
	do
		r = clear_list(c, p->below, err);
	while (r > 0);
	penstock_s3_close(c);
	return r;
}

int store_place_open(struct place *p, struct penstock_err *err)
{
	struct penstock_store_opts so = PENSTOCK_STORE_OPTS_INIT;
	CLEANUP_FREE const char **paths = calloc(p->o.nr_paths + 1, sizeof(*paths));
	unsigned nr = p->o.nr_paths;
	int r = paths ? paths_prepare(p, err) : penstock_fail(err, -ENOMEM, "out of memory");

	for (unsigned i = 0; paths && i < nr; i++)
		paths[i] = p->o.paths[i];
	if (r == 0 && p->o.below) {
		r = name_below(p, err);
		paths[nr++] = p->below;
		so.s3 = p->o.s3;
	}

	so.policy = p->o.policy;
	so.engine = p->o.engine;
	so.io_threads = p->o.io_threads;
	if (p->o.durability != PENSTOCK_DURABLE_NONE)
		so.flags |= PENSTOCK_STORE_DURABLE;
	if (r == 0)
		r = penstock_store_open(&p->store, paths, nr, p->o.capacity, &so, err);
	return r;
}

/* The directory itself stays if it was there. */
static int drop_one(const char *path, bool dir_stays, struct penstock_err *err)
{
	CLEANUP_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = dir_stays && dir >= 0
			 ? openat(dir, STAY_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
			 : -1;
	int r;

	if (dir_stays && fd < 0)
		return penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	r = penstock_store_drop(path, err);
	if (fd >= 0) {
		close(fd);
		unlinkat(dir, STAY_NAME, 0);
	}
	return r;
}

int store_place_close(struct place *p, struct penstock_err *err)
{
	int r = p->store ? penstock_store_close(p->store, err) : 0, e;
	bool made = p->store && !p->store_found && !p->o.keep;

	for (unsigned i = 0; made && i < p->o.nr_paths; i++) {
		e = drop_one(p->o.paths[i], p->dir_found[i], r == 0 ? err : NULL);
		r = r < 0 ? r : e;
	}
	if (p->store && p->below) {
		e = clear_below(p, r == 0 ? err : NULL);
		r = r < 0 ? r : e;
	}
	free(p->below);
	free(p->dir_found);
	return r;
}
