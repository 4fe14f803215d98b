/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a folder while it is in use.  Each is known by its number and birth from the moment
 * it is made, in memory and in the marker; a file that has come to its name in another way is
 * neither opened, written over nor removed.  File threads call this, several at once: a name is
 * claimed by one of them at a time, and between claim and end the entry is that one's alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/openat_safe.h"
#include "load/object/place.h"

static struct journal_entry *dir_file_find(struct place_dir *d, const char *name)
{
	struct journal_entry *e;

	pthread_mutex_lock(&d->lock);
	e = journal_find(&d->journal, name);
	pthread_mutex_unlock(&d->lock);
	return e;
}

/* Where numbers mean nothing, a file that has no other name is not somebody's elsewhere. */
static bool dir_file_is_file(const struct place_dir *d, const struct journal_entry *e,
			     const struct file_stat *now)
{
	if (d->unstable_inodes && now->regular && now->links == 1)
		return true;
	return now->regular && e->state != JOURNAL_BEGUN && e->file.inode == now->file.inode &&
	       e->file.birth_ns == now->file.birth_ns;
}

/* 0, -ESTALE, or -errno of looking at it; @fd: of the file, or -1. */
static int dir_file_check(struct place_dir *d, const char *name, int fd, struct file_stat *seen)
{
	const struct journal_entry *e = dir_file_find(d, name);
	int r;

	if (!e)
		return -ENOENT;
	r = fd >= 0 ? file_stat_at(seen, fd, "") : file_stat_at(seen, d->fd, name);
	if (r < 0)
		return r;
	return dir_file_is_file(d, e, seen) ? 0 : -ESTALE;
}

static struct journal_entry *claim_entry(struct place_dir *d, const char *name, int *ret)
{
	struct journal_entry *e = NULL;

	pthread_mutex_lock(&d->lock);
	*ret = journal_find(&d->journal, name) ? -EEXIST : 0;
	if (*ret == 0)
		e = journal_add(&d->journal, name);
	pthread_mutex_unlock(&d->lock);
	if (*ret == 0 && !e)
		*ret = -ENOMEM;
	return e;
}

static void drop_entry(struct place_dir *d, const char *name)
{
	struct journal_entry *e;

	pthread_mutex_lock(&d->lock);
	e = journal_find(&d->journal, name);
	if (e)
		journal_drop(&d->journal, e);
	pthread_mutex_unlock(&d->lock);
}

/* For this process; the marker hears of it when there is a file.  Only there the key is needed. */
int dir_file_claim(struct place_dir *d, const char *name, const char *key, uint32_t len)
{
	struct journal_entry *e;
	int r;

	e = claim_entry(d, name, &r);
	if (!e)
		return r;
	if (key && place_name_cut(key, len)) {
		e->key = malloc(len);
		e->key_len = len;
		if (e->key)
			memcpy(e->key, key, len);
		else
			r = -ENOMEM;
	}
	if (r < 0)
		drop_entry(d, name);
	return r;
}

/* After the line, so that another claim of the name comes behind it. */
void dir_file_forget(struct place_dir *d, const char *name)
{
	const struct journal_entry *e = dir_file_find(d, name);

	if (e && e->state != JOURNAL_BEGUN)
		journal_write_gone(d->journal_fd, name);
	drop_entry(d, name);
}

int dir_file_made(struct place_dir *d, const char *name, int fd)
{
	struct journal_entry *e = dir_file_find(d, name);
	struct file_stat seen;
	int r = file_stat_at(&seen, fd, "");

	if (r < 0)
		return r;
	e->file = seen.file;
	e->state = JOURNAL_MADE;
	return journal_write(d->journal_fd, e);
}

int dir_file_complete(struct place_dir *d, const char *name)
{
	struct file_stat seen;
	struct journal_entry *e = dir_file_find(d, name);
	int r = dir_file_check(d, name, -1, &seen);

	if (r < 0)
		return r;
	free(TAKE_PTR(e->key));
	e->key_len = 0;
	e->file = seen.file;
	if (d->striped)
		e->file.bytes = striped_file_bytes(d->path, name, &seen);
	e->state = JOURNAL_COMPLETE;
	return journal_write(d->journal_fd, e);
}

int dir_file_open(struct place_dir *d, const char *name, int flags)
{
	int fd = penstock_openat_safe(d->fd, name, flags | O_NONBLOCK, 0), r;
	struct file_stat seen;

	if (fd < 0)
		return fd;
	r = dir_file_check(d, name, fd, &seen);
	if (r == 0)
		return fd;
	close(fd);
	return r == -ENOENT ? -ESTALE : r;
}

int dir_file_unlink(struct place_dir *d, const char *name)
{
	struct file_stat seen;
	int r = dir_file_check(d, name, -1, &seen);

	if (r < 0)
		return r;
	return d->striped ? unlink_with_members(d->fd, name)
			  : penstock_unlinkat_safe(d->fd, name, 0);
}

int dir_file_remove(struct place_dir *d, const char *name)
{
	int r = dir_file_unlink(d, name);

	if (r == 0 || r == -ENOENT || r == -ESTALE)
		dir_file_forget(d, name); /* whatever has the name now is not ours */
	return r;
}

int dir_file_remove_all(struct place_dir *d)
{
	struct journal_entry *e = NULL;
	uint64_t pos = 0;
	int first = 0, r;

	while ((e = journal_next(&d->journal, &pos, e))) {
		r = dir_file_unlink(d, e->name);
		if (r < 0 && r != -ENOENT && r != -ESTALE && first == 0)
			first = r;
	}
	return first;
}

int64_t dir_file_size(struct place_dir *d, const char *name)
{
	struct file_stat seen;
	int r = dir_file_check(d, name, -1, &seen);

	if (r < 0)
		return r;
	if (seen.links != 1)
		return -EMLINK;
	return (int64_t)(d->striped ? striped_file_bytes(d->path, name, &seen) : seen.file.bytes);
}

/* Both names are in the marker while it happens, one of them without a file. */
int dir_file_rename(struct place_dir *d, const char *from, const char *to)
{
	struct journal_entry *new = dir_file_find(d, to), *old = dir_file_find(d, from);
	struct file_stat seen;
	int r = dir_file_check(d, from, -1, &seen);

	if (r < 0)
		return r;
	new->file = old->file;
	new->state = JOURNAL_MADE;
	r = journal_write(d->journal_fd, new);
	if (r == 0)
		r = penstock_renameat_new(d->fd, from, to);
	if (r == 0)
		dir_file_forget(d, from);
	return r;
}

/* Under a name that only we can have given it. */
static int make_new(struct place_dir *d, const char *name, char temp[PLACE_REL_PATH_MAX])
{
	int fd = -EEXIST;

	for (unsigned tries = 0; fd == -EEXIST && tries < 100; tries++) {
		journal_temp_name(temp, PLACE_REL_PATH_MAX, &d->journal, name,
				  atomic_fetch_add(&d->next, 1));
		fd = penstock_openat_safe(d->fd, temp, O_RDWR | O_CREAT | O_EXCL, 0644);
	}
	return fd == -EEXIST ? -EIO : fd;
}

/* Where nothing can be renamed: a run that is killed now leaves a file that nobody knows. */
static int make_named(struct place_dir *d, const char *name)
{
	int fd = penstock_openat_safe(d->fd, name, O_RDWR | O_CREAT | O_EXCL, 0644);
	int r = fd < 0 ? fd : dir_file_made(d, name, fd);

	if (r == 0 || fd < 0)
		return fd;
	close(fd);
	penstock_unlinkat_safe(d->fd, name, 0);
	return r;
}

int dir_file_make(struct place_dir *d, const char *name)
{
	char temp[PLACE_REL_PATH_MAX];
	int fd, r;

	if (atomic_load(&d->cannot_rename))
		return make_named(d, name);
	fd = make_new(d, name, temp);
	if (fd < 0)
		return fd;
	r = dir_file_made(d, name, fd);
	if (r == 0)
		r = penstock_renameat_new(d->fd, temp, name);
	if (r == 0)
		return fd;
	close(fd);
	penstock_unlinkat_safe(d->fd, temp, 0);
	if (r != -ENOSYS)
		return r;
	atomic_store(&d->cannot_rename, true);
	return make_named(d, name);
}
