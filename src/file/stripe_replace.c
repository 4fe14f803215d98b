/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A striped file that takes the place of another in one step, or of none.  The new manifest is the
 * new file of base/replace.h, but it is complete and has a name, .NAME.stripe-N, before its members
 * are made: by it whoever replaces the same file next finds what a writer that was killed has
 * left.  The old manifest gets such a name before the step, so that its members are found by it
 * behind the step.  Members have the id of their file in their names: no two files share one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/full_io.h"
#include "base/util.h"
#include "file/stripe.h"

#define SUFFIX "stripe" /* in names of manifests before or after their file is published */

int penstock_stripe_generate_id(char *id)
{
	unsigned char raw[16];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -EIO;
	for (unsigned i = 0; i < sizeof(raw); i++)
		snprintf(id + (size_t)2 * i, 3, "%02x", raw[i]);
	return 0;
}

/* ------------------------------------------------------------------ members */

int penstock_stripe_sync_folder(const char *path)
{
	CLEANUP_FREE char *dir = strdup(path);
	CLEANUP_CLOSE int fd = -1;

	if (!dir)
		return -ENOMEM;
	strrchr(dir, '/')[strrchr(dir, '/') == dir] = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : penstock_replace_sync_folder(fd);
}

int penstock_member_header_create(const struct penstock_manifest *m, unsigned i,
				  const struct penstock_backing *b, const char *name)
{
	struct penstock_member_header head = {.index = i, .nr = m->nr, .unit = m->unit};

	memcpy(head.id, m->id, sizeof(head.id));
	if (strlen(name) < sizeof(head.name) && !strchr(name, '\n'))
		memcpy(head.name, name, strlen(name) + 1);
	return penstock_member_header_write(b, &head);
}

/* Space for data.  What is not supported is no failure. */
static int reserve_data(int fd, uint64_t bytes)
{
	int r;

	do {
		r = fallocate(fd, FALLOC_FL_KEEP_SIZE, STRIPE_DATA, (off_t)bytes);
	} while (r < 0 && errno == EINTR);
	return r == 0 || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ? 0 : -errno;
}

int penstock_member_create(const struct penstock_manifest *m, unsigned i, const char *name,
			   const struct stat *like, uint64_t expected, bool sync)
{
	const struct penstock_stripe t = {.nr = m->nr, .unit = m->unit};
	struct penstock_replace one = {.had_old = true, .old = *like};
	const char *path = m->members[i];
	struct penstock_backing b;
	int r;

	one.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (one.fd < 0)
		return -errno;
	r = penstock_replace_copy_permissions(&one);
	if (!r && penstock_stripe_member_bytes(&t, i, expected))
		r = reserve_data(one.fd, penstock_stripe_member_bytes(&t, i, expected));
	if (r < 0) {
		close(one.fd);
		return r;
	}
	r = penstock_backing_open_owned_fd(&b, one.fd, path, PENSTOCK_DIRECT_NEVER, NULL);
	if (r < 0)
		return r;
	r = penstock_member_header_create(m, i, &b, name);
	if (!r)
		r = penstock_backing_truncate(&b, STRIPE_DATA);
	if (!r && sync && fsync(b.fd) < 0)
		r = -errno;
	if (!r && sync)
		r = penstock_stripe_sync_folder(path);
	penstock_backing_close(&b);
	return r;
}

/* A member that a killed process left before it had a header; nobody else makes such a name. */
static bool is_without_header(const struct penstock_manifest *m, unsigned i)
{
	const char *base = strrchr(m->members[i], '/') + 1, *id = strstr(base, m->id);
	struct stat st;

	return id && id > base && id[-1] == '.' && id[strlen(m->id)] == '.' &&
	       lstat(m->members[i], &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size < MEMBER_HEADER_BYTES;
}

/* @sync: for good, so that the manifest, by which they are found, may go. */
static int remove_members(const struct penstock_manifest *m, bool sync)
{
	int r = 0, r2;

	for (unsigned i = 0; i < m->nr; i++) {
		r2 = is_without_header(m, i) ? unlink(m->members[i])
					     : penstock_member_remove(m, i, NULL);
		r = r < 0 ? r : r2;
	}
	for (unsigned i = 0; i < m->nr && r >= 0 && sync; i++)
		r = penstock_stripe_sync_folder(m->members[i]);
	return r;
}

/*
 * A manifest under a name of ours, and nobody is at work on it.  One that has another name is in
 * use there.  Somebody else's would lead us to members that are not its own.
 */
static int remove_stale_manifest(int dir, int fd)
{
	struct penstock_manifest *m;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || st.st_uid != geteuid())
		return -EPERM;
	r = st.st_nlink > 1 ? 0 : penstock_manifest_read(&m, fd);
	if (r != 1)
		return r == -EBADMSG ? 0 : r; /* its text was never complete: no members yet */
	/* The one that took its place must not go in a loss of power, when this is no file any
	 * more. */
	r = m->folder ? 0 : penstock_replace_sync_folder(dir);
	if (!r && !m->folder)
		r = remove_members(m, true);
	penstock_manifest_free(m);
	return r;
}

void penstock_stripe_remove_stale(int dir, const char *name)
{
	penstock_replace_remove_stale(dir, name, SUFFIX, remove_stale_manifest);
}

/* --------------------------------------------------------------- before the step */

int penstock_stripe_replace_with(struct penstock_replace *r, const struct penstock_manifest *m,
				 const char *name, uint64_t expected, bool sync,
				 struct penstock_err *err)
{
	size_t len = 0;
	CLEANUP_FREE char *text = penstock_manifest_format(m, &len);
	char *temp = NULL;
	struct stat like = r->old;
	int e = text ? 0 : -ENAMETOOLONG;

	penstock_stripe_remove_stale(r->dir, r->name);
	if (!e && !r->had_old && fstat(r->fd, &like) < 0)
		e = -errno;
	if (!e)
		e = penstock_full_pwrite(r->fd, text, len, 0);
	if (!e && sync && fsync(r->fd) < 0)
		e = -errno;
	if (!e)
		e = penstock_replace_link_temp(r->fd, r->dir, r->name, SUFFIX, &temp);
	if (!e) {
		if (r->temp)
			unlinkat(r->dir, r->temp, 0);
		free(r->temp);
		r->temp = temp;
		e = sync ? penstock_replace_sync_folder(r->dir) : 0;
	}
	if (e < 0)
		return penstock_fail(err, e, "%s: %s", name, strerror(-e));
	for (unsigned i = 0; i < m->nr; i++) {
		e = penstock_member_create(m, i, name, &like, expected, sync);
		if (e < 0)
			return penstock_fail(err, e, "%s: member %u of %u, %s: %s", name, i + 1,
					     m->nr, m->members[i], strerror(-e));
	}
	return 0;
}

/* The manifest that the new file is to be like: that of the old one, or the folder's.  0: none. */
static int find_manifest_to_copy(const struct penstock_replace *r, char *full, size_t size,
				 struct penstock_manifest **out)
{
	CLEANUP_CLOSE int fd =
		openat(r->dir, r->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	int e = fd < 0 ? 0 : penstock_manifest_read(out, fd), found;

	if (e == 1 && (*out)->folder) { /* a folder manifest is a file like others */
		penstock_manifest_free(*out);
		return 0;
	}
	found = penstock_stripe_find_folder_manifest(r->dir, r->name, full, size, e ? NULL : out);
	return e ? e : found;
}

/* Members of another file become those of the next one, in the same folders. */
static int name_members(struct penstock_manifest *m, const char *name, struct penstock_err *err)
{
	int e = penstock_stripe_generate_id(m->id);

	for (unsigned i = 0; i < m->nr && !e; i++) {
		char *old = m->members[i];
		struct stat st;

		if (!m->folder && stat(old, &st) == 0 && S_ISBLK(st.st_mode))
			return penstock_fail(
				err, -EOPNOTSUPP,
				"%s: is striped over block devices, where no other can "
				"be beside it until it takes its place; `penstock stripe "
				"rm' removes it",
				name);
		if (!m->folder)
			*strrchr(old, '/') = '\0';
		m->members[i] = penstock_stripe_member_name(old, name, m->id, i);
		free(old);
		e = m->members[i] ? 0 : -ENOMEM;
	}
	m->folder = false;
	return e < 0 ? penstock_fail(err, e, "%s: %s", name, strerror(-e)) : 0;
}

char *penstock_stripe_member_name(const char *folder, const char *name, const char *id, unsigned i)
{
	const char *base = strrchr(name, '/');
	char *path;

	if (asprintf(&path, "%s/%.200s.%s.%u", strcmp(folder, "/") ? folder : "",
		     base ? base + 1 : name, id, i) < 0)
		return NULL;
	return path;
}

int penstock_stripe_replace_begin(struct penstock_replace *r, uint64_t expected, bool sync,
				  struct penstock_err *err)
{
	char full[PATH_MAX + NAME_MAX + 2];
	struct penstock_manifest *m = NULL;
	int e = find_manifest_to_copy(r, full, sizeof(full), &m);

	if (e == -EBADMSG)
		return penstock_fail(err, e, "%s: is the damaged manifest of a striped file", full);
	if (e < 0)
		return penstock_fail(err, e, "%s: %s", full, strerror(-e));
	if (e == 0)
		return 0;
	e = name_members(m, full, err);
	if (!e)
		e = penstock_stripe_replace_with(r, m, full, expected, sync, err);
	penstock_manifest_free(m);
	return e < 0 ? e : 1;
}

/* The new manifest; NULL: none, or it is published.  r->fd may be O_DIRECT by now. */
static struct penstock_manifest *read_new(const struct penstock_replace *r)
{
	CLEANUP_CLOSE int fd =
		r->temp ? openat(r->dir, r->temp, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct penstock_manifest *m = NULL;

	if (fd >= 0 && penstock_manifest_read(&m, fd) == 1 && m->folder) {
		penstock_manifest_free(m);
		m = NULL;
	}
	return m;
}

void penstock_stripe_replace_abort(const struct penstock_replace *r)
{
	struct penstock_manifest *m = read_new(r);

	if (m)
		remove_members(m, true);
	penstock_manifest_free(m);
}

void penstock_stripe_free_unused(const struct penstock_replace *r)
{
	struct penstock_manifest *m = read_new(r);
	struct stat st;

	for (unsigned i = 0; m && i < m->nr; i++) {
		CLEANUP_CLOSE int fd = open(m->members[i], O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0 && fstat(fd, &st) == 0 && ftruncate(fd, st.st_size) < 0)
			continue; /* then it has space that it does not need */
	}
	penstock_manifest_free(m);
}

/* -------------------------------------------------------------------- the step */

int penstock_stripe_replace_publish(struct penstock_replace *r, struct penstock_stripe_old *old)
{
	struct penstock_manifest *m = NULL;
	int e;

	*old = (struct penstock_stripe_old){
		.fd = openat(r->dir, r->name,
			     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)};
	e = old->fd < 0 ? 0 : penstock_manifest_read(&m, old->fd);
	if (e == 1 && !m->folder) {
		/* Whom its lock does not guard, that name would be taken for a dead one's. */
		if (flock(old->fd, LOCK_EX | LOCK_NB) == 0)
			penstock_replace_link_temp(old->fd, r->dir, r->name, SUFFIX, &old->temp);
		old->m = m;
	} else if (e == 1) {
		penstock_manifest_free(m);
	}
	e = penstock_replace_publish(r);
	if (e < 0 && old->temp)
		unlinkat(r->dir, old->temp, 0);
	return e;
}

void penstock_stripe_replace_end(const struct penstock_replace *r, struct penstock_stripe_old *old,
				 bool gone, bool sync)
{
	struct stat st;

	if (gone && old->m && fstat(old->fd, &st) == 0 && st.st_nlink == (old->temp ? 1 : 0) &&
	    remove_members(old->m, sync) == 0 && old->temp)
		unlinkat(r->dir, old->temp, 0);
	penstock_manifest_free(old->m);
	free(old->temp);
	if (old->fd >= 0)
		close(old->fd);
	*old = (struct penstock_stripe_old){.fd = -1};
}
