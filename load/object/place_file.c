/* SPDX-License-Identifier: Apache-2.0 */
/* Files of objects: made with their space reserved, written down in the marker, removed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/stripe.h>

#include "base/err.h"
#include "base/util.h"
#include "load/object/content.h"
#include "load/object/place.h"

/* The name below its folder. */
static void relative_name(const struct place *p, struct place_ref ref, const char *key,
			  uint32_t len, char out[PLACE_REL_PATH_MAX])
{
	char name[PLACE_NAME];

	place_file_name(name, key, len, ref.variant, place_suffix(&p->o));
	if (p->o.hashed)
		snprintf(out, PLACE_REL_PATH_MAX, "%03x/%s",
			 (unsigned)(content_id(key, len) >> 20) % PLACE_SUBS, name);
	else
		snprintf(out, PLACE_REL_PATH_MAX, "%s", name);
}

int place_file_path(const struct place *p, struct place_ref ref, const char *key, uint32_t len,
		    char out[PLACE_PATH])
{
	char name[PLACE_REL_PATH_MAX];

	relative_name(p, ref, key, len, name);
	return snprintf(out, PLACE_PATH, "%s/%s", p->dirs[ref.dir].path, name);
}

/* The sub-folder of a name, if it is in one; asked for once only. */
static int make_sub(const struct place *p, struct place_dir *d, const char *name)
{
	unsigned nr = p->o.hashed ? (unsigned)strtoul(name, NULL, 16) : 0;
	uint64_t bit = 1ull << nr % 64;
	char sub[4] = "";

	if (!p->o.hashed || (atomic_load(&d->subs[nr / 64]) & bit))
		return 0;
	memcpy(sub, name, 3);
	if (mkdirat(d->fd, sub, 0755) < 0 && errno != EEXIST)
		return -errno;
	atomic_fetch_or(&d->subs[nr / 64], bit);
	return 0;
}

/* One that is not needed any more, or a new one.  -EEXIST: the name is not free. */
static int make_at(struct place *p, struct place_ref ref, const char *name, const char *key,
		   uint32_t len, uint64_t bytes)
{
	struct place_dir *d = &p->dirs[ref.dir];
	int fd = dir_file_claim(d, name, key, len);

	if (fd < 0)
		return fd;
	fd = make_sub(p, d, name);
	if (fd == 0)
		fd = spare_take(p, ref.dir, name, bytes);
	if (fd == -ENOENT)
		fd = dir_file_make(d, name);
	if (fd < 0)
		dir_file_forget(d, name);
	return fd;
}

/* All of it at once; where the file system cannot, the library does what can be done. */
static int file_reserve(struct place *p, int fd, uint64_t bytes)
{
	bool again = p->spares;
	int r;

	if (!bytes)
		return 0;
	for (;;) {
		r = fallocate(fd, 0, 0, (off_t)bytes);
		if (r == 0 || (errno != EINTR && (errno != ENOSPC || !again)))
			break;
		if (errno == ENOSPC) {
			again = false;
			spares_trim(p, 0);
		}
	}
	if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == EPERM))
		return 0;
	return r < 0 ? -errno : 0;
}

static int file_fail(const struct place *p, struct place_ref ref, const char *name,
		     const char *what, int code, struct penstock_err *err)
{
	return penstock_fail(err, code, "%s/%s: %s: %s", p->dirs[ref.dir].path, name, what,
			     code == -ESTALE ? "another file has its name" : strerror(-code));
}

int place_file_make(struct place *p, struct place_ref *ref, const char *key, uint32_t len,
		    uint64_t bytes, struct penstock_err *err)
{
	char name[PLACE_REL_PATH_MAX];
	int fd, r;

	ref->dir = (uint16_t)(content_id(key, len) % p->o.nr_paths);
	for (ref->variant = 0;; ref->variant++) {
		relative_name(p, *ref, key, len, name);
		fd = make_at(p, *ref, name, key, len, bytes);
		if (fd != -EEXIST || ref->variant == UINT16_MAX)
			break;
	}
	if (fd < 0)
		return file_fail(p, *ref, name, "cannot make it", fd, err);
	spares_trim(p, atomic_load(&p->slack));
	/* a striped one is empty until it is opened, or a manifest: the library reserves */
	r = p->dirs[ref->dir].striped ? 0 : file_reserve(p, fd, bytes);
	if (r == 0)
		return fd;
	close(fd);
	dir_file_remove(&p->dirs[ref->dir], name);
	return file_fail(p, *ref, name, "cannot reserve its space", r, err);
}

int place_file_open(struct place *p, struct place_ref ref, const char *key, uint32_t len, int flags,
		    struct penstock_err *err)
{
	char name[PLACE_REL_PATH_MAX];
	int fd;

	relative_name(p, ref, key, len, name);
	fd = dir_file_open(&p->dirs[ref.dir], name, flags);
	return fd < 0 ? file_fail(p, ref, name, "cannot open it", fd, err) : fd;
}

/* The names of members, too. */
static int sync_folders(const struct place_dir *d)
{
	int r = fsync(d->fd) < 0 ? -errno : 0;

	for (unsigned i = 0; r == 0 && d->striped && i < d->striped->nr; i++) {
		CLEANUP_CLOSE int fd =
			open(d->striped->members[i].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		r = fd < 0 || fsync(fd) < 0 ? -errno : 0;
	}
	return r;
}

int place_file_done(struct place *p, struct place_ref ref, const char *key, uint32_t len,
		    struct penstock_err *err)
{
	struct place_dir *d = &p->dirs[ref.dir];
	char name[PLACE_REL_PATH_MAX];
	int r = 0;

	relative_name(p, ref, key, len, name);
	if (p->o.durability == PENSTOCK_DURABLE_FULL)
		r = sync_folders(d);
	if (r == 0)
		r = dir_file_complete(d, name);
	return r < 0 ? file_fail(p, ref, name, "cannot write it down", r, err) : 0;
}

int place_file_remove(struct place *p, struct place_ref ref, const char *key, uint32_t len,
		      struct penstock_err *err)
{
	char name[PLACE_REL_PATH_MAX];
	int r;

	relative_name(p, ref, key, len, name);
	r = dir_file_remove(&p->dirs[ref.dir], name);
	return r < 0 ? file_fail(p, ref, name, "cannot remove it", r, err) : 0;
}

int place_file_retire(struct place *p, struct place_ref ref, const char *key, uint32_t len,
		      struct penstock_err *err)
{
	char name[PLACE_REL_PATH_MAX];

	relative_name(p, ref, key, len, name);
	return spare_keep(p, ref.dir, name) ? 0 : place_file_remove(p, ref, key, len, err);
}

static const char *descr(unsigned element)
{
	return element == 4 ? "<f4" : element == 1 ? "|u1" : "<f2";
}

int place_npy_header(char out[PLACE_HEADER], const char *shape, unsigned element, uint64_t size)
{
	enum { PREFIX = 10 };
	char flat[32];
	int n;

	if (!element || size % element)
		element = 1;
	if (!shape) {
		snprintf(flat, sizeof(flat), "(%" PRIu64 ",)", size / element);
		shape = flat;
	}
	memset(out, ' ', PLACE_HEADER);
	memcpy(out, "\x93NUMPY\x01\x00", 8);
	out[8] = (char)((PLACE_HEADER - PREFIX) & 0xff);
	out[9] = (char)((PLACE_HEADER - PREFIX) >> 8);
	n = snprintf(out + PREFIX, PLACE_HEADER - PREFIX,
		     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr(element),
		     shape);
	if (n < 0 || n >= (int)(PLACE_HEADER - PREFIX - 1))
		return -EINVAL;
	out[PREFIX + n] = ' ';
	out[PLACE_HEADER - 1] = '\n';
	return 0;
}
