/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of a place.  All of a folder is looked at (place_inspection.c) before anything in it is
 * touched; what the journal of the folder does not name is a stranger's, and then nothing is
 * touched at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include <penstock/stripe.h>

#include "base/err.h"
#include "base/util.h"
#include "load/measure/free_space.h"
#include "load/object/place.h"
#include "load/object/place_inspection.h"

/* The folder, or the nearest one above it that exists. */
int dir_free_bytes(const char *path, uint64_t *ret, dev_t *ret_dev, struct penstock_err *err)
{
	CLEANUP_FREE char *dir = nearest_folder(path);

	if (!dir)
		return penstock_fail(err, -ENOMEM, "out of memory");
	return free_space_get(dir, ret, ret_dev, err);
}

/* ------------------------------------------------------------- taking it over */

/*
 * Remove what the journal names, which was looked at; with @reuse what is complete stays, and what
 * goes is struck out.  -errno of the first that stays.
 */
static int dir_remove_old(struct inspection *l, bool reuse)
{
	struct journal_entry *e, *next;
	struct file_stat seen;
	uint64_t pos = 0;
	int r = 0;

	for (e = journal_next(&l->journal, &pos, NULL); r == 0 && e; e = next) {
		bool there =
			file_stat_at(&seen, l->fd, e->name) == 0 && journal_entry_matches(e, &seen);

		next = journal_next(&l->journal, &pos, e);
		if (there && reuse && e->state == JOURNAL_COMPLETE) {
			e->file.inode = seen.file.inode; /* it may be a copy */
			e->file.birth_ns = seen.file.birth_ns;
			continue;
		}
		if (there)
			r = unlink_with_members(l->fd, e->name);
		/* it was being made, or removed */
		if (r == 0 && l->striped && (!there || !seen.file.bytes))
			penstock_stripe_remove_orphans(l->path, e->file.inode);
		if (r == 0 && reuse)
			r = journal_write_gone(l->marker, e->name);
		if (r == 0)
			journal_drop(&l->journal, e);
	}
	return r;
}

static int remember_entry(struct place *p, unsigned dir, const struct journal_entry *e,
			  uint64_t bytes)
{
	const char *slash = strrchr(e->name, '/'), *name = slash ? slash + 1 : e->name;
	uint64_t head = p->o.layout == PLACE_NPY ? PLACE_HEADER : 0;
	const char *tilde = strrchr(name, '~');
	struct place_old *o;

	if (bytes < head)
		return 0;
	o = place_old_add(p);
	if (!o)
		return -ENOMEM;
	o->name = malloc(e->key ? e->key_len + 1 : strlen(name) + 1);
	if (!o->name)
		return -ENOMEM;
	o->name_len = e->key_len;
	if (e->key)
		memcpy(o->name, e->key, e->key_len);
	else if (place_name_key(o->name, &o->name_len, name, place_suffix(&p->o)) < 0)
		return -EINVAL;
	o->size = bytes - head;
	o->ref.dir = (uint16_t)dir;
	o->ref.variant = tilde ? (uint16_t)strtoul(tilde + 1, NULL, 10) : 0;
	return 0;
}

/*
 * Objects of an earlier run that are complete.  One whose file has become shorter is still as long
 * as it was: who reads it shall hear of that.
 */
static int dir_remember(struct place *p, unsigned dir, const struct inspection *l,
			struct penstock_err *err)
{
	struct journal_entry *e = NULL;
	uint64_t pos = 0;
	int r = 0;

	while (r == 0 && (e = journal_next(&l->journal, &pos, e)))
		r = remember_entry(p, dir, e, e->file.bytes);
	return r < 0 ? penstock_fail(err, r, "%s: %s", l->path, strerror(-r)) : 0;
}

static int new_marker(struct inspection *l, struct penstock_err *err)
{
	l->marker = openat(l->fd, JOURNAL_NAME,
			   O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (l->marker < 0)
		return penstock_fail(err, -errno, "%s/%s: %s", l->path, JOURNAL_NAME,
				     strerror(errno));
	l->marked = true;
	if (flock(l->marker, LOCK_EX | LOCK_NB) < 0)
		return penstock_fail(err, -EBUSY, "%s: is in use by another run", l->path);
	return 0;
}

static void remove_subfolders(int fd)
{
	char name[4];

	for (unsigned i = 0; i < PLACE_SUBS; i++) {
		snprintf(name, sizeof(name), "%03x", i);
		unlinkat(fd, name, AT_REMOVEDIR);
	}
}

static int start_marker(const struct place *p, unsigned dir, struct inspection *l,
			struct penstock_err *err)
{
	unsigned made = p->dirs[dir].made ? p->dirs[dir].made : l->journal.made;
	int r;

	if (l->journal.hashed) /* while the marker still says so */
		remove_subfolders(l->fd);
	journal_free(&l->journal);
	l->journal.made = made;
	r = journal_begin(&l->journal, l->marker, &p->o);
	return r < 0 ? penstock_fail(err, r, "%s/%s: %s", l->path, JOURNAL_NAME, strerror(-r)) : 0;
}

static int take_over(struct place *p, unsigned dir, struct inspection *l, struct penstock_err *err)
{
	bool reuse = p->o.reuse && l->marker >= 0 && l->journal.table.nr;
	int r = l->marker < 0 ? new_marker(l, err) : 0;

	if (r < 0)
		return r;
	if (reuse && ftruncate(l->marker, (off_t)l->journal.bytes) < 0) /* half a line, if any */
		r = -errno;
	if (r == 0)
		r = dir_remove_old(l, reuse);
	if (r < 0)
		return penstock_fail(err, r, "%s: cannot remove what an earlier run left: %s",
				     l->path, strerror(-r));
	if (!reuse)
		return start_marker(p, dir, l, err);
	return p->o.kind == PLACE_FILES ? dir_remember(p, dir, l, err) : 0;
}

/* The folder and those above it, as far as they are missing. */
static int make_folders(struct place_dir *d)
{
	size_t len = strlen(d->path);
	bool made;
	int r = 0;

	for (size_t n = 1; r == 0 && n <= len; n++) {
		char end = d->path[n];

		if ((end && end != '/') || d->path[n - 1] == '/')
			continue;
		d->path[n] = '\0';
		made = mkdir(d->path, 0755) == 0;
		if (!made && errno != EEXIST && access(d->path, F_OK) < 0)
			r = -errno;
		d->made += made || d->made;
		d->path[n] = end;
	}
	return r;
}

/* The last name of @path, which is cut off; "" where there is none. */
static char *cut_name(char *path)
{
	size_t n = strlen(path);

	while (n && path[n - 1] == '/')
		n--;
	path[n] = '\0';
	while (n && path[n - 1] != '/')
		n--;
	if (n)
		path[n - 1] = '\0';
	return path + n;
}

/* Does what is open have this name? */
static bool is_same(int parent, const char *name, int folder)
{
	struct stat is, was;

	return fstatat(parent, name, &is, AT_SYMLINK_NOFOLLOW) == 0 && fstat(folder, &was) == 0 &&
	       is.st_dev == was.st_dev && is.st_ino == was.st_ino;
}

/*
 * Folders that were made for it, from the last one up, unless somebody else has put something
 * there, or something else in their place.
 */
static void remove_folders(const struct place_dir *d, int folder, unsigned made)
{
	CLEANUP_FREE char *path = made ? strdup(d->path) : NULL;
	int at = path ? dup(folder) : -1, up;
	const char *name;

	for (; at >= 0 && made; made--) {
		name = cut_name(path);
		if (!strcmp(name, "."))
			continue;
		up = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (up < 0 || !is_same(up, name, at) || unlinkat(up, name, AT_REMOVEDIR) < 0)
			made = 1;
		close(at);
		at = up;
	}
	if (at >= 0)
		close(at);
}

/* Numbers that a FUSE server makes up may change while a file is there. */
static bool has_unstable_inodes(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC;
}

static int dir_open(struct place *p, unsigned i, struct penstock_err *err)
{
	struct place_dir *d = &p->dirs[i];
	struct inspection l = {.path = p->paths[i], .o = &p->o, .fd = -1, .marker = -1};
	int r;

	d->path = p->paths[i];
	r = make_folders(d);
	if (r < 0)
		penstock_fail(err, r, "%s: cannot be made: %s", d->path, strerror(-r));
	else
		r = inspection_begin(&l, err);
	if (r == 0)
		r = take_over(p, i, &l, err);
	if (l.marked || r == 0) {
		d->fd = l.fd;
		d->journal_fd = l.marker;
		d->marked = l.marked;
		d->unstable_inodes = has_unstable_inodes(l.fd);
		d->journal = l.journal;
		d->striped = TAKE_PTR(l.striped);
		l.fd = l.marker = -1;
		l.journal = (struct journal){0};
	} else if (l.fd >= 0) {
		remove_folders(d, l.fd, d->made);
	}
	inspection_end(&l);
	return r;
}

/* All of them could be opened: what was kept there is kept no more. */
static int note_use(struct place *p, struct penstock_err *err)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && p->o.reuse && i < p->o.nr_paths; i++) {
		r = journal_write_all(p->dirs[i].journal_fd, false);
		if (r < 0)
			penstock_fail(err, r, "%s/%s: %s", p->dirs[i].path, JOURNAL_NAME,
				      strerror(-r));
	}
	return r;
}

int dirs_open(struct place *p, struct penstock_err *err)
{
	int r = 0;

	p->dirs = calloc(p->o.nr_paths, sizeof(*p->dirs));
	if (!p->dirs)
		return penstock_fail(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < p->o.nr_paths; i++) {
		p->dirs[i].fd = p->dirs[i].journal_fd = -1;
		pthread_mutex_init(&p->dirs[i].lock, NULL);
	}
	for (unsigned i = 0; r == 0 && i < p->o.nr_paths; i++)
		r = dir_open(p, i, err);
	if (r == 0 && spares_open(p) < 0)
		r = penstock_fail(err, -ENOMEM, "out of memory");
	return r == 0 ? note_use(p, err) : r;
}

/* ------------------------------------------------------------------ the end */

static int dir_empty(const struct place *p, struct place_dir *d, struct penstock_err *err)
{
	int r = dir_file_remove_all(d);

	if (p->o.hashed)
		remove_subfolders(d->fd);
	if (r < 0)
		return penstock_fail(err, r, "%s: cannot remove an object: %s", d->path,
				     strerror(-r));
	if (is_same(d->fd, JOURNAL_NAME, d->journal_fd) && unlinkat(d->fd, JOURNAL_NAME, 0) < 0)
		return penstock_fail(err, -errno, "%s/%s: %s", d->path, JOURNAL_NAME,
				     strerror(errno));
	remove_folders(d, d->fd, d->journal.made);
	return 0;
}

/* Emptied, or left as it is. */
static int dir_end(const struct place *p, struct place_dir *d, struct penstock_err *err)
{
	bool keep = p->ready ? p->o.keep : !d->marked; /* as it was found */
	int r;

	if (d->journal_fd < 0)
		return 0;
	if (!keep)
		return dir_empty(p, d, err);
	r = p->ready ? journal_write_all(d->journal_fd, true) : 0;
	return r < 0 ? penstock_fail(err, r, "%s/%s: %s", d->path, JOURNAL_NAME, strerror(-r)) : 0;
}

int dirs_close(struct place *p, struct penstock_err *err)
{
	int r, first = 0;

	spares_close(p);
	for (unsigned i = 0; p->dirs && i < p->o.nr_paths; i++) {
		struct place_dir *d = &p->dirs[i];

		r = dir_end(p, d, first ? NULL : err);
		first = first ? first : r;
		if (d->journal_fd >= 0)
			close(d->journal_fd);
		if (d->fd >= 0)
			close(d->fd);
		journal_free(&d->journal);
		penstock_stripe_free(d->striped);
		pthread_mutex_destroy(&d->lock);
	}
	free(p->dirs);
	p->dirs = NULL;
	return first;
}
