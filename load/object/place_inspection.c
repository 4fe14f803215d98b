/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of a place is looked at whole, before anything in it is touched. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/stripe.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/place_inspection.h"

#define STRIPE_MARK ".penstock-stripe" /* what makes a folder a striped one */

static bool is_subfolder(const char *name)
{
	return strlen(name) == 3 && strspn(name, "0123456789abcdef") == 3;
}

static int refuse_entry(const struct inspection *l, const char *sub, const char *name,
			struct penstock_err *err)
{
	return penstock_fail(err, -EEXIST,
			     "%s/%s%s: was not made here; use an empty folder, or move it away",
			     l->path, sub, name);
}

/* Made, and not yet named when the run was killed: there is nothing in it. */
static struct journal_entry *add_unnamed(struct inspection *l, const char *below,
					 const struct file_stat *seen)
{
	struct journal_entry *e;

	if (!seen->regular || seen->file.bytes || !journal_is_temp_name(&l->journal, below))
		return NULL;
	e = journal_add(&l->journal, below);
	if (e) {
		e->file = seen->file;
		e->state = JOURNAL_MADE;
	}
	return e;
}

static int inspect_folder(struct inspection *l, const char *sub, struct penstock_err *err);

static int inspect_entry(struct inspection *l, const char *sub, const char *name,
			 struct penstock_err *err)
{
	char below[NAME_MAX + 8];
	const struct journal_entry *e;
	struct file_stat seen;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return 0;
	snprintf(below, sizeof(below), "%s%s", sub, name);
	if (file_stat_at(&seen, l->fd, below) < 0)
		return refuse_entry(l, sub, name, err);
	if (!sub[0] && !strcmp(name, "lost+found") && seen.folder)
		return 0; /* of the file system */
	if (!sub[0] && (!strcmp(name, JOURNAL_NAME) || (l->striped && !strcmp(name, STRIPE_MARK))))
		return 0;
	if (!sub[0] && seen.folder && l->journal.hashed && is_subfolder(name)) {
		snprintf(below, sizeof(below), "%s/", name);
		return inspect_folder(l, below, err);
	}
	e = journal_find(&l->journal, below);
	if (!e)
		e = add_unnamed(l, below, &seen);
	if (!e || !journal_entry_matches(e, &seen))
		return refuse_entry(l, sub, name, err);
	l->freed += l->striped ? striped_file_bytes(l->path, below, &seen) : seen.allocated;
	return 0;
}

/* @sub: "" or "abc/". */
static int inspect_folder(struct inspection *l, const char *sub, struct penstock_err *err)
{
	int fd = openat(l->fd, sub[0] ? sub : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *e;
	int r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		r = penstock_fail(err, -errno, "%s/%s: %s", l->path, sub, strerror(errno));
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (e = readdir(dir)))
		r = inspect_entry(l, sub, e->d_name, err);
	closedir(dir);
	return r;
}

/* What others can have written is not believed, whatever it says. */
static int inspect_owner(const struct inspection *l, const struct stat *st,
			 struct penstock_err *err)
{
	if (!S_ISREG(st->st_mode))
		return penstock_fail(err, -EEXIST, "%s/%s: is not a regular file", l->path,
				     JOURNAL_NAME);
	if (!file_is_private(st))
		return penstock_fail(
			err, -EPERM,
			"%s/%s: belongs to somebody else (user %u), or others may write "
			"to it; remove it with what it names, or use another folder",
			l->path, JOURNAL_NAME, st->st_uid);
	return 0;
}

static int inspect_layout(const struct inspection *l, struct penstock_err *err)
{
	const struct journal *b = &l->journal;

	if (b->slab == (l->o->kind == PLACE_SLAB) &&
	    (b->slab || (b->npy == (l->o->layout == PLACE_NPY) && b->hashed == l->o->hashed)))
		return 0;
	return penstock_fail(err, -EINVAL,
			     "%s: the objects of the earlier run are %s%s; use the same layout "
			     "to take them over, or have them removed (--fresh)",
			     l->path,
			     b->slab  ? "in a slab"
			     : b->npy ? "npy files"
				      : "raw files",
			     b->hashed ? " in sub-folders" : "");
}

static int inspect_marker(struct inspection *l, struct penstock_err *err)
{
	struct stat st;
	int r;

	l->marker = openat(l->fd, JOURNAL_NAME,
			   O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (l->marker < 0 && errno == ENOENT)
		return 0;
	if (l->marker < 0 || fstat(l->marker, &st) < 0)
		return penstock_fail(err, -errno, "%s/%s: %s", l->path, JOURNAL_NAME,
				     strerror(errno));
	r = inspect_owner(l, &st, err);
	if (r < 0)
		return r;
	if (flock(l->marker, LOCK_EX | LOCK_NB) < 0)
		return penstock_fail(err, -EBUSY, "%s: is in use by another run", l->path);
	r = st.st_size ? journal_load(&l->journal, l->marker, l->path, err) : 0;
	return r < 0 || !l->o->reuse || !st.st_size ? r : inspect_layout(l, err);
}

int refuse_striped_file(const char *path, struct penstock_err *err)
{
	if (penstock_stripe_get_kind(path) != 1)
		return 0;
	return penstock_fail(err, -EEXIST,
			     "%s: is a striped file, which holds no objects; in a striped folder "
			     "(`penstock stripe create --as-folder') each is a striped file",
			     path);
}

/* Cut the last name off; false: there is nothing above. */
static bool to_parent(char *path)
{
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	while (n && path[n - 1] != '/')
		n--;
	while (n > 1 && path[n - 1] == '/')
		n--;
	path[n] = '\0';
	return n > 0 && strcmp(path, "/") != 0;
}

char *nearest_folder(const char *path)
{
	char *dir = strdup(path);

	while (dir && access(*dir ? dir : ".", F_OK) < 0 && errno == ENOENT && to_parent(dir))
		;
	if (dir && !*dir)
		strcpy(dir, "."); /* instead of a name */
	return dir;
}

int refuse_striped_folder(const char *path, struct penstock_err *err)
{
	CLEANUP_FREE char *dir = nearest_folder(path);

	if (!dir)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (penstock_stripe_load_folder(NULL, dir, NULL) != 1)
		return 0;
	return penstock_fail(err, -EINVAL,
			     "%s: files are striped there, and a slab is one file; use another "
			     "layout, or another folder",
			     path);
}

int inspection_begin(struct inspection *l, struct penstock_err *err)
{
	int r = refuse_striped_file(l->path, err);

	if (r == 0 && l->o->kind == PLACE_SLAB)
		r = refuse_striped_folder(l->path, err);
	if (r < 0)
		return r;
	l->marker = -1;
	l->fd = open(l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->fd < 0)
		return penstock_fail(err, -errno, "%s: %s", l->path, strerror(errno));
	r = l->o->kind == PLACE_FILES ? penstock_stripe_load_folder(&l->striped, l->path, err) : 0;
	if (r < 0)
		return r;
	r = inspect_marker(l, err);
	return r < 0 ? r : inspect_folder(l, "", err);
}

void inspection_end(struct inspection *l)
{
	if (l->fd >= 0)
		close(l->fd);
	if (l->marker >= 0)
		close(l->marker);
	penstock_stripe_free(l->striped);
	journal_free(&l->journal);
}

/* A folder that can be made is as good as one; those above it are made, too. */
static int inspect_parent(const char *path, struct penstock_err *err)
{
	CLEANUP_FREE char *above = nearest_folder(path);

	if (!above)
		return penstock_fail(err, -ENOMEM, "out of memory");
	if (access(above, W_OK | X_OK) < 0)
		return penstock_fail(err, -errno, "%s: cannot be made: %s", path, strerror(errno));
	return 0;
}

int dir_check(const char *path, const struct place_opts *o, uint64_t *ret_freed,
	      struct penstock_err *err)
{
	struct inspection l = {.path = path, .o = o, .fd = -1, .marker = -1};
	struct stat st;
	int r;

	*ret_freed = 0;
	if (stat(path, &st) < 0 && errno == ENOENT)
		return inspect_parent(path, err);
	r = inspection_begin(&l, err);
	if (r == 0 && access(path, W_OK | X_OK) < 0)
		r = penstock_fail(err, -errno, "%s: %s", path, strerror(errno));
	*ret_freed = l.freed;
	inspection_end(&l);
	return r;
}
